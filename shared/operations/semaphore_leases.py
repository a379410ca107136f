"""Signal, renew and claim leases.

A signal ends a lease and passes its permits on to the head of the line in the same commit, continuations included.
`released` means: the lease was seen held, under this token, and the commit came before its end.

A continuation begins with its claim. A lease that lapsed before sends the wait back to its old place in the line; a
lease that is gone was ended by a signal, and there is nothing to run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.operations.ports import (
    REMOVE,
    AlreadyExists,
    Change,
    Conflict,
    Must,
    Ports,
    Put,
    Snapshot,
    Write,
)
from shared.operations.semaphore_changes import (
    Contended,
    Looks,
    Seen,
    Step,
    change,
    nudge,
    release_path,
    see,
    waiter_path,
)
from shared.operations.semaphore_waits import deadline_task, leave, no_wait, read_waiter
from shared.rules import line
from shared.rules.bounds import GUARDED_ROUNDS, LINE_PAGE, ROUNDS_MAX
from shared.rules.leases import Held, parse_lease
from shared.rules.line import Waiter
from shared.rules.occasions import Lease
from shared.rules.problems import NoSemaphore, Unavailable
from shared.rules.semaphores import Semaphore, reopened


@dataclass(frozen=True, slots=True)
class Ending:
    """Which lease to end, by the token that is valid now or by the one it was granted with; and on whose behalf."""

    id: str
    token: int
    operation: str
    by_grant: bool = False

    def of(self, semaphore: Semaphore) -> Held | None:
        """Find the lease; it may have lapsed."""
        find = semaphore.granted_as if self.by_grant else semaphore.lease
        return find(self.id, self.token)


# --- signal ---


def signal(ports: Ports, name: str, lease: str, operation: str = "") -> bool:
    """End a lease; tell whether it was still held. A call with the same `operation` is answered the same.

    Raises `NoSemaphore`, `BadSemaphore` if that is no lease's id, or `Unavailable`.
    """
    id_, token = parse_lease(lease)
    return _end_or_leave(ports, name, Ending(id_, token, operation or ports.store.new_id()))


def end_by_hand(ports: Ports, name: str, lease: str, reason: str) -> bool:
    """End a lease that is not one's own, and say in the log why."""
    released = signal(ports, name, lease)
    ports.log.info("lease ended by hand", semaphore=name, lease=lease, reason=reason, released=released)
    return released


def end(ports: Ports, name: str, ending: Ending, rounds: int) -> bool:
    """End a lease and pass its permits on in one commit. Raises `Contended` if others are faster too often."""
    done = change(
        ports, name, lambda seen: _end(seen, ending), looks=lambda seen: _line_for(seen, ending), rounds=rounds
    )
    return done.answer is not None and (done.committed is None or done.committed.commit_time < done.answer)


def _line_for(seen: Seen, ending: Ending) -> Looks:
    """Look at as many waiters as will find permits."""
    held = ending.of(seen.semaphore)
    if held is None or seen.semaphore.mode == "open":
        return Looks()
    free = seen.semaphore.end(held).free(seen.now)
    return Looks(waiters=max(0, min(free, LINE_PAGE)))


def _end(seen: Seen, ending: Ending) -> Step[datetime | None]:
    """Answer the end before which the commit must come, if the lease is held; None: it was lost."""
    held = ending.of(seen.semaphore)
    if held is None:
        return Step(seen.semaphore, _ended_by(seen, ending))
    live = held.live(seen.now)
    if not live and not held.continued:
        return Step(seen.semaphore, None)
    step = passed_on(seen, seen.semaphore.end(held, ending.operation if live else ""))
    return Step(step.semaphore, held.ends_at if live else None, step.writes, step.effects, step.nudge, step.spilled)


def _ended_by(seen: Seen, ending: Ending) -> datetime | None:
    """Give the lease's end if an earlier commit of the same operation is known to have come before it.

    That commit's answer was lost. It came no later than the record's last write; where that lies behind the end, nobody
    can tell, and a holder who cannot be told "in time" is told that the lease was lost.
    """
    past = seen.semaphore.past(ending.id, ending.token)
    if past is None or past.operation != ending.operation:
        return None
    update_time = seen.snapshot.update_time
    return past.ends_at if past.in_time or (update_time is not None and update_time < past.ends_at) else None


def passed_on(seen: Seen, semaphore: Semaphore) -> Step[None]:
    """Grant free permits to the waiters that were seen, and give the mode that follows."""
    settled, lapsed = semaphore.settled(seen.now)
    stale = [one for one in seen.line if one.data and one.data["incarnation"] != seen.incarnation]
    waiting = {one.id: one for one in seen.line if one not in stale}
    after, grants = line.pass_on(settled, [w for one in waiting.values() if (w := read_waiter(one))], seen.now)
    mode = reopened(semaphore.mode, found=False, left=bool(seen.line)) if seen.looked else semaphore.mode
    writes = taken(waiting, grants, seen.now)
    effects = tuple(line.continuation(seen.name, one, seen.now) for one in grants)
    return Step(
        after.moved_to(mode, seen.now), None, writes, effects, nudge=mode == "opening" or bool(stale), spilled=lapsed
    )


def taken(waiting: Mapping[str, Snapshot], grants: tuple[line.Grant, ...], now: datetime) -> tuple[Write, ...]:
    """Take those who were granted permits out of the line, each under the guard that it still waits."""
    return tuple(leave(waiting[one.waiter.id], "granted", now, grant=one.held.grant) for one in grants)


# --- signal, under contention ---


def leave_release(ports: Ports, name: str, ending: Ending) -> bool:
    """Leave the release to an admit run: a record of its own, which nobody can hinder. Raises `Unavailable`.

    A continuation that has not begun could begin before that run: its lease is ended under the guard, or not at all.
    """
    for _ in range(ROUNDS_MAX):
        seen = see(ports, name)
        held = ending.of(seen.semaphore)
        if held is None or not held.live(seen.now):
            return _end(seen, ending).answer is not None
        if not held.claimed:
            return end(ports, name, ending, ROUNDS_MAX)
        try:
            return _left(ports, seen, held, ending)
        except Unavailable:
            continue
    raise Unavailable(f"the release of a lease of {name} was not confirmed")


def _left(ports: Ports, seen: Seen, held: Held, ending: Ending) -> bool:
    """Leave a release, and see that it was this token's: once it is there, no other delivery can take the lease over.

    Raises `Unavailable` when the lease was ended or taken over meanwhile: the semaphore's record tells how.
    """
    put = _release(seen, held, ending.operation)
    try:
        committed_at = ports.store.commit([put]).commit_time
    except AlreadyExists:
        [there] = ports.store.read(put.path)
        if there.data is None or there.create_time is None:
            raise Unavailable("an admit run has applied the release") from None
        if there.data["operation"] != ending.operation:
            return False
        committed_at = there.create_time
    nudge(ports, seen.name, seen.incarnation, max(committed_at, seen.now))
    if ending.of(see(ports, seen.name).semaphore) is None:
        raise Unavailable("the lease was ended meanwhile")
    return committed_at < held.ends_at


def _release(seen: Seen, held: Held, operation: str) -> Put:
    """Write that a token is over: by a signal, or because another delivery of the task takes the lease over."""
    data = {"id": held.id, "token": held.token, "operation": operation, "incarnation": seen.incarnation}
    return Put(release_path(seen.name, held.name), data, Must.NOT_EXIST)


# --- renew ---


def renew(ports: Ports, name: str, lease: str, lease_seconds: float | None = None) -> datetime | None:
    """Let a lease end later; give its end, or None if it was lost: it is not acquired anew."""
    id_, token = parse_lease(lease)

    def decide(seen: Seen) -> Step[tuple[Held, Held] | None]:
        held = seen.semaphore.lease(id_, token)
        if held is None or not held.live(seen.now):
            return Step(seen.semaphore, None)
        after, renewed = seen.semaphore.renew(held, lease_seconds or held.seconds, seen.now)
        return Step(after, (held, renewed))

    done = change(ports, name, decide)
    if done.answer is None:
        return None
    held, renewed = done.answer
    if done.committed is not None and done.committed.commit_time >= held.ends_at:
        signal(ports, name, lease)  # it had ended before the renewal came: what is lost stays lost
        return None
    return renewed.ends_at


# --- claim and release, for a continuation's task ---


def claim(ports: Ports, given: Mapping[str, Any]) -> Lease | None:
    """Begin the lease that a continuation was given; None: it is not to run, now or ever under this lease.

    `given` is what stood beside the task's payload. Raises `Unavailable`.
    """
    name = given["semaphore"]
    id_, grant = parse_lease(given["id"])
    try:
        return _claimed(ports, name, id_, grant)
    except NoSemaphore:
        return None
    except Contended:
        seen = see(ports, name)  # a release may have been left by a process that then died
        nudge(ports, name, seen.incarnation, seen.now)
        raise


def _claimed(ports: Ports, name: str, id_: str, grant: int) -> Lease | None:
    """Claim by the semaphore's record alone, where that tells; otherwise with the wait's.

    A second delivery takes the lease over in the same commit that takes the first one's chance to leave a release.
    """
    path = waiter_path(name, id_)

    def decide(seen: Seen) -> Step[Held | bool | None]:
        held = seen.semaphore.granted_as(id_, grant)
        if held and held.live(seen.now):
            after, claimed = seen.semaphore.claim(held, seen.now)
            return Step(after, claimed, _taken_over(seen, held), nudge=held.claimed)
        return _lost(seen, held, grant) if seen.others else Step(seen.semaphore, False)

    held = change(ports, name, decide).answer
    if held is False:
        held = change(ports, name, decide, beside=lambda _: [path]).answer
    return Lease(name, held.name, held.token, held.ends_at) if isinstance(held, Held) else None


def _lost(seen: Seen, held: Held | None, grant: int) -> Step[Held | bool | None]:
    """Send the wait back to its old place, if this grant lapsed; nothing, if a signal ended it."""
    snapshot = seen.others[0]
    waiter = read_waiter(snapshot)
    if waiter is None or waiter.incarnation != seen.incarnation or waiter.grant != grant:
        return Step(seen.semaphore, None)
    if held is None and waiter.state != "lost":
        return Step(seen.semaphore, None)
    left = seen.semaphore.end(held) if held else seen.semaphore
    over = _taken_over(seen, held) if held else ()
    if waiter.late(seen.now):
        gone = leave(snapshot, "timed_out", seen.now)
        return Step(left, None, (gone, *over), line.timeout(seen.name, waiter, seen.now))
    closed = left.moved_to("closed", seen.now)
    return Step(closed, None, (_back(snapshot, waiter), *over), deadline_task(seen.name, waiter), nudge=True)


def _taken_over(seen: Seen, held: Held) -> tuple[Write, ...]:
    """Take from another delivery the chance to leave a release; if it has left one, this commit fails."""
    return (_release(seen, held, "another delivery"),) if held.claimed else ()


def _back(snapshot: Snapshot, waiter: Waiter) -> Change:
    fields = {"state": "waiting", "grant": None, "since": waiter.joined, "expires_at": REMOVE}
    return Change(snapshot.path, {(name,): value for name, value in fields.items()}, snapshot.guard)


def release(ports: Ports, lease: Lease | Mapping[str, Any]) -> bool:
    """Give a lease back for the task that ran under it; tell whether it was still held.

    What stood beside the payload names the grant, whichever delivery has claimed it: for a task that gives up. A
    claimed `Lease` names itself only.
    """
    if isinstance(lease, Lease):
        return signal(ports, lease.semaphore, lease.id)
    id_, grant = parse_lease(lease["id"])
    return _end_or_leave(ports, lease["semaphore"], Ending(id_, grant, ports.store.new_id(), by_grant=True))


def _end_or_leave(ports: Ports, name: str, ending: Ending) -> bool:
    try:
        return end(ports, name, ending, GUARDED_ROUNDS)
    except Contended:
        return leave_release(ports, name, ending)


# --- cancel ---


def cancel(ports: Ports, name: str, id_: str) -> bool:
    """End a wait: out of the line, or, if it was granted meanwhile, signal its lease. Tell whether that took effect.

    Raises `NotFound` if no such wait is known.
    """
    for _ in range(ROUNDS_MAX):
        seen = see(ports, name, beside=[waiter_path(name, id_)])
        [snapshot] = seen.others
        waiter = read_waiter(snapshot)
        if waiter is None or waiter.incarnation != seen.incarnation:
            raise no_wait(name, id_)
        if waiter.state != "waiting":
            return _cancel_granted(ports, name, waiter)
        try:
            ports.store.commit([leave(snapshot, "cancelled", seen.now)])
        except (Conflict, Unavailable):
            continue  # granted meanwhile, or the answer was lost: the record tells
        return True
    raise Unavailable(f"the wait {id_} changes too often")


def _cancel_granted(ports: Ports, name: str, waiter: Waiter) -> bool:
    if waiter.state != "granted" or waiter.grant is None:
        return waiter.state == "cancelled"
    return _end_or_leave(ports, name, Ending(waiter.id, waiter.grant, ports.store.new_id(), by_grant=True))
