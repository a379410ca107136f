"""Look after semaphores that nobody calls: lost alarms, old receipts, semaphores that are not used any more.

One field, `sweep_at`, says when a semaphore must be looked at for any of these reasons; a sweep that finds nothing due
costs one read. The clean-up is the kit's own and guarded, not a time-to-live policy: a receipt is deleted only when
its lease is over.
"""

from shared.core.operations.ports import Conflict, Order, Ports, Query, Snapshot
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, Unavailable
from shared.semaphores.operations.admission import admit
from shared.semaphores.operations.records import incarnation_of
from shared.semaphores.operations.removal import remove
from shared.semaphores.operations.transitions import SemaphoreReads, change
from shared.semaphores.rules import upkeep as rules
from shared.semaphores.rules.semaphores import COLLECTION, Semaphore

SWEEP_AT = Order(("sweep_at",))


def sweep(ports: Ports) -> int:
    """Look after the semaphores that are due; return their number."""
    first = ports.store.query(Query(COLLECTION, order_by=(SWEEP_AT,), limit=1))
    if not any(map(_is_due, first)):
        return 0
    page = ports.store.query(Query(COLLECTION, order_by=(SWEEP_AT,), limit=LIMITS.semaphores_swept_max))
    due = [snapshot for snapshot in page if _is_due(snapshot)]
    for snapshot in due:
        _look_after(ports, snapshot)
    return len(due)


def _is_due(snapshot: Snapshot) -> bool:
    return snapshot.data is not None and snapshot.data["sweep_at"] <= snapshot.read_time


def _look_after(ports: Ports, snapshot: Snapshot) -> None:
    name = snapshot.id
    try:
        if _is_unused(snapshot):
            remove(ports, name, incarnation_of(snapshot), snapshot.guard)
            return
        admit(ports, name)
        change(ports, SemaphoreReads(name, rules.clean_up_reads), rules.clean_up)
    except (Conflict, Unavailable, Problem) as error:
        ports.log.info("semaphore left to the next sweep", semaphore=name, reason=str(error))


def _is_unused(snapshot: Snapshot) -> bool:
    assert snapshot.data is not None
    assert snapshot.update_time is not None
    return rules.is_unused(Semaphore.from_record(snapshot.data), snapshot.read_time, snapshot.update_time)
