"""The admit run: apply what was left to it, and pass on every permit that is free.

Under contention waits and signals are records of their own, which nobody can hinder; one run, named after a slot of the
server's time, applies up to a hundred of each in one guarded commit. The alarm of a lapsed lease is a run too. A run
that leaves work, or the semaphore on its way to open, asks for the next.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.core.operations.ports import Delete, Ports, Snapshot, Write
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NoSemaphore, Unavailable
from shared.semaphores.operations.changes import Looks, Seen, Step, change
from shared.semaphores.operations.endings import taken
from shared.semaphores.operations.removal import clean_deleted
from shared.semaphores.operations.waits import read_waiter, time_out
from shared.semaphores.rules import wait_queue as line
from shared.semaphores.rules.semaphores import Semaphore, reopened


def run(ports: Ports, task: str, payload: Mapping[str, Any]) -> None:
    """Do what a task of the admit queue asks for. Raises `Unavailable` when it should come again."""
    if task == "deadline":
        time_out(ports, payload["semaphore"], payload["id"])
    elif task == "clean":
        clean_deleted(ports, payload["semaphore"], payload["incarnation"])
    else:
        admit(ports, payload["semaphore"], datetime.fromisoformat(payload["at"]))


def admit(ports: Ports, name: str, not_before: datetime | None = None) -> None:
    """Pass permits on. Raises `Unavailable` if by the server's clock it is too early, or others were faster."""

    def decide(seen: Seen) -> Step[None]:
        if not_before is not None and seen.now < not_before:
            raise Unavailable("what this run is for may not have been committed yet")
        return admitted(seen)

    try:
        change(ports, name, decide, looks=lambda _: Looks(LIMITS.line_page, LIMITS.releases_page))
    except NoSemaphore:
        ports.log.info("nothing to admit to: the semaphore was deleted", semaphore=name)


def admitted(seen: Seen) -> Step[None]:
    """Apply releases, then grant from the head of the line; give the mode that follows."""
    settled, lapsed = _released(seen).settled(seen.now)
    stale = [one for one in seen.line if one.data and one.data["incarnation"] != seen.incarnation]
    waiting = {one.id: one for one in seen.line if one not in stale}
    waiters = [waiter for one in waiting.values() if (waiter := read_waiter(one))]
    after, grants = line.pass_on(settled, waiters, seen.now)
    full = len(seen.line) == LIMITS.line_page
    left = waiters[len(grants) :]
    mode = reopened(seen.semaphore.mode, found=bool(seen.line), left=full or bool(left))
    more = (
        mode == "opening"
        or len(seen.releases) == LIMITS.releases_page
        or (full and not left)
        or bool(left and left[0].permits <= after.free(seen.now))
    )
    writes: tuple[Write, ...] = (
        *taken(waiting, grants, seen.now),
        *(Delete(one.path, one.guard) for one in stale),
        *(Delete(one.path) for one in seen.releases),
    )
    effects = tuple(line.continuation(seen.name, one, seen.now) for one in grants)
    return Step(after.moved_to(mode, seen.now), None, writes, effects, nudge=more, spilled=lapsed)


def _released(seen: Seen) -> Semaphore:
    """End the leases whose releases were left; one that came in time counts as a signal, however late this run is."""
    semaphore = seen.semaphore
    for snapshot in seen.releases:
        semaphore = _without(semaphore, snapshot)
    return semaphore


def _without(semaphore: Semaphore, release: Snapshot) -> Semaphore:
    data, at = release.data or {}, release.create_time
    held = semaphore.lease(data["id"], data["token"])
    if held is None or at is None:
        return semaphore
    in_time = at < held.ends_at
    return semaphore.end(held, data["operation"] if in_time else "", in_time=in_time)
