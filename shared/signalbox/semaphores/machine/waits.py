"""The decisions about a wait: it takes permits, joins the wait queue, is repeated, is cancelled, or times out.

A new wait is decided by the mode, by whether its permits are free, and by whether others are in the wait queue:

    command  mode             permits  queue    answer        then    waiter   admit run
    -------  ---------------  -------  -------  ------------  ------  -------  ---------
    acquire  open             free     empty    a lease       same    -        -
    acquire  opening, closed  free     empty    a lease       same    -        -
    acquire  opening, closed  free     waiters  not acquired  same    -        -
    acquire  any              held     any      not acquired  same    -        -

    wait     open             free     empty    a lease       same    created  -
    wait     opening, closed  free     empty    a lease       same    created  -
    wait     opening, closed  free     waiters  waiting       closed  created  nudge
    wait     open, opening    held     any      waiting       closed  created  -
    wait     closed           held     any      JOIN_ALONE    same    -        -

    confirm  open, opening    any      any      waiting       closed  -        nudge
    confirm  closed           free     any      waiting       same    -        nudge
    confirm  closed           held     any      waiting       same    -        -

With `lanes` (`machine/lanes.py`) in the record, a new wait does not read the wait queue:

    command  lanes    its lane         permits  answer        its lane then  waiter   admit run
    -------  -------  ---------------  -------  ------------  -------------  -------  ---------
    acquire  some     any              any      not acquired  same           -        -
    wait     some     closed           held     JOIN_ALONE    same           -        -
    wait     some     closed           free     waiting       closed         created  nudge
    wait     some     opening, absent  held     waiting       closed         created  -
    wait     some     opening, absent  free     waiting       closed         created  nudge
    confirm  some     closed           held     waiting       same           -        -
    confirm  some     closed           free     waiting       same           -        nudge
    confirm  some     opening, absent  any      waiting       closed         -        nudge

`acquire` is a wait without a continuation; if it fails, it writes nothing. `wait` has a continuation. `confirm` is the
second half of a wait that was created alone. An acquire or a wait for more permits than the semaphore has is refused.

A wait is identified by its id. A repeated wait changes nothing: one with a continuation finds its waiter's record, and
one without finds its lease, held or remembered. The answer is the state at the time of the repeat:

    command  its record               its lease           answer        then    waiter     admit run
    -------  -----------------------  ------------------  ------------  ------  ---------  ---------
    acquire  none                     live                its lease     same    -          -
    acquire  none                     live, released      ended         same    -          -
    acquire  none                     expired             ended         same    -          -
    acquire  none                     remembered          ended         same    -          -

    wait     waiting                  absent              waiting       closed  -          nudge
    wait     granted                  live                its lease     same    -          -
    wait     granted                  live, released      ended         same    -          -
    wait     granted                  expired, unclaimed  waiting       same    -          -
    wait     granted                  expired             ended         same    -          -
    wait     granted                  absent              ended         same    -          -
    wait     lost                     absent              waiting       same    -          -
    wait     cancelled                absent              ended         same    -          -
    wait     timed_out                absent              ended         same    -          -
    wait     refused                  absent              ended         same    -          -
    wait     of an earlier semaphore  any                 STALE_RECORD  same    removed    -

    cancel   waiting                  absent              leaves        same    cancelled  -
    cancel   any other                any                 None          same    -          -
    timeout  waiting, late            absent              leaves        same    timed_out  -
    timeout  waiting, early           absent              Unavailable
    timeout  waiting, no deadline     absent              None          same    -          -
    timeout  any other                any                 None          same    -          -

`released` means that a release of the lease was left for an admit run. A grant that expired unclaimed returns to the
wait queue when its task arrives, so the answer to its repeat is "waiting".
"""

from datetime import datetime, timedelta

from signalbox.core.effects import Effect
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import OtherBody, Unavailable
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine import lanes
from signalbox.semaphores.machine.decision_types import (
    Loaded,
    QueueReads,
    Transition,
    Undecided,
    WaiterTransition,
    continuation_task,
    deadline_task,
    departure_task,
    leave,
    timeout_task,
    unchanged,
    unit_task,
)
from signalbox.semaphores.machine.lanes import lane_of
from signalbox.semaphores.machine.leases import find_lease
from signalbox.semaphores.machine.wait_queue import grant_permits
from signalbox.semaphores.model.leases import LeaseRecord
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.waiters import ENDED, NOT_ACQUIRED, PAUSED, WAITING, WaitAnswer, Waiter
from signalbox.semaphores.problems import BadSemaphore
from signalbox.semaphores.requests import WaitRequest

Decided = WaitAnswer | Undecided


def wait_reads(loaded: Loaded, request: WaitRequest) -> QueueReads:
    """Read the head of the wait queue, if the permits are free and the mode allows that others wait.

    With lanes the queue is not read: the lanes have waiters, or an admit run will soon find that they are empty.
    """
    enough = loaded.semaphore.free(loaded.now) >= request.permits
    in_doubt = loaded.semaphore.mode != "open" and not loaded.semaphore.lanes
    return QueueReads(waiters=1) if enough and in_doubt else QueueReads()


# --- repeated ---


def granted_before(loaded: Loaded, request: WaitRequest) -> LeaseRecord | None:
    """Return the lease that an earlier call of this wait was granted, or None. The lease may have expired."""
    if request.continuation is None:
        leases = (lease for lease in loaded.semaphore.leases if not lease.continued)
        return next((lease for lease in leases if lease.id == request.id), None)
    waiter = loaded.wait
    if waiter is None or waiter.grant is None or waiter.incarnation != loaded.incarnation:
        return None
    return loaded.semaphore.granted_as(waiter.id, waiter.grant)


def answer_of(loaded: Loaded, lease: LeaseRecord) -> WaitAnswer:
    """Return the answer that describes a lease now. A lease whose release was left for an admit run has ended."""
    if lease.is_live(loaded.now) and not lease.is_ended_by(loaded.release):
        return WaitAnswer(lease.held(loaded.name))
    return ENDED if lease.claimed else WAITING


# --- without a continuation ---


def retry_after_seconds(answer: WaitAnswer, jitter: float, expected_seconds: float | None = None) -> int | None:
    """Return the seconds after which a refused caller should retry, or None if a retry would get the same answer.

    The answer is the time until the caller's expected turn. If that is unknown, or the semaphore is paused, the time is
    drawn by `jitter`, a number from 0 to 1.
    """
    if answer.lease or answer.waiting or answer.ended:
        return None
    most = LIMITS.paused_retry_seconds_max if answer.paused else LIMITS.acquire_retry_seconds_max
    if expected_seconds is not None and not answer.paused:
        return min(max(1, round(expected_seconds)), most)
    return min(1 + int(jitter * most), most)


def acquired_before(loaded: Loaded, request: WaitRequest) -> WaitAnswer | None:
    """Return the answer to a repeat, or during a pause; None if it depends on free permits.

    Raises `BadSemaphore`, and `OtherBody` for a repeat with another number of permits.
    """
    if lease := granted_before(loaded, request):
        check_same_permits(request, lease.permits)
        return answer_of(loaded, lease)
    if ended := loaded.semaphore.ended_lease(request.id):
        check_same_permits(request, ended.permits)
        return ENDED
    check_permits(loaded, request)
    return None if loaded.semaphore.paused_at is None else PAUSED


def acquire(loaded: Loaded, request: WaitRequest) -> Transition[WaitAnswer]:
    """Take permits if they are free and the wait queue is empty. Raises `BadSemaphore` or `OtherBody`."""
    if answer := acquired_before(loaded, request):
        return unchanged(loaded, answer)
    semaphore, evicted = loaded.semaphore.expire_leases(loaded.now)
    if loaded.waiters or semaphore.lanes or request.permits > semaphore.free(loaded.now):
        return unchanged(loaded, NOT_ACQUIRED)
    seconds = request.lease_seconds or semaphore.settings.lease_seconds
    after, lease = semaphore.grant(request.id, request.permits, seconds, loaded.now, claim_seconds=None)
    return Transition(after, WaitAnswer(lease.held(loaded.name)), evicted=evicted)


def check_same_permits(request: WaitRequest, permits: int) -> None:
    """Raise `OtherBody` for the repeat of a wait that was for another number of permits."""
    if request.permits != permits:
        detail = f"The id {request.id!r} is that of a wait for {permits} permits, not {request.permits}"
        raise OtherBody(f"{detail}: choose another id.", field="id")


def check_same_call(request: WaitRequest, waiter: Waiter) -> None:
    """Raise `OtherBody` if a caller named the id, and the wait is for another call or another number of permits."""
    if not request.named:
        return
    check_same_permits(request, waiter.permits)
    if request.continuation is None or request.continuation.digest != waiter.continuation.digest:
        raise OtherBody(f"The id {request.id!r} is that of a wait for another task: choose another id.", field="id")


def check_permits(loaded: Loaded, request: WaitRequest) -> None:
    """Raise `BadSemaphore` for a wait that could never be granted."""
    if request.permits > loaded.semaphore.settings.permits:
        raise BadSemaphore(
            f"`permits` must be at most {loaded.semaphore.settings.permits:,}: the semaphore's.", field="permits"
        )


# --- with a continuation ---


def wait(loaded: Loaded, request: WaitRequest) -> Transition[Decided]:
    """Grant the permits, or append the waiter to the wait queue. Raises `BadSemaphore` or `OtherBody`.

    A record of an earlier semaphore of this name is deleted first, and the wait is decided again: a record that is
    written over keeps its create time, which is a place in the wait queue.
    """
    if loaded.wait and loaded.wait.incarnation == loaded.incarnation:
        check_same_call(request, loaded.wait)
        return _repeat(loaded, loaded.wait, granted_before(loaded, request))
    if loaded.wait:
        removed = WaiterTransition("removed", loaded.wait)
        return Transition(loaded.semaphore, Undecided.STALE_RECORD, (removed,))
    check_permits(loaded, request)
    enough = request.permits <= loaded.semaphore.free(loaded.now)
    waiter = new_waiter(loaded, request)
    if lanes.is_closed(loaded.semaphore, waiter.lane) and not enough:
        return unchanged(loaded, Undecided.JOIN_ALONE)
    semaphore, evicted = loaded.semaphore.expire_leases(loaded.now)
    if enough and not loaded.waiters and not semaphore.lanes:
        return replace(_granted_at_once(loaded, semaphore, waiter), evicted=evicted)
    created = WaiterTransition("created", waiter)
    closed = lanes.closed(semaphore, waiter.lane, loaded.now)
    deadline = deadline_task(loaded.name, waiter)
    return Transition(closed, WAITING, (created,), effects=deadline, nudge=enough, evicted=evicted)


def _granted_at_once(loaded: Loaded, semaphore: Semaphore, waiter: Waiter) -> Transition[Decided]:
    after, grant = grant_permits(semaphore, waiter, loaded.now)
    answer = WaitAnswer(grant.lease.held(loaded.name))
    receipt = WaiterTransition("created", grant.waiter)
    task = continuation_task(loaded.name, grant.waiter, grant.lease, loaded.now)
    return Transition(after.with_clean_up(loaded.now), answer, (receipt,), effects=(task,))


def _repeat(loaded: Loaded, waiter: Waiter, lease: LeaseRecord | None) -> Transition[Decided]:
    """Answer a repeated wait. The answer "waiting" is given only once the semaphore is closed."""
    if waiter.state == "waiting":
        return replace(_close(loaded, waiter), answer=replace(WAITING, repeated=True))
    answer = answer_of(loaded, lease) if lease else WAITING if waiter.state == "lost" else ENDED
    return unchanged(loaded, replace(answer, repeated=True))


def confirm(loaded: Loaded, waiter: Waiter) -> Transition[WaitAnswer]:
    """Answer "waiting" for a waiter that was created alone, once its lane is closed. Raises `Unavailable`.

    If the lane is closed already and the semaphore has too few free permits for this waiter, nothing else is needed:
    the operation that ends a lease will read the wait queue.
    """
    if waiter.incarnation != loaded.incarnation:
        raise Unavailable("the semaphore was deleted and created again in the meantime")
    permits = loaded.semaphore.settings.permits
    if may_join(loaded, waiter.lane) and loaded.semaphore.free(loaded.now) < waiter.permits <= permits:
        return unchanged(loaded, WAITING)
    return _close(loaded, waiter)


def may_join(loaded: Loaded, lane: str) -> bool:
    """Return whether a waiter that is created alone is found in its lane."""
    return lanes.is_closed(loaded.semaphore, lane)


def _close(loaded: Loaded, waiter: Waiter) -> Transition[WaitAnswer]:
    """Close the semaphore, or a waiter's lane, unless it is closed, and have an admit run read the wait queue."""
    is_closed = may_join(loaded, waiter.lane)
    closed = loaded.semaphore if is_closed else lanes.closed(loaded.semaphore, waiter.lane, loaded.now)
    return Transition(lanes.keeping(closed, waiter.lane, waiter.request.key), WAITING, nudge=True)


def new_waiter(loaded: Loaded, request: WaitRequest) -> Waiter:
    lane = lane_of(loaded.semaphore, request.key, request.priority)
    return Waiter(request, loaded.incarnation, lane, _after(loaded.now, request.deadline_seconds))


def _after(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


# --- the next attempt ---


def wait_again(loaded: Loaded, request: WaitRequest, id_: str, token: int) -> Transition[Decided | None]:
    """Make the wait that follows a lease, as `wait` does. The answer is None if the lease was lost.

    The commit requires that the lease is held, and so it never leaves the waiter to be created alone.
    """
    if loaded.wait and loaded.wait.incarnation == loaded.incarnation:
        return wait(loaded, request)
    lease = find_lease(loaded.semaphore, id_, token, by_grant=False)
    if lease is None or not lease.is_live(loaded.now) or lease.is_ended_by(loaded.release):
        return unchanged(loaded, None)
    decided = wait(loaded, request)
    if decided.answer is Undecided.STALE_RECORD:
        return decided
    if decided.answer is Undecided.JOIN_ALONE:
        waiter = new_waiter(loaded, request)
        created = (WaiterTransition("created", waiter),)
        decided = Transition(loaded.semaphore, WAITING, created, effects=deadline_task(loaded.name, waiter))
    return replace(decided, unreleased=(lease,))


# --- leaving the wait queue ---


@dataclass(frozen=True, slots=True)
class Departure:
    """A waiter that leaves the wait queue without a grant, and the tasks that this causes."""

    transition: WaiterTransition
    effects: tuple[Effect, ...] = ()


def cancel(name: str, waiter: Waiter, now: datetime) -> Departure | None:
    """Take a cancelled wait out of the wait queue. Return None if it no longer waits."""
    departure = withdraw(name, waiter, now)
    unit = unit_task(name, waiter, "cancelled", now)
    return departure and replace(departure, effects=(*unit, *departure.effects))


def withdraw(name: str, waiter: Waiter, now: datetime) -> Departure | None:
    """Take a wait that its unit or flow does not need out of the wait queue. Unlike `cancel`, this fails no unit."""
    if waiter.state != "waiting":
        return None
    return Departure(leave(waiter, "cancelled"), departure_task(name, waiter, now))


def time_out(name: str, waiter: Waiter, now: datetime) -> Departure | None:
    """Take a wait out of the wait queue at its deadline. Return None if it has left. Raises `Unavailable` if early."""
    if waiter.state != "waiting" or waiter.deadline_at is None:
        return None
    if not waiter.is_late(now):
        raise Unavailable("the deadline has not passed by the server's clock")
    tasks = (*timeout_task(name, waiter, now), *departure_task(name, waiter, now))
    return Departure(leave(waiter, "timed_out"), tasks)
