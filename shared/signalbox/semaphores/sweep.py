"""The sweeper's part, and the removal of semaphores and of the records below them.

The sweeper finds semaphores whose alarm was lost, that have old receipts, that are no longer used, or whose grant no
task has claimed for an hour: that wait returns to its place in the wait queue. One field, `sweep_at`, is the time by
which a semaphore must be visited for any of these reasons, so a sweep that finds none due costs one read. Every visit
moves `sweep_at` past now: its commit does so if it changed the semaphore, and otherwise it postpones the time.

The kit deletes receipts itself, under a precondition, and not by a time-to-live policy: a receipt is deleted only if
the semaphore's record has no lease of its wait.
"""

from collections.abc import Sequence
from contextlib import suppress

from signalbox.core import outbox
from signalbox.core.due_records import due_records, postpone
from signalbox.core.effects import Decision, Effect
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Budget, Change, Conflict, Delete, Guard, Ports, Query, Snapshot, unlimited
from signalbox.core.problems import NotInCatalogue, Problem, Unavailable
from signalbox.core.times import microseconds
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine import deletion, wait_queue
from signalbox.semaphores.machine.decision_types import Loaded, Transition, clean_up_task, end_tasks, unchanged
from signalbox.semaphores.machine.leases import Claimed, claim_lost
from signalbox.semaphores.model.leases import LeaseRecord
from signalbox.semaphores.model.semaphore import COLLECTION, Semaphore, path_of
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.storage import SemaphoreReads, change, incarnation_of, read_waiter

FAILURES = (Conflict, Unavailable, Problem)

BELOW = ("waiters", "releases")
"""The collections below a semaphore's record."""


def sweep(ports: Ports, budget: Budget = unlimited) -> int:
    """Visit the semaphores that are due, the longest due first; return the number of visits."""
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
    except Exception as error:  # noqa: BLE001 - a record that cannot be read must not keep the sweeper from the others
        ports.log.error("semaphore cannot be swept", semaphore=snapshot.id, exception=error)
        postpone(ports, snapshot, "sweep_at")
        return
    if not moved:
        postpone_sweep(ports, snapshot)


def _look_after(ports: Ports, snapshot: Snapshot) -> bool:
    """Delete the semaphore if it is unused, or admit and clean up; return whether that changed the semaphore."""
    assert snapshot.data is not None, "a query finds only records that exist"
    assert snapshot.update_time is not None
    name, semaphore = snapshot.id, Semaphore.from_record(snapshot.data)
    for lease in semaphore.silent_grants(snapshot.read_time)[: LIMITS.silent_grants_max]:
        return_to_queue(ports, name, lease)
    if deletion.is_unused(semaphore, snapshot.read_time, snapshot.update_time):
        remove(ports, name, incarnation_of(snapshot), snapshot.guard)
        return True
    reads = SemaphoreReads(name, wait_queue.admit_reads, releases=LIMITS.releases_page_max)
    admitted = change(ports, reads, wait_queue.admit).committed
    if not deletion.clean_up_due(semaphore, snapshot.read_time):
        return admitted is not None
    return _clean_up(ports, name) or admitted is not None


def return_to_queue(ports: Ports, name: str, lease: LeaseRecord) -> None:
    """Put a wait whose grant no task has claimed back into the queue. If that task arrives later, it does not run."""

    def rule(loaded: Loaded) -> Transition[Claimed]:
        found = loaded.semaphore.granted_as(lease.id, lease.grant)
        if found is None or found.claimed or found.is_live(loaded.now):
            return unchanged(loaded, None)
        back = claim_lost(loaded, found, lease.grant)
        left = back.semaphore if back.waiters else loaded.semaphore.end(found)  # its wait is gone
        return replace(back, semaphore=left)

    changed = change(ports, SemaphoreReads(name, wait_id=lease.id), rule)
    if changed.committed is not None:
        shown = waiter.task_shown() if (waiter := changed.loaded.wait) else {}
        ports.log.info("grant without a task, wait returned", semaphore=name, wait=lease.id, **shown)


def _clean_up(ports: Ports, name: str) -> bool:
    """Delete a few pages of old receipts; return whether that changed the semaphore."""
    for page in range(LIMITS.clean_pages_max):
        changed = change(ports, SemaphoreReads(name, deletion.clean_up_reads), deletion.clean_up)
        if not deletion.clean_up_due(changed.transition.semaphore, changed.loaded.now):
            return page > 0 or changed.committed is not None
    return True


def postpone_sweep(ports: Ports, snapshot: Snapshot) -> None:
    """Move `sweep_at` of a semaphore that this visit did not change, unless another commit has moved it."""
    assert snapshot.data is not None, "a query finds only records that exist"
    assert snapshot.update_time is not None
    pause = snapshot.data["sweep_at"] - snapshot.update_time
    later = deletion.postponed(Semaphore.from_record(snapshot.data), pause, snapshot.read_time)
    with suppress(*FAILURES):
        ports.store.commit([Change(snapshot.path, {("sweep_at",): later}, snapshot.guard)])


# --- removal ---


def delete(ports: Ports, name: str) -> None:
    """Delete a semaphore; its waits end. Raises `NoSemaphore` or `Unavailable`.

    Only the semaphore that this call finds first is deleted. A semaphore of the same name that was created in the
    meantime stays, with its waiters.

    The task that deletes the records below may be lost. So a call that finds no semaphore, but records of one, enqueues
    it again before it raises `NoSemaphore`.
    """
    incarnations: list[int] = []

    def decide(loaded: Loaded) -> Decision[Writes, None]:
        incarnations.append(loaded.incarnation)
        if loaded.incarnation != incarnations[0]:
            raise NoSemaphore(f"The semaphore {name!r} was deleted and created again in the meantime.", field="name")
        writes = (Delete(path_of(name), loaded.update_time),)
        return Decision(writes, None, (clean_up_task(name, loaded.incarnation),))

    try:
        perform(ports, SemaphoreReads(name), decide)
    except NoSemaphore:
        if not incarnations:
            clean_again(ports, name)
        raise


def clean_again(ports: Ports, name: str) -> None:
    """Enqueue the clean-up of what is left below a semaphore that does not exist."""
    [read] = ports.store.read(path_of(name))
    left = any(ports.store.query(Query(f"{read.path}/{collection}", limit=1)) for collection in BELOW)
    if read.data is None and left:  # a later semaphore of the name has another incarnation
        ports.queue.create([clean_up_task(name, microseconds(read.read_time))])


def remove(ports: Ports, name: str, incarnation: int, guard: Guard) -> None:
    """Delete a semaphore's record, and enqueue the clean-up of the records below it. Raises `Conflict`."""
    outbox.commit(ports, [Delete(path_of(name), guard)], [clean_up_task(name, incarnation)])


def clean_deleted(ports: Ports, name: str, incarnation: int) -> None:
    """Delete the records below a deleted semaphore. The records of a new semaphore of the same name stay.

    Raises `Unavailable` if a record was not deleted, so that the task is retried: no other process would delete it.
    """
    for collection in BELOW:
        after: tuple[str, ...] = ()
        while page := ports.store.query(
            Query(f"{path_of(name)}/{collection}", limit=LIMITS.receipts_page_max, after=after)
        ):
            old = [snapshot for snapshot in page if snapshot.data and snapshot.data["incarnation"] <= incarnation]
            end_units(ports, name, old)
            _delete_each(ports, old)
            after = (page[-1].id,)


def end_units(ports: Ports, name: str, old: list[Snapshot]) -> None:
    """Enqueue the tasks of the units of batches, and of the flows, that waited for a permit of the semaphore."""
    waits = [one for one in old if "continuation" in (one.data or {})]
    waiters = [(waiter, one.read_time) for one in waits if (waiter := read_waiter(one))]
    tasks = [end_tasks(name, waiter, now) for waiter, now in waiters if waiter.state == "waiting"]
    if any(tasks):
        _enqueue_each(ports, [task for each in tasks for task in each])


def _enqueue_each(ports: Ports, tasks: Sequence[Effect]) -> None:
    """Enqueue tasks. Those that the catalogue excludes are left to the sweeper of the outbox, which keeps them aside.

    So one wait, of a function that was removed or out of a forged record, keeps no other wait from its end.
    """
    try:
        ports.queue.create(tasks)
    except NotInCatalogue as refused:
        outbox.commit(ports, [], [task for task in tasks if task.name not in refused.enqueued])


def _delete_each(ports: Ports, old: list[Snapshot]) -> None:
    outcomes = ports.store.write_each([Delete(snapshot.path, snapshot.guard) for snapshot in old]) if old else ()
    failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if failed:
        raise Unavailable(f"{len(failed)} records of a deleted semaphore were not deleted") from failed[0]
