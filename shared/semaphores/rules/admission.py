"""The admit run: apply the releases that were left, and grant every permit that is free.

Under contention waits and signals are records of their own, whose commits nobody can fail; one run, named after a slot
of the server's time, applies up to a hundred of each in one guarded commit. The alarm of an expiring lease is such a
run too. A run that leaves work, or a semaphore in mode `opening`, asks for the next.
"""

from datetime import datetime
from functools import reduce

from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.semaphores.rules import wait_queue
from shared.semaphores.rules.leases import Release
from shared.semaphores.rules.semaphores import Mode, Semaphore
from shared.semaphores.rules.transitions import Loaded, QueueReads, Transition, WaiterTransition
from shared.semaphores.rules.wait_queue import Granted, grant_waiters, mode_after


def admit_reads(loaded: Loaded) -> QueueReads:
    """Read a page of waiters; only as many as find permits, if these are known; none, if all permits are held."""
    semaphore = _after_releases(loaded)
    free = semaphore.free(loaded.now)
    if free <= 0 and semaphore.mode == "closed":
        return QueueReads()
    known = 0 < free <= len(semaphore.known.ids)
    return QueueReads(free if known else LIMITS.grants_page_max, in_order=True)


def refuse(loaded: Loaded) -> Transition[Semaphore]:
    """End the waits on a page behind the first that can never be granted."""
    return wait_queue.refuse(loaded, loaded.semaphore)


def check_due(now: datetime, not_before: datetime | None) -> None:
    """Raise `Unavailable` for a run that is early: what it is for may not have been committed yet."""
    if not_before is not None and now < not_before:
        raise Unavailable("what this run is for may not have been committed yet")


def admit(loaded: Loaded) -> Transition[None]:
    """Apply releases, grant from the head of the wait queue, delete stale waiters, and set the mode that follows."""
    granted = grant_waiters(loaded, _after_releases(loaded))
    free = granted.semaphore.free(loaded.now)
    fits = granted.remaining and granted.remaining[0].permits <= free
    more_waiters = (loaded.more_waiters and not granted.remaining and free > 0) or bool(granted.refused)
    mode = _mode(loaded, granted)
    more_releases = len(loaded.releases) == LIMITS.releases_page_max
    removed = tuple(WaiterTransition("removed", one) for one in granted.stale)
    return Transition(
        granted.semaphore.moved_to(mode, loaded.now),
        None,
        (*granted.transitions, *removed),
        releases_applied=loaded.releases,
        effects=granted.tasks(loaded),
        nudge=bool(mode == "opening" or more_releases or more_waiters or fits),
        evicted=granted.evicted,
    )


def _mode(loaded: Loaded, granted: Granted) -> Mode:
    """Return the mode that follows; what was not read tells nothing."""
    if not loaded.reads.waiters:
        return loaded.semaphore.mode
    remaining = loaded.more_waiters or bool(granted.remaining)
    return mode_after(loaded.semaphore.mode, found=bool(loaded.waiters), remaining=remaining)


def _after_releases(loaded: Loaded) -> Semaphore:
    return reduce(_apply, loaded.releases, loaded.semaphore)


def _apply(semaphore: Semaphore, release: Release) -> Semaphore:
    """End a lease. A release that was created in time counts as a signal, however late this run is."""
    lease = semaphore.lease(release.id, release.token)
    if lease is None or release.created_at is None:
        return semaphore
    in_time = release.created_at < lease.ends_at
    return semaphore.end(lease, release.operation if in_time else "", in_time=in_time)
