"""Look after semaphores that nobody calls: lost alarms, old receipts, semaphores that are not used any more.

One field, `sweep_at`, says when a semaphore must be looked at for any of these reasons; a sweep that finds nothing due
costs one read. Every visit moves `sweep_at` past now: by the commit of what it changed, or else by postponing it. The
clean-up is the kit's own and guarded, not a time-to-live policy: a receipt is deleted only when the semaphore's record
has no lease of its wait.
"""

from contextlib import suppress

from shared.core.operations.due_records import due_records
from shared.core.operations.ports import Change, Conflict, Ports, Snapshot
from shared.core.operations.time_budgets import Budget, unlimited
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, Unavailable
from shared.semaphores.operations.records import incarnation_of
from shared.semaphores.operations.removal import remove
from shared.semaphores.operations.transitions import SemaphoreReads, change
from shared.semaphores.rules import admission
from shared.semaphores.rules import upkeep as rules
from shared.semaphores.rules.semaphores import COLLECTION, Semaphore

FAILURES = (Conflict, Unavailable, Problem)


def sweep(ports: Ports, budget: Budget = unlimited) -> int:
    """Look after the semaphores that are due, the longest due first; return the number of visits."""
    visits = 0
    for snapshot in due_records(ports.store, COLLECTION, "sweep_at", LIMITS.semaphores_sweep_page, budget()):
        _visit(ports, snapshot)
        visits += 1
    return visits


def _visit(ports: Ports, snapshot: Snapshot) -> None:
    try:
        moved = _look_after(ports, snapshot)
    except FAILURES as error:
        ports.log.info("semaphore left to a later sweep", semaphore=snapshot.id, reason=str(error))
        moved = False
    if not moved:
        _postpone(ports, snapshot)


def _look_after(ports: Ports, snapshot: Snapshot) -> bool:
    """Do what is due; return whether that changed the semaphore."""
    assert snapshot.data is not None, "a query finds only records that exist"
    assert snapshot.update_time is not None
    name, semaphore = snapshot.id, Semaphore.from_record(snapshot.data)
    if rules.is_unused(semaphore, snapshot.read_time, snapshot.update_time):
        remove(ports, name, incarnation_of(snapshot), snapshot.guard)
        return True
    reads = SemaphoreReads(name, admission.admit_reads, releases=LIMITS.releases_page_max)
    admitted = change(ports, reads, admission.admit).committed
    if not rules.clean_up_due(semaphore, snapshot.read_time):
        return admitted is not None
    return _clean_up(ports, name) or admitted is not None


def _clean_up(ports: Ports, name: str) -> bool:
    """Delete old receipts, some pages of them; return whether that changed the semaphore."""
    for page in range(LIMITS.clean_pages_max):
        changed = change(ports, SemaphoreReads(name, rules.clean_up_reads), rules.clean_up)
        if not rules.clean_up_due(changed.transition.semaphore, changed.loaded.now):
            return page > 0 or changed.committed is not None
    return True


def _postpone(ports: Ports, snapshot: Snapshot) -> None:
    """Move `sweep_at` of a semaphore that is as it was; whoever changed it meanwhile has moved it."""
    assert snapshot.data is not None, "a query finds only records that exist"
    assert snapshot.update_time is not None
    pause = snapshot.data["sweep_at"] - snapshot.update_time
    later = rules.postponed(Semaphore.from_record(snapshot.data), pause, snapshot.read_time)
    with suppress(*FAILURES):
        ports.store.commit([Change(snapshot.path, {("sweep_at",): later}, snapshot.guard)])
