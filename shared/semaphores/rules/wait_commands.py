"""What a wait does to a semaphore: it takes permits, joins the wait queue, is repeated, cancelled or timed out.

A wait is known by its id. A repeat changes nothing: a wait with a continuation finds its waiter's record, one without
finds its lease, held or remembered. It is answered with what is true now: a lease that is over is nobody's.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.core.rules.effects import Effect
from shared.core.rules.problems import BadSemaphore, Unavailable
from shared.semaphores.rules.leases import LeaseRecord
from shared.semaphores.rules.requests import WaitRequest
from shared.semaphores.rules.semaphores import Semaphore
from shared.semaphores.rules.tasks import continuation_task, deadline_task, timeout_task
from shared.semaphores.rules.transitions import Loaded, QueueReads, Transition, WaiterTransition, leave, unchanged
from shared.semaphores.rules.wait_queue import grant_permits
from shared.semaphores.rules.waiters import ENDED, NOT_ACQUIRED, WAITING, WaitAnswer, Waiter


def wait_reads(loaded: Loaded, request: WaitRequest) -> QueueReads:
    """Read the head of the wait queue, if permits are free and the mode does not rule out a waiter."""
    enough = loaded.semaphore.free(loaded.now) >= request.permits
    return QueueReads(waiters=1) if enough and loaded.semaphore.mode != "open" else QueueReads()


# --- repeated ---


def granted_before(loaded: Loaded, request: WaitRequest) -> LeaseRecord | None:
    """Return the lease that an earlier call of this wait was granted, if the record has it; it may have expired."""
    if request.continuation is None:
        leases = (one for one in loaded.semaphore.leases if not one.continued)
        return next((one for one in leases if one.id == request.id), None)
    waiter = loaded.wait
    if waiter is None or waiter.grant is None or waiter.incarnation != loaded.incarnation:
        return None
    return loaded.semaphore.granted_as(waiter.id, waiter.grant)


def answer_of(loaded: Loaded, lease: LeaseRecord) -> WaitAnswer:
    """Return what is true of a lease now. One whose release was left to an admit run is over already."""
    if lease.live(loaded.now) and not lease.is_ended_by(loaded.release):
        return WaitAnswer(lease.granted())
    return ENDED if lease.claimed else WAITING


# --- without a continuation ---


def acquire(loaded: Loaded, request: WaitRequest) -> Transition[WaitAnswer]:
    """Take permits if they are free and nobody waits. An attempt in vain leaves no trace. Raises `BadSemaphore`."""
    if lease := granted_before(loaded, request):
        return unchanged(loaded, answer_of(loaded, lease))
    if loaded.semaphore.ended_lease(request.id):
        return unchanged(loaded, ENDED)
    check_permits(loaded, request)
    semaphore, evicted = loaded.semaphore.expire_leases(loaded.now)
    if loaded.waiters or request.permits > semaphore.free(loaded.now):
        return unchanged(loaded, NOT_ACQUIRED)
    seconds = request.lease_seconds or semaphore.lease_seconds
    after, lease = semaphore.grant(request.id, request.permits, seconds, loaded.now, claim_seconds=None)
    return Transition(after, WaitAnswer(lease.granted()), evicted=evicted)


def check_permits(loaded: Loaded, request: WaitRequest) -> None:
    """Raise `BadSemaphore` for a wait that could never be granted."""
    if request.permits > loaded.semaphore.permits:
        raise BadSemaphore(f"`permits` must be at most {loaded.semaphore.permits:,}: the semaphore's.", field="permits")


# --- with a continuation ---

STALE_RECORD = WaitAnswer()
"""Not for a caller: the record of an earlier semaphore was deleted."""

JOIN_ALONE = WaitAnswer()
"""Not for a caller: the waiter is to be created without the semaphore's record, which says that others wait."""


def wait(loaded: Loaded, request: WaitRequest) -> Transition[WaitAnswer]:
    """Grant the permits, or append the waiter to the wait queue. Raises `BadSemaphore`.

    A record of an earlier semaphore of this name is deleted first: written anew, it would keep its create time, which
    is a place in the wait queue. The answer is `STALE_RECORD` then, and the wait is to be decided again. Nor is
    anything decided for who finds the semaphore closed and no permits free: the answer is `JOIN_ALONE`.
    """
    if loaded.wait and loaded.wait.incarnation == loaded.incarnation:
        return repeat(loaded, loaded.wait, granted_before(loaded, request))
    if loaded.wait:
        return Transition(loaded.semaphore, STALE_RECORD, (WaiterTransition("removed", loaded.wait),))
    check_permits(loaded, request)
    enough = request.permits <= loaded.semaphore.free(loaded.now)
    if loaded.semaphore.mode == "closed" and not enough:
        return unchanged(loaded, JOIN_ALONE)
    semaphore, evicted = loaded.semaphore.expire_leases(loaded.now)
    waiter = new_waiter(loaded, request)
    if enough and not loaded.waiters:
        return replace(_granted_at_once(loaded, semaphore, waiter), evicted=evicted)
    created = WaiterTransition("created", waiter)
    closed = semaphore.moved_to("closed", loaded.now)
    deadline = deadline_task(loaded.name, waiter)
    return Transition(closed, WAITING, (created,), effects=deadline, nudge=enough, evicted=evicted)


def _granted_at_once(loaded: Loaded, semaphore: Semaphore, waiter: Waiter) -> Transition[WaitAnswer]:
    after, grant = grant_permits(semaphore, waiter, loaded.now)
    answer = WaitAnswer(grant.lease.granted())
    receipt = WaiterTransition("created", grant.waiter)
    task = continuation_task(loaded.name, grant.waiter, grant.lease, loaded.now)
    return Transition(after.with_clean_up(loaded.now), answer, (receipt,), effects=(task,))


def repeat(loaded: Loaded, waiter: Waiter, lease: LeaseRecord | None) -> Transition[WaitAnswer]:
    """Answer a repeated wait; in the wait queue, "waiting" is answered only once the semaphore is closed.

    A grant that was lost before its claim goes back into the wait queue when its task comes: it waits.
    """
    if waiter.state == "waiting":
        return close(loaded, WAITING)
    if lease:
        return unchanged(loaded, answer_of(loaded, lease))
    return unchanged(loaded, WAITING if waiter.state == "lost" else ENDED)


def confirm(loaded: Loaded, waiter: Waiter) -> Transition[WaitAnswer]:
    """Answer "waiting" for a waiter that was created alone, once the semaphore is closed. Raises `Unavailable`.

    If it is closed already, and no permits are free for this waiter, then who ends a lease reads the wait queue.
    """
    if waiter.incarnation != loaded.incarnation:
        raise Unavailable("the semaphore was deleted and created anew meanwhile")
    permits = loaded.semaphore.permits
    if loaded.semaphore.mode == "closed" and loaded.semaphore.free(loaded.now) < waiter.permits <= permits:
        return unchanged(loaded, WAITING)
    return close(loaded, WAITING)


def close(loaded: Loaded, answer: WaitAnswer) -> Transition[WaitAnswer]:
    """Close the semaphore, unless it is closed, and have an admit run read the wait queue."""
    closed = loaded.semaphore.moved_to("closed", loaded.now)
    return Transition(loaded.semaphore if loaded.semaphore.mode == "closed" else closed, answer, nudge=True)


def new_waiter(loaded: Loaded, request: WaitRequest) -> Waiter:
    """Return the waiter that a request asks for."""
    assert request.continuation is not None, "only a wait with a continuation has a record"
    return Waiter(
        id=request.id,
        incarnation=loaded.incarnation,
        continuation=request.continuation,
        permits=request.permits,
        lease_seconds=request.lease_seconds,
        release_on_return=request.release_on_return,
        release_on_failure=request.release_on_failure,
        resumes=request.resumes,
        resumed=request.resumed,
        holder=request.holder,
        on_timeout=request.on_timeout,
        deadline_at=_after(loaded.now, request.deadline_seconds),
    )


def _after(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


# --- leaving the wait queue ---


@dataclass(frozen=True, slots=True)
class Departure:
    """A waiter that leaves the wait queue without a grant, and the task that this asks for."""

    transition: WaiterTransition
    effects: tuple[Effect, ...] = ()


def cancel(waiter: Waiter) -> Departure | None:
    """Return the departure of a wait that is cancelled; None: it does not wait any more."""
    return Departure(leave(waiter, "cancelled")) if waiter.state == "waiting" else None


def time_out(name: str, waiter: Waiter, now: datetime) -> Departure | None:
    """Return the departure of a wait whose deadline is over; None: it does not wait. Raises `Unavailable` if early."""
    if waiter.state != "waiting" or waiter.deadline_at is None:
        return None
    if not waiter.is_late(now):
        raise Unavailable("the deadline is not over by the server's clock")
    return Departure(leave(waiter, "timed_out"), timeout_task(name, waiter, now))
