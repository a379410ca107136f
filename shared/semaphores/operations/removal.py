"""Delete a semaphore, and clean up the records that lie below it."""

from dataclasses import replace

from shared.core.operations import outbox
from shared.core.operations.ports import Delete, Must, NotFound, Ports, Query, Snapshot
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NoSemaphore
from shared.semaphores.operations.changes import FUNCTION, QUEUE, incarnation_of
from shared.semaphores.rules.semaphores import path_of


def delete(ports: Ports, name: str) -> None:
    """Delete a semaphore; who waits for it waits no more. Raises `NoSemaphore`."""
    [snapshot] = ports.store.read(path_of(name))
    if snapshot.data is None:
        raise NoSemaphore(f"There is no semaphore {name!r}.", field="name")
    try:
        remove(ports, replace(snapshot, update_time=None))
    except NotFound as conflict:
        raise NoSemaphore(f"There is no semaphore {name!r}.", field="name") from conflict


def remove(ports: Ports, snapshot: Snapshot) -> None:
    """Delete a semaphore's record, and have the records below it cleaned up. Raises `Conflict`."""
    name, incarnation = snapshot.id, incarnation_of(snapshot)
    task = name_of(snapshot.path, incarnation, "clean")
    payload = {"semaphore": name, "incarnation": incarnation}
    guard = snapshot.update_time or Must.EXIST
    outbox.commit(ports, [Delete(snapshot.path, guard)], [Effect(task, QUEUE, FUNCTION, "clean", payload)])


def clean_deleted(ports: Ports, name: str, incarnation: int) -> None:
    """Delete what a deleted semaphore has left; a new one of the same name keeps its own."""
    for collection in ("waiters", "releases"):
        after: tuple[str, ...] = ()
        while page := ports.store.query(
            Query(f"{path_of(name)}/{collection}", limit=LIMITS.receipts_page, after=after)
        ):
            old = [one for one in page if one.data and one.data["incarnation"] <= incarnation]
            ports.store.write_each([Delete(one.path, one.guard) for one in old])
            after = (page[-1].id,)
