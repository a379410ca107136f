"""End a lease, and pass its permits on to the head of the line in the same commit, continuations included.

`released` means: the lease was seen held, under this token, and the commit came before its end. Under contention the
release is left as a record of its own, which an admit run applies.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from shared.core.operations.ports import AlreadyExists, Must, Ports, Put, Snapshot, Write
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.semaphores.operations.changes import Contended, Looks, Seen, Step, change, nudge, release_path, see
from shared.semaphores.operations.waits import leave, read_waiter
from shared.semaphores.rules import wait_queue as line
from shared.semaphores.rules.leases import Held
from shared.semaphores.rules.semaphores import Semaphore, reopened


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


def end_or_leave(ports: Ports, name: str, ending: Ending) -> bool:
    """End a lease now, or leave that to an admit run; tell whether it was still held. Raises `Unavailable`."""
    try:
        return end(ports, name, ending, LIMITS.guarded_rounds)
    except Contended:
        return leave_release(ports, name, ending)


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
    return Looks(waiters=max(0, min(free, LIMITS.line_page)))


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


# --- under contention ---


def leave_release(ports: Ports, name: str, ending: Ending) -> bool:
    """Leave the release to an admit run: a record of its own, which nobody can hinder. Raises `Unavailable`.

    A continuation that has not begun could begin before that run: its lease is ended under the guard, or not at all.
    """
    for _ in range(LIMITS.rounds_max):
        seen = see(ports, name)
        held = ending.of(seen.semaphore)
        if held is None or not held.live(seen.now):
            return _end(seen, ending).answer is not None
        if not held.claimed:
            return end(ports, name, ending, LIMITS.rounds_max)
        try:
            return _left(ports, seen, held, ending)
        except Unavailable:
            continue
    raise Unavailable(f"the release of a lease of {name} was not confirmed")


def _left(ports: Ports, seen: Seen, held: Held, ending: Ending) -> bool:
    """Leave a release, and see that it was this token's: once it is there, no other delivery can take the lease over.

    Raises `Unavailable` when the lease was ended or taken over meanwhile: the semaphore's record tells how.
    """
    put = release_of(seen, held, ending.operation)
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


def release_of(seen: Seen, held: Held, operation: str) -> Put:
    """Write that a token is over: by a signal, or because another delivery of the task takes the lease over."""
    data = {"id": held.id, "token": held.token, "operation": operation, "incarnation": seen.incarnation}
    return Put(release_path(seen.name, held.name), data, Must.NOT_EXIST)
