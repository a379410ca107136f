"""Delete a semaphore, and the records below it."""

from shared.core.operations import outbox
from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Delete, Guard, Ports, Query, Snapshot
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NoSemaphore, Unavailable
from shared.semaphores.operations.transitions import SemaphoreReads
from shared.semaphores.rules.semaphores import path_of
from shared.semaphores.rules.tasks import clean_up_task
from shared.semaphores.rules.transitions import Loaded


def delete(ports: Ports, name: str) -> None:
    """Delete a semaphore; its waiters wait no more. Raises `NoSemaphore` or `Unavailable`.

    Only the one that this call finds first: another one of the name, created meanwhile, keeps its waiters and stays.
    """
    lives: list[int] = []

    def decide(loaded: Loaded) -> Decision[Writes, None]:
        lives.append(loaded.incarnation)
        if loaded.incarnation != lives[0]:
            raise NoSemaphore(f"The semaphore {name!r} was deleted, and created anew, meanwhile.", field="name")
        writes = (Delete(path_of(name), loaded.update_time),)
        return Decision(writes, None, (clean_up_task(name, loaded.incarnation),))

    perform(ports, SemaphoreReads(name), decide)


def remove(ports: Ports, name: str, incarnation: int, guard: Guard) -> None:
    """Delete a semaphore's record, and enqueue the clean-up of the records below it. Raises `Conflict`."""
    outbox.commit(ports, [Delete(path_of(name), guard)], [clean_up_task(name, incarnation)])


def clean_deleted(ports: Ports, name: str, incarnation: int) -> None:
    """Delete what a deleted semaphore has left behind; a new one of the same name keeps its own.

    Raises `Unavailable` when a record was not deleted, so that the task is retried: nobody else would delete it.
    """
    for collection in ("waiters", "releases"):
        after: tuple[str, ...] = ()
        while page := ports.store.query(
            Query(f"{path_of(name)}/{collection}", limit=LIMITS.receipts_page_max, after=after)
        ):
            old = [one for one in page if one.data and one.data["incarnation"] <= incarnation]
            _delete_each(ports, old)
            after = (page[-1].id,)


def _delete_each(ports: Ports, old: list[Snapshot]) -> None:
    outcomes = ports.store.write_each([Delete(one.path, one.guard) for one in old]) if old else ()
    failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if failed:
        raise Unavailable(f"{len(failed)} records of a deleted semaphore were not deleted") from failed[0]
