"""Delete a semaphore, and the records below it."""

from shared.core.operations import outbox
from shared.core.operations.ports import Delete, Guard, Must, NotFound, Ports, Query
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NoSemaphore
from shared.semaphores.operations.transitions import load
from shared.semaphores.rules.semaphores import path_of
from shared.semaphores.rules.tasks import clean_up_task


def delete(ports: Ports, name: str) -> None:
    """Delete a semaphore; its waiters wait no more. Raises `NoSemaphore`."""
    incarnation = load(ports, name).incarnation
    try:
        remove(ports, name, incarnation, Must.EXIST)
    except NotFound as conflict:
        raise NoSemaphore(f"There is no semaphore {name!r}.", field="name") from conflict


def remove(ports: Ports, name: str, incarnation: int, guard: Guard) -> None:
    """Delete a semaphore's record, and enqueue the clean-up of the records below it. Raises `Conflict`."""
    outbox.commit(ports, [Delete(path_of(name), guard)], [clean_up_task(name, incarnation)])


def clean_deleted(ports: Ports, name: str, incarnation: int) -> None:
    """Delete what a deleted semaphore has left behind; a new one of the same name keeps its own."""
    for collection in ("waiters", "releases"):
        after: tuple[str, ...] = ()
        while page := ports.store.query(
            Query(f"{path_of(name)}/{collection}", limit=LIMITS.receipts_page_max, after=after)
        ):
            old = [one for one in page if one.data and one.data["incarnation"] <= incarnation]
            ports.store.write_each([Delete(one.path, one.guard) for one in old])
            after = (page[-1].id,)
