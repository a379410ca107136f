"""The wait queue: free permits go to the waiters at its head, in the order of the server's commit times.

One rule grants, whatever frees the permits: a signal grants its own in the same commit, an admit run grants all that
are free.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.semaphores.rules.leases import LeaseRecord
from shared.semaphores.rules.semaphores import Mode, Semaphore
from shared.semaphores.rules.tasks import continuation_task
from shared.semaphores.rules.transitions import Loaded, WaiterTransition
from shared.semaphores.rules.waiters import Waiter


@dataclass(frozen=True, slots=True)
class Grant:
    """A waiter that got its permits, and its lease."""

    waiter: Waiter
    lease: LeaseRecord


@dataclass(frozen=True, slots=True)
class Granted:
    """The semaphore after the grants; which waiters got permits, which still wait, and which are stale.

    Stale waiters wait for an earlier semaphore of this name. `evicted` are as in `Transition`.
    """

    semaphore: Semaphore
    grants: tuple[Grant, ...]
    remaining: tuple[Waiter, ...]
    stale: tuple[Waiter, ...]
    evicted: tuple[LeaseRecord, ...]

    @property
    def transitions(self) -> tuple[WaiterTransition, ...]:
        """Return what happens to the waiters that got permits."""
        return tuple(WaiterTransition("left", one.waiter) for one in self.grants)

    def continuations(self, loaded: Loaded) -> tuple[Effect, ...]:
        """Return the continuations of the waiters that got permits."""
        return tuple(continuation_task(loaded.name, one.waiter, one.lease, loaded.now) for one in self.grants)


def grant_waiters(loaded: Loaded, semaphore: Semaphore) -> Granted:
    """Grant the permits of `semaphore` that are free to the waiters that were read, from the head of the queue."""
    semaphore, evicted = semaphore.expire_leases(loaded.now)
    stale = tuple(one for one in loaded.waiters if one.incarnation != loaded.incarnation)
    waiting = tuple(one for one in loaded.waiters if one.incarnation == loaded.incarnation)
    semaphore, grants = _grant_in_order(semaphore, waiting, loaded.now)
    return Granted(semaphore, grants, waiting[len(grants) :], stale, evicted)


def _grant_in_order(
    semaphore: Semaphore, waiters: Iterable[Waiter], now: datetime
) -> tuple[Semaphore, tuple[Grant, ...]]:
    """Grant for as long as the permits last: nobody overtakes a waiter at the head that needs more than are free."""
    grants: list[Grant] = []
    size_bytes = 0
    for waiter in waiters:
        size_bytes += len(waiter.continuation.to_record()["payload"])
        if waiter.permits > semaphore.free(now) or (grants and size_bytes > LIMITS.grant_bytes_max):
            break
        semaphore, grant = grant_permits(semaphore, waiter, now)
        grants.append(grant)
    return semaphore, tuple(grants)


def grant_permits(semaphore: Semaphore, waiter: Waiter, now: datetime) -> tuple[Semaphore, Grant]:
    """Grant a waiter its permits, to be claimed by its continuation soon after that is due."""
    seconds = waiter.lease_seconds or semaphore.lease_seconds
    claim_seconds = LIMITS.claim_seconds + waiter.continuation.delay_seconds
    after, lease = semaphore.grant(waiter.id, waiter.permits, seconds, now, claim_seconds=claim_seconds)
    return after, Grant(replace(waiter, state="granted", grant=lease.grant), lease)


def mode_after(mode: Mode, *, found: bool, remaining: bool) -> Mode:
    """Return the mode after a read of the wait queue that `found` somebody, with somebody `remaining` in it."""
    if remaining:
        return "closed"
    return "opening" if mode == "closed" or found else "open"
