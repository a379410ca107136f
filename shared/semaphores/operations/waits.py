"""Wait for permits: at once or not at all, or with a continuation that runs when they are ours; and cancel.

A wait is known by its id. Its record is created with it and stays as a receipt, so that a wait which comes again
changes nothing and is answered as before. Two ways lead into the line:

    guarded     one commit closes the semaphore and creates the waiter
    combining   under contention the waiter is created alone, which nobody can hinder; then the semaphore is read again,
                and closed if it is not, before the caller hears that it waits; an admit run does the rest
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared.core.operations import outbox
from shared.core.operations.ports import (
    REMOVE,
    SERVER_TIME,
    AlreadyExists,
    Change,
    Conflict,
    Delete,
    Guard,
    Must,
    Ports,
    Put,
    Snapshot,
)
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadSemaphore, NoSemaphore, NotFound, Unavailable
from shared.semaphores.operations.changes import (
    FUNCTION,
    QUEUE,
    Contended,
    Done,
    Looks,
    Seen,
    Step,
    change,
    see,
    waiter_path,
)
from shared.semaphores.rules import wait_queue as line
from shared.semaphores.rules.requests import Wish
from shared.semaphores.rules.semaphores import path_of
from shared.semaphores.rules.wait_queue import Waiter

Answered = dict[str, Any]
"""What the caller is told: ``{"acquired", "lease"?, "waiting"?}``."""

WAITING: Answered = {"acquired": False, "waiting": True}


def wait(ports: Ports, name: str, wish: Wish) -> Answered:
    """Take permits, or a place in the line. Raises `NoSemaphore`, `BadSemaphore` or `Unavailable`."""
    if wish.continuation is None:
        return change(ports, name, lambda seen: _acquire(seen, wish), looks=lambda seen: _head(seen, wish)).answer
    try:
        return join(ports, name, wish).answer
    except Contended:
        return combine(ports, name, wish)


# --- without a continuation ---


def _acquire(seen: Seen, wish: Wish) -> Step[Answered]:
    """Take permits if they are free and nobody waits for them. A failed attempt leaves no trace."""
    known = _lease_of(seen, wish.id)
    if known:
        return Step(seen.semaphore, known)
    _check_permits(seen, wish)
    settled, lapsed = seen.semaphore.settled(seen.now)
    if seen.line or wish.permits > settled.free(seen.now):
        return Step(seen.semaphore, {"acquired": False})
    seconds = wish.lease_seconds or settled.lease_seconds
    after, held = settled.grant(wish.id, wish.permits, seconds, seen.now, claim_seconds=None)
    return Step(after, {"acquired": True, "lease": held.shown()}, spilled=lapsed)


def _lease_of(seen: Seen, id_: str) -> Answered | None:
    """Find what an earlier delivery of this wait was given."""
    held = next((one for one in seen.semaphore.leases if one.id == id_ and not one.continued), None)
    past = held or seen.semaphore.past(id_)
    return {"acquired": True, "lease": past.shown()} if past else None


def _head(seen: Seen, wish: Wish) -> Looks:
    """Look whether somebody waits, where the record does not rule it out and it matters."""
    free = seen.semaphore.free(seen.now) >= wish.permits
    return Looks(waiters=1) if free and seen.semaphore.mode != "open" else Looks()


def _check_permits(seen: Seen, wish: Wish) -> None:
    if wish.permits > seen.semaphore.permits:
        raise BadSemaphore(f"The semaphore has {seen.semaphore.permits:,} permits in all.", field="permits")


# --- with one, guarded ---


def join(ports: Ports, name: str, wish: Wish) -> Done[Answered]:
    """Grant the wait or put it into the line, in one commit. Raises `Contended` if others are faster too often.

    The wait's own record is read only when a commit has failed: that it must not exist is part of the commit.
    """
    paths = [waiter_path(name, wish.id)]
    return change(
        ports,
        name,
        lambda seen: _join(seen, wish),
        looks=lambda seen: _head(seen, wish),
        beside=lambda attempt: paths if attempt else (),
        rounds=LIMITS.guarded_rounds,
    )


def _join(seen: Seen, wish: Wish) -> Step[Answered]:
    known = _known(seen, seen.others)
    if known:
        return _repeated(seen, known)
    _check_permits(seen, wish)
    settled, lapsed = seen.semaphore.settled(seen.now)
    waiter = _waiter(wish, seen)
    guard = seen.others[0].guard if seen.others else Must.NOT_EXIST
    enough = wish.permits <= settled.free(seen.now)
    if enough and not seen.line:
        after, granted = line.grant(settled, waiter, seen.now)
        answer = {"acquired": True, "lease": granted.held.shown()}
        receipt = put_waiter(seen.name, replace(granted.waiter, answer=answer), seen.now, guard)
        task = line.continuation(seen.name, granted, seen.now)
        return Step(after.receipted(seen.now), answer, (receipt,), (task,), spilled=lapsed)
    put = put_waiter(seen.name, waiter, seen.now, guard)
    closed = settled.moved_to("closed", seen.now)
    return Step(closed, WAITING, (put,), deadline_task(seen.name, waiter), nudge=enough, spilled=lapsed)


def _known(seen: Seen, others: Sequence[Snapshot]) -> Waiter | None:
    """Find this wait's record, if it waits for this very semaphore."""
    waiter = read_waiter(others[0]) if others else None
    return waiter if waiter and waiter.incarnation == seen.incarnation else None


def _repeated(seen: Seen, waiter: Waiter) -> Step[Answered]:
    """Answer as before; one that waits is told so only if the semaphore is closed."""
    answer = dict(waiter.answer or WAITING)
    return _closed(seen, answer) if waiter.state == "waiting" else Step(seen.semaphore, answer)


def _closed(seen: Seen, answer: Answered) -> Step[Answered]:
    """Close the semaphore, unless it is, and have an admit run look at the line."""
    closed = seen.semaphore.moved_to("closed", seen.now)
    return Step(seen.semaphore if seen.semaphore.mode == "closed" else closed, answer, nudge=True)


# --- under contention ---


def combine(ports: Ports, name: str, wish: Wish) -> Answered:
    """Get into the line without the semaphore's record, which many write: an admit run grants many at once."""
    seen = see(ports, name)
    _check_permits(seen, wish)
    waiter = _waiter(wish, seen)
    try:
        put = put_waiter(name, waiter, seen.now, Must.NOT_EXIST)
        outbox.commit(ports, [put], deadline_task(name, waiter))
    except AlreadyExists:
        return change(ports, name, lambda now: _again(now, wish), beside=lambda _: [waiter_path(name, wish.id)]).answer
    return confirm(ports, name, waiter)


def confirm(ports: Ports, name: str, waiter: Waiter) -> Answered:
    """Answer "waiting" for a waiter that was created alone, once the semaphore is seen or made closed."""
    try:
        return change(ports, name, lambda seen: _confirmed(seen, waiter)).answer
    except NoSemaphore:
        ports.store.commit([Delete(waiter_path(name, waiter.id))])
        raise


def _confirmed(seen: Seen, waiter: Waiter) -> Step[Answered]:
    if waiter.incarnation != seen.incarnation:
        raise Unavailable("the semaphore was deleted and created anew meanwhile")
    return _closed(seen, WAITING)


def _again(seen: Seen, wish: Wish) -> Step[Answered]:
    """Answer a wait whose record is there already; one of an earlier semaphore makes room."""
    known = _known(seen, seen.others)
    return _repeated(seen, known) if known else _join(seen, wish)


# --- a wait's record ---


def _waiter(wish: Wish, seen: Seen) -> Waiter:
    assert wish.continuation is not None, "only a wait with a continuation has a record"
    return Waiter(
        id=wish.id,
        incarnation=seen.incarnation,
        continuation=wish.continuation,
        permits=wish.permits,
        lease_seconds=wish.lease_seconds,
        release_on_return=wish.release_on_return,
        on_timeout=wish.on_timeout,
        deadline_at=line.deadline_after(seen.now, wish.deadline_seconds),
        answer=WAITING,
    )


def put_waiter(name: str, waiter: Waiter, now: datetime, guard: Guard) -> Put:
    """Write a wait's record; its place in the line is the server's time of this commit."""
    place = {"since": SERVER_TIME} if waiter.state == "waiting" else {"expires_at": expiry(now)}
    return Put(waiter_path(name, waiter.id), waiter.record() | {"joined": SERVER_TIME} | place, guard)


def leave(snapshot: Snapshot, state: line.State, now: datetime, **more: Any) -> Change:
    """Take a waiter out of the line; its record stays as a receipt. The guard is that nobody else has."""
    fields = {"state": state, "since": REMOVE, "expires_at": expiry(now)} | more
    return Change(snapshot.path, {(name,): value for name, value in fields.items()}, snapshot.guard)


def expiry(now: datetime) -> datetime:
    """Say until when a receipt is kept."""
    return now + timedelta(seconds=LIMITS.receipt_seconds)


def read_waiter(snapshot: Snapshot) -> Waiter | None:
    """Read a wait's record, if there is one."""
    return None if snapshot.data is None else Waiter.of(snapshot.id, snapshot.data)


# --- leaving the line ---


def deadline_task(name: str, waiter: Waiter) -> tuple[Effect, ...]:
    """Ask for a look at a waiter when its deadline is over."""
    if waiter.deadline_at is None:
        return ()
    task = name_of(path_of(name), waiter.incarnation, waiter.id, waiter.grant, "deadline")
    payload = {"semaphore": name, "id": waiter.id}
    return (Effect(task, QUEUE, FUNCTION, "deadline", payload, not_before=waiter.deadline_at),)


def time_out(ports: Ports, name: str, id_: str) -> None:
    """End a wait whose deadline is over, if it still waits. Raises `Unavailable` if it is too early."""
    [snapshot] = ports.store.read(waiter_path(name, id_))
    waiter = read_waiter(snapshot)
    if waiter is None or waiter.state != "waiting" or waiter.deadline_at is None:
        return
    if not waiter.late(snapshot.read_time):
        raise Unavailable("the deadline is not over by the server's clock")
    try:
        effects = line.timeout(name, waiter, snapshot.read_time)
        outbox.commit(ports, [leave(snapshot, "timed_out", snapshot.read_time)], effects)
    except Conflict as conflict:
        raise Unavailable("the wait changed meanwhile") from conflict


def no_wait(name: str, id_: str) -> NotFound:
    """Say that there is no such wait."""
    return NotFound(f"No wait {id_!r} is known at semaphore {name!r}.", field="id")
