"""What a wait does to a semaphore: it takes permits, joins the wait queue, is repeated, cancelled or timed out.

A wait is known by its id. A repeat changes nothing and is answered as before: a wait with a continuation finds its
waiter's record, one without finds its lease, held or remembered.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.core.rules.effects import Effect
from shared.core.rules.problems import BadSemaphore, Unavailable
from shared.semaphores.rules.requests import WaitRequest
from shared.semaphores.rules.semaphores import Semaphore
from shared.semaphores.rules.tasks import continuation_task, deadline_task, timeout_task
from shared.semaphores.rules.transitions import Loaded, QueueReads, Transition, WaiterTransition, leave, unchanged
from shared.semaphores.rules.wait_queue import grant_permits
from shared.semaphores.rules.waiters import NOT_ACQUIRED, WAITING, WaitAnswer, Waiter


def wait_reads(loaded: Loaded, request: WaitRequest) -> QueueReads:
    """Read the head of the wait queue, if permits are free and the mode does not rule out a waiter."""
    enough = loaded.semaphore.free(loaded.now) >= request.permits
    return QueueReads(waiters=1) if enough and loaded.semaphore.mode != "open" else QueueReads()


# --- without a continuation ---


def acquire(loaded: Loaded, request: WaitRequest) -> Transition[WaitAnswer]:
    """Take permits if they are free and nobody waits. An attempt in vain leaves no trace. Raises `BadSemaphore`."""
    if repeated := _acquired_before(loaded, request.id):
        return unchanged(loaded, repeated)
    check_permits(loaded, request)
    semaphore, evicted = loaded.semaphore.expire_leases(loaded.now)
    if loaded.waiters or request.permits > semaphore.free(loaded.now):
        return unchanged(loaded, NOT_ACQUIRED)
    seconds = request.lease_seconds or semaphore.lease_seconds
    after, lease = semaphore.grant(request.id, request.permits, seconds, loaded.now, claim_seconds=None)
    return Transition(after, WaitAnswer(lease.granted()), evicted=evicted)


def _acquired_before(loaded: Loaded, id_: str) -> WaitAnswer | None:
    held = next((one for one in loaded.semaphore.leases if one.id == id_ and not one.continued), None)
    lease = held or loaded.semaphore.ended_lease(id_)
    return WaitAnswer(lease.granted()) if lease else None


def check_permits(loaded: Loaded, request: WaitRequest) -> None:
    """Raise `BadSemaphore` for a wait that could never be granted."""
    if request.permits > loaded.semaphore.permits:
        raise BadSemaphore(f"`permits` must be at most {loaded.semaphore.permits:,}: the semaphore's.", field="permits")


# --- with a continuation ---


def wait(loaded: Loaded, request: WaitRequest) -> Transition[WaitAnswer]:
    """Grant the permits, or append the waiter to the wait queue. Raises `BadSemaphore`."""
    if loaded.wait and loaded.wait.incarnation == loaded.incarnation:
        return repeat(loaded, loaded.wait)
    check_permits(loaded, request)
    semaphore, evicted = loaded.semaphore.expire_leases(loaded.now)
    waiter = new_waiter(loaded, request)
    enough = request.permits <= semaphore.free(loaded.now)
    if enough and not loaded.waiters:
        return replace(_granted_at_once(loaded, semaphore, waiter), evicted=evicted)
    created = WaiterTransition("created", waiter)
    closed = semaphore.moved_to("closed", loaded.now)
    deadline = deadline_task(loaded.name, waiter)
    return Transition(closed, WAITING, (created,), effects=deadline, nudge=enough, evicted=evicted)


def _granted_at_once(loaded: Loaded, semaphore: Semaphore, waiter: Waiter) -> Transition[WaitAnswer]:
    after, grant = grant_permits(semaphore, waiter, loaded.now)
    answer = WaitAnswer(grant.lease.granted())
    receipt = WaiterTransition("created", replace(grant.waiter, answer=answer))
    task = continuation_task(loaded.name, grant.waiter, grant.lease, loaded.now)
    return Transition(after.with_clean_up(loaded.now), answer, (receipt,), effects=(task,))


def repeat(loaded: Loaded, waiter: Waiter) -> Transition[WaitAnswer]:
    """Answer a repeated wait as before; "waiting" is answered only once the semaphore is closed."""
    return close(loaded, waiter.answer) if waiter.state == "waiting" else unchanged(loaded, waiter.answer)


def confirm(loaded: Loaded, incarnation: int) -> Transition[WaitAnswer]:
    """Answer "waiting" for a waiter that was created alone, once the semaphore is closed. Raises `Unavailable`."""
    if incarnation != loaded.incarnation:
        raise Unavailable("the semaphore was deleted and created anew meanwhile")
    return close(loaded, WAITING)


def close(loaded: Loaded, answer: WaitAnswer) -> Transition[WaitAnswer]:
    """Close the semaphore, unless it is closed, and have an admit run read the wait queue."""
    closed = loaded.semaphore.moved_to("closed", loaded.now)
    return Transition(loaded.semaphore if loaded.semaphore.mode == "closed" else closed, answer, nudge=True)


def new_waiter(loaded: Loaded, request: WaitRequest) -> Waiter:
    """Return the waiter that a request asks for; it replaces one of an earlier semaphore of this name."""
    assert request.continuation is not None, "only a wait with a continuation has a record"
    return Waiter(
        id=request.id,
        incarnation=loaded.incarnation,
        continuation=request.continuation,
        permits=request.permits,
        lease_seconds=request.lease_seconds,
        release_on_return=request.release_on_return,
        on_timeout=request.on_timeout,
        deadline_at=_after(loaded.now, request.deadline_seconds),
        version=loaded.wait.version if loaded.wait else None,
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
