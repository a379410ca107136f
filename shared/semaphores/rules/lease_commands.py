"""What the holder of a lease does with it: claim it for a continuation, renew it, end it.

Ending a lease passes its permits on to the head of the wait queue in the same commit, continuations included.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from shared.core.rules.limits import LIMITS
from shared.semaphores.rules.known_heads import NOTHING_KNOWN
from shared.semaphores.rules.leases import LeaseRecord, Release
from shared.semaphores.rules.semaphores import Semaphore
from shared.semaphores.rules.tasks import deadline_task, timeout_task
from shared.semaphores.rules.transitions import Loaded, QueueReads, Transition, WaiterTransition, leave, unchanged
from shared.semaphores.rules.wait_queue import grant_waiters, mode_after

# --- end ---


@dataclass(frozen=True, slots=True)
class EndLease:
    """Which lease to end, by the token valid now or by the one it was granted with; and by which operation."""

    id: str
    token: int
    operation: str
    by_grant: bool = False

    def lease(self, semaphore: Semaphore) -> LeaseRecord | None:
        """Return the lease; it may have expired."""
        find = semaphore.granted_as if self.by_grant else semaphore.lease
        return find(self.id, self.token)


def end_reads(loaded: Loaded, command: EndLease) -> QueueReads:
    """Read as many waiters as can find permits once the lease has ended."""
    lease = command.lease(loaded.semaphore)
    if lease is None or loaded.semaphore.mode == "open":
        return QueueReads()
    free = loaded.semaphore.end(lease).free(loaded.now)
    return QueueReads(waiters=max(0, min(free, LIMITS.grants_page_max)), in_order=True)


def end_lease(loaded: Loaded, command: EndLease) -> Transition[datetime | None]:
    """End a lease and grant its permits to the head of the wait queue.

    The answer is the lease's end: the commit must come before it for the lease to count as released. None: the lease
    was lost before.
    """
    lease = command.lease(loaded.semaphore)
    if lease is None:
        return unchanged(loaded, _ended_before(loaded, command))
    live = lease.live(loaded.now)
    if not live and not lease.continued:
        return unchanged(loaded, None)
    ended = loaded.semaphore.end(lease, command.operation if live else "")
    return _passed_on(loaded, ended, lease.ends_at if live else None)


def _ended_before(loaded: Loaded, command: EndLease) -> datetime | None:
    """Return the lease's end if an earlier commit of the same operation is known to have come before it.

    That commit's answer was lost. It came no later than the record's last write; where that is after the end, nobody
    can know, and a holder who cannot be answered "in time" is answered that the lease was lost.
    """
    ended = loaded.semaphore.ended_lease(command.id, command.token)
    if ended is None or ended.operation != command.operation:
        return None
    in_time = ended.in_time or (loaded.update_time is not None and loaded.update_time < ended.ends_at)
    return ended.ends_at if in_time else None


def _passed_on(loaded: Loaded, semaphore: Semaphore, answer: datetime | None) -> Transition[datetime | None]:
    """Grant what is free. There may be more waiters than were read, so only an empty read can begin to open.

    If permits are left over, an admit run looks again: a waiter may have been created alone after the read.
    """
    granted = grant_waiters(loaded, semaphore)
    mode = semaphore.mode
    if loaded.reads.waiters:
        mode = mode_after(mode, found=False, remaining=bool(loaded.waiters))
    more = bool(loaded.waiters) and not granted.remaining and granted.semaphore.free(loaded.now) > 0
    return Transition(
        granted.semaphore.moved_to(mode, loaded.now),
        answer,
        granted.transitions,
        effects=granted.tasks(loaded),
        nudge=mode == "opening" or more or bool(granted.stale or granted.refused),
        evicted=granted.evicted,
    )


# --- renew ---


@dataclass(frozen=True, slots=True)
class Renewal:
    """A lease before and after its renewal. The commit must come before the first one's end, or the lease was lost."""

    before: LeaseRecord
    after: LeaseRecord


def renew(
    loaded: Loaded, id_: str, token: int, lease_seconds: float | None, *, by_grant: bool = False
) -> Transition[Renewal | None]:
    """Extend a lease, of a token or of a grant; None: it was lost, and is not acquired anew."""
    find = loaded.semaphore.granted_as if by_grant else loaded.semaphore.lease
    lease = find(id_, token)
    if lease is None or not lease.live(loaded.now):
        return unchanged(loaded, None)
    semaphore, renewed = loaded.semaphore.renew(lease, lease_seconds or lease.seconds, loaded.now)
    return Transition(semaphore, Renewal(lease, renewed))


# --- claim ---


class Unknown(Enum):
    """The semaphore's record alone does not tell."""

    READ_WAITER = "the waiter's record must be read too"


READ_WAITER = Unknown.READ_WAITER
Claimed = LeaseRecord | Unknown | None


def claim(loaded: Loaded, id_: str, grant: int) -> Transition[Claimed]:
    """Start the lease that a continuation was granted; None: it must not run under this grant.

    A second delivery takes the lease over, in the commit that also takes the first one's chance to leave a release.
    """
    lease = loaded.semaphore.granted_as(id_, grant)
    if lease and lease.live(loaded.now):
        semaphore, claimed = loaded.semaphore.claim(lease, loaded.now)
        taken = take_over(loaded, lease)
        return Transition(semaphore, claimed, releases_created=taken, nudge=lease.claimed)
    return claim_lost(loaded, lease, grant) if loaded.wait_read else unchanged(loaded, READ_WAITER)


def claim_lost(loaded: Loaded, lease: LeaseRecord | None, grant: int) -> Transition[Claimed]:
    """Put the wait back in its old place, if this grant expired unclaimed; nothing, if a signal ended it."""
    waiter = loaded.wait
    if waiter is None or waiter.incarnation != loaded.incarnation or waiter.grant != grant:
        return unchanged(loaded, None)
    if lease is None and waiter.state != "lost":
        return unchanged(loaded, None)
    semaphore = loaded.semaphore.end(lease) if lease else loaded.semaphore
    taken = take_over(loaded, lease) if lease else ()
    if waiter.is_late(loaded.now):
        timeout = timeout_task(loaded.name, waiter, loaded.now)
        return Transition(semaphore, None, (leave(waiter, "timed_out"),), taken, effects=timeout)
    back = WaiterTransition("requeued", replace(waiter, state="waiting", grant=None, since=waiter.joined))
    deadline = deadline_task(loaded.name, waiter)
    closed = replace(semaphore.moved_to("closed", loaded.now), known=NOTHING_KNOWN)
    return Transition(closed, None, (back,), taken, effects=deadline, nudge=True)


def take_over(loaded: Loaded, lease: LeaseRecord) -> tuple[Release, ...]:
    """Take from another delivery the chance to leave a release; if it has left one, this commit fails."""
    return (release_of(loaded, lease, "another delivery"),) if lease.claimed else ()


def release_of(loaded: Loaded, lease: LeaseRecord, operation: str) -> Release:
    """Return the record that ends a token."""
    return Release(lease.id, lease.token, operation, loaded.incarnation)
