"""Claim a lease for the continuation it was given to.

A continuation begins with its claim. A lease that lapsed before sends the wait back to its old place in the line; a
lease that is gone was ended by a signal, and there is nothing to run.
"""

from collections.abc import Mapping
from typing import Any

from shared.core.operations.ports import REMOVE, Change, Ports, Snapshot, Write
from shared.core.rules.problems import NoSemaphore
from shared.core.rules.task_context import Lease
from shared.semaphores.operations.changes import Contended, Seen, Step, change, nudge, see, waiter_path
from shared.semaphores.operations.endings import release_of
from shared.semaphores.operations.waits import deadline_task, leave, read_waiter
from shared.semaphores.rules import wait_queue as line
from shared.semaphores.rules.leases import Held, parse_lease
from shared.semaphores.rules.wait_queue import Waiter


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
    return (release_of(seen, held, "another delivery"),) if held.claimed else ()


def _back(snapshot: Snapshot, waiter: Waiter) -> Change:
    fields = {"state": "waiting", "grant": None, "since": waiter.joined, "expires_at": REMOVE}
    return Change(snapshot.path, {(name,): value for name, value in fields.items()}, snapshot.guard)
