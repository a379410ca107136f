"""Wait for permits, acquire them at once, and end a wait: at its deadline, or by a cancel.

A wait reaches the wait queue in one of two ways:

    guarded     one commit closes the semaphore and creates the waiter
    combining   behind others, or under contention, the waiter is created alone, by a commit that cannot conflict. Then
                the semaphore is read again, and closed if it is not, before the caller is answered "waiting". If it was
                closed and had no free permit, the operation that frees one reads the wait queue; otherwise an admit run
                does
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial

from signalbox.core import outbox
from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import AlreadyExists, Committed, Conflict, Delete, Must, Ports, Snapshot
from signalbox.core.problems import Contended, NotFound, Unavailable
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine import waits
from signalbox.semaphores.machine.decision_types import Loaded, Undecided, deadline_task
from signalbox.semaphores.machine.leases import EndLease, find_lease
from signalbox.semaphores.model.leases import Lease, LeaseRecord, parse_lease_id
from signalbox.semaphores.model.semaphore import waiter_path
from signalbox.semaphores.model.waiters import NOT_ACQUIRED, WaitAnswer, Waiter
from signalbox.semaphores.problems import BadSemaphore, NoSemaphore
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service.leases import end_or_leave
from signalbox.semaphores.storage import SemaphoreReads, change, load, put_waiter, read_waiter, waiter_write

DepartureOf = Callable[[str, Waiter, datetime], waits.Departure | None]
"""Decides how a wait leaves the wait queue of a named semaphore."""


def wait(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    """Take permits, or a place in the wait queue.

    Raises `NoSemaphore`, `BadSemaphore`, `OtherBody` or `Unavailable`.
    """
    if request.continuation is None:
        lease_of = partial(waits.granted_before, request=request)
        reads = SemaphoreReads(name, partial(waits.wait_reads, request=request), lease_of=lease_of)
        return change(ports, reads, partial(waits.acquire, request=request)).answer
    try:
        return _queued(ports, name, request)
    except BadSemaphore:
        return repeated(ports, name, request)


def acquired_before(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer | None:
    """Return the answer to an acquire if it needs no free permit: it is a repeat, or the semaphore is paused.

    Raises as `wait` does.
    """
    reads = SemaphoreReads(name, lease_of=partial(waits.granted_before, request=request))
    return waits.acquired_before(reads.load(ports.store, 0), request)


def acquire_within(ports: Ports, name: str, request: WaitRequest, seconds: float) -> WaitAnswer:
    """Try to take permits, again and again, for at most `seconds` of pauses. Raises as `wait` does.

    All attempts are the same wait, under one id. So an attempt whose answer was lost can be repeated.
    """
    pause_seconds, left = LIMITS.acquire_pause_seconds, seconds
    while True:
        try:
            answer = wait(ports, name, request)
        except Unavailable:
            if left <= 0:
                raise
        else:
            if answer != NOT_ACQUIRED or left <= 0:
                return answer
        slept = min(left, pause_seconds * (0.5 + ports.clock.jitter()))
        ports.clock.sleep(slept)
        left -= slept
        pause_seconds = min(pause_seconds * 1.5, LIMITS.acquire_pause_seconds_max)


def _queued(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    try:
        return guarded(ports, name, request)
    except Contended:
        return combine(ports, name, request)


def guarded(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    """Grant the wait or append it to the wait queue, in one commit. Raises `Contended` if every commit failed.

    The wait's own record is read only after a commit has failed: the commit requires that it does not exist.
    """
    lease_of = partial(waits.granted_before, request=request)
    reads = SemaphoreReads(name, partial(waits.wait_reads, request=request), request.id, 1, lease_of)
    return _decide(ports, reads, request, LIMITS.guarded_attempts_max)


def combine(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    """Join the wait queue without a precondition on the semaphore's record, which others write."""
    return _join(ports, load(ports, name), request)


def _join(ports: Ports, loaded: Loaded, request: WaitRequest) -> WaitAnswer:
    name = loaded.name
    waits.check_permits(loaded, request)
    waiter = waits.new_waiter(loaded, request)
    create = put_waiter(waiter_path(name, waiter.id), waiter, loaded.now, Must.NOT_EXIST)
    try:
        committed = outbox.commit(ports, [create], deadline_task(name, waiter))
    except AlreadyExists:
        return repeated(ports, name, request)
    return confirm(ports, name, replace(waiter, version=committed.commit_time))


def repeated(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    """Answer a wait that may have a record, perhaps created before the permits were lowered; otherwise decide it."""
    lease_of = partial(waits.granted_before, request=request)
    reads = SemaphoreReads(name, partial(waits.wait_reads, request=request), request.id, lease_of=lease_of)
    return _decide(ports, reads, request)


def _decide(ports: Ports, reads: SemaphoreReads, request: WaitRequest, attempts_max: int | None = None) -> WaitAnswer:
    """Decide a wait. If this has only deleted a record of the wait under an earlier semaphore, decide again."""
    while True:
        changed = change(ports, reads, partial(waits.wait, request=request), attempts_max=attempts_max)
        if changed.answer is Undecided.JOIN_ALONE:
            return _join(ports, changed.loaded, request)
        if isinstance(changed.answer, WaitAnswer):
            return changed.answer


def confirm(ports: Ports, name: str, waiter: Waiter) -> WaitAnswer:
    """Answer "waiting" for a waiter that was created alone, once the semaphore is closed."""
    try:
        return change(ports, SemaphoreReads(name), partial(waits.confirm, waiter=waiter)).answer
    except NoSemaphore:
        with suppress(Conflict):  # the waiter was deleted, or replaced by another wait
            ports.store.commit([Delete(waiter_path(name, waiter.id), waiter.version)])
        raise


def wait_again(ports: Ports, lease: Lease, request: WaitRequest) -> bool:
    """Make the wait that follows a lease, in one commit that requires the lease. Return False if the lease was lost.

    Raises as `wait` does, and `Contended` if every commit failed.
    """
    id_, token = parse_lease_id(lease.id)

    def lease_of(loaded: Loaded) -> LeaseRecord | None:
        return find_lease(loaded.semaphore, id_, token, by_grant=False)

    reads = SemaphoreReads(
        lease.semaphore, partial(waits.wait_reads, request=request), request.id, 1, lease_of, lease_from_attempt=1
    )
    while True:
        answer = change(ports, reads, partial(waits.wait_again, request=request, id_=id_, token=token)).answer
        if answer is not Undecided.STALE_RECORD:
            return answer is not None


def time_out(ports: Ports, name: str, id_: str) -> None:
    """End a wait at its deadline, if it still waits. Raises `Unavailable` before the deadline."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        waiter, now = read_waiter(read[0]), read[0].read_time
        departure = waits.time_out(name, waiter, now) if waiter else None
        if departure is None:
            return Decision((), None)
        return Decision((waiter_write(name, departure.transition, now),), None, departure.effects)

    perform(ports, [waiter_path(name, id_)], decide)


def cancel(ports: Ports, name: str, id_: str, *, by_flow: bool = False) -> bool:
    """End a wait: take it out of the wait queue, or end its lease if it was granted in the meantime.

    Returns whether that took effect. Raises `NotFound` if this wait has no record, and `WaitOfFlow` if the wait is a
    flow's.
    """
    waiter, committed = _leave_queue(ports, name, id_, waits.cancel, by_flow=by_flow)
    return committed is not None or cancel_granted(ports, name, waiter)


def withdraw(ports: Ports, name: str, id_: str, *, by_flow: bool = False) -> None:
    """Take a wait that its unit or flow does not need out of the wait queue, if it is there. No unit fails.

    If the wait was granted, its lease stays: the unit's task or the flow may hold it, and will end it. Raises
    `WaitOfFlow` for a flow's wait, unless that flow withdraws it (`by_flow`).
    """
    with suppress(NotFound):
        _leave_queue(ports, name, id_, waits.withdraw, by_flow=by_flow)


def _leave_queue(
    ports: Ports, name: str, id_: str, departure_of: DepartureOf, *, by_flow: bool = False
) -> tuple[Waiter, Committed | None]:
    """Take a waiter out of the wait queue if it is there. Return the waiter as it was read, and the commit."""

    def decide(loaded: Loaded) -> Decision[Writes, Waiter]:
        waiter = loaded.wait
        if waiter is None or waiter.incarnation != loaded.incarnation:
            raise NotFound(f"Semaphore {name!r} has no wait {id_!r}.", field="id")
        waiter.continuation.check_cancel(by_flow=by_flow)
        departure = departure_of(name, waiter, loaded.now)
        if departure is None:
            return Decision((), waiter)
        return Decision((waiter_write(name, departure.transition, loaded.now),), waiter, departure.effects)

    return perform(ports, SemaphoreReads(name, wait_id=id_), decide, retry_on=(Conflict, Unavailable))


def cancel_granted(ports: Ports, name: str, waiter: Waiter) -> bool:
    """End the lease of a wait that was granted before it was cancelled. Return False if there is no such lease."""
    if waiter.state != "granted" or waiter.grant is None:
        return waiter.state == "cancelled"
    return end_or_leave(ports, name, EndLease(waiter.id, waiter.grant, ports.store.new_id(), by_grant=True))
