"""Wait for permits: at once or not at all, or with a continuation that runs once they are granted.

Two paths lead into the wait queue:

    guarded     one commit closes the semaphore and creates the waiter
    combining   behind others, or under contention, the waiter is created alone, which nobody can make fail; then the
                semaphore is read again, and closed if it is not, before the caller is answered that it waits. If it was
                closed and no permit is free, who frees one reads the wait queue; else an admit run does
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

from shared.core.operations import outbox
from shared.core.operations.perform import Contended, Writes, perform
from shared.core.operations.ports import AlreadyExists, Conflict, Delete, Must, Ports, Snapshot
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadSemaphore, NoSemaphore, NotFound
from shared.semaphores.operations.records import put_waiter, read_waiter, waiter_path, waiter_write
from shared.semaphores.operations.transitions import SemaphoreReads, change, load, wake_behind
from shared.semaphores.rules import wait_commands as rules
from shared.semaphores.rules.requests import WaitRequest
from shared.semaphores.rules.tasks import deadline_task
from shared.semaphores.rules.transitions import Loaded
from shared.semaphores.rules.waiters import WaitAnswer, Waiter


def wait(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    """Take permits, or a place in the wait queue. Raises `NoSemaphore`, `BadSemaphore` or `Unavailable`."""
    if request.continuation is None:
        lease_of = partial(rules.granted_before, request=request)
        reads = SemaphoreReads(name, partial(rules.wait_reads, request=request), lease_of=lease_of)
        return change(ports, reads, partial(rules.acquire, request=request)).answer
    try:
        return _queued(ports, name, request)
    except BadSemaphore:
        return repeated(ports, name, request)


def _queued(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    try:
        return guarded(ports, name, request)
    except Contended:
        return combine(ports, name, request)


def guarded(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    """Grant the wait or append it to the wait queue, in one commit. Raises `Contended` if it lost every race.

    The wait's own record is read only when a commit has failed: that it must not exist is part of the commit.
    """
    lease_of = partial(rules.granted_before, request=request)
    reads = SemaphoreReads(name, partial(rules.wait_reads, request=request), request.id, 1, lease_of)
    return _decide(ports, reads, request, LIMITS.guarded_attempts_max)


def combine(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    """Join the wait queue without a guard on the semaphore's record, which others write."""
    return _join(ports, load(ports, name), request)


def _join(ports: Ports, loaded: Loaded, request: WaitRequest) -> WaitAnswer:
    name = loaded.name
    rules.check_permits(loaded, request)
    waiter = rules.new_waiter(loaded, request)
    put = put_waiter(waiter_path(name, waiter.id), waiter, loaded.now, Must.NOT_EXIST)
    try:
        committed = outbox.commit(ports, [put], deadline_task(name, waiter))
    except AlreadyExists:
        return repeated(ports, name, request)
    return confirm(ports, name, replace(waiter, version=committed.commit_time))


def repeated(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    """Answer a wait that has a record, which was created before the permits were lowered, perhaps; else as `wait`."""
    lease_of = partial(rules.granted_before, request=request)
    reads = SemaphoreReads(name, partial(rules.wait_reads, request=request), request.id, lease_of=lease_of)
    return _decide(ports, reads, request)


def _decide(ports: Ports, reads: SemaphoreReads, request: WaitRequest, attempts_max: int | None = None) -> WaitAnswer:
    """Decide a wait; once more, when this has deleted its record of an earlier semaphore of the name."""
    while True:
        changed = change(ports, reads, partial(rules.wait, request=request), attempts_max=attempts_max)
        if changed.answer is rules.JOIN_ALONE:
            return _join(ports, changed.loaded, request)
        if changed.answer is not rules.STALE_RECORD:
            return changed.answer


def confirm(ports: Ports, name: str, waiter: Waiter) -> WaitAnswer:
    """Answer "waiting" for a waiter that was created alone, once the semaphore is closed."""
    try:
        rule = partial(rules.confirm, waiter=waiter)
        return change(ports, SemaphoreReads(name), rule).answer
    except NoSemaphore:
        with suppress(Conflict):  # somebody has put another wait in its place, or deleted it
            ports.store.commit([Delete(waiter_path(name, waiter.id), waiter.version)])
        raise


def time_out(ports: Ports, name: str, id_: str) -> None:
    """End a wait whose deadline is over, if it still waits. Raises `Unavailable` if it is too early."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Waiter | None]:
        waiter, now = read_waiter(read[0]), read[0].read_time
        departure = rules.time_out(name, waiter, now) if waiter else None
        if departure is None:
            return Decision((), None)
        return Decision((waiter_write(name, departure.transition, now),), waiter, departure.effects)

    departed, _ = perform(ports, [waiter_path(name, id_)], decide)
    if departed:
        wake_behind(ports, name, departed)


def no_wait(name: str, id_: str) -> NotFound:
    """Return the problem that no such wait is known."""
    return NotFound(f"Semaphore {name!r} has no wait {id_!r}.", field="id")
