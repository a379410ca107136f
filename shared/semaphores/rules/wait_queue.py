"""The wait queue: free permits go to the waiters at its head, in the order of their records' create times.

One rule grants, whatever frees the permits: a signal grants its own in the same commit, an admit run grants all that
are free. It also ends the waits that want more permits than the semaphore has by now: nobody behind them could go on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate

from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.semaphores.rules.leases import LeaseRecord
from shared.semaphores.rules.semaphores import Mode, Semaphore
from shared.semaphores.rules.tasks import continuation_task, refuse_task, timeout_task
from shared.semaphores.rules.transitions import Loaded, Transition, WaiterTransition, leave
from shared.semaphores.rules.waiters import Waiter


@dataclass(frozen=True, slots=True)
class Grant:
    """A waiter that got its permits, and its lease."""

    waiter: Waiter
    lease: LeaseRecord


@dataclass(frozen=True, slots=True)
class Granted:
    """The semaphore after the grants; which waiters got permits, are refused, still wait, and which are stale.

    Stale waiters wait for an earlier semaphore of this name. `evicted` are as in `Transition`.
    """

    semaphore: Semaphore
    grants: tuple[Grant, ...]
    refused: tuple[Waiter, ...]
    remaining: tuple[Waiter, ...]
    stale: tuple[Waiter, ...]
    evicted: tuple[LeaseRecord, ...]

    @property
    def transitions(self) -> tuple[WaiterTransition, ...]:
        """Return what happens to the waiters that got permits, and to those that are refused."""
        left = tuple(WaiterTransition("left", one.waiter) for one in self.grants)
        return left + tuple(leave(one, "refused") for one in self.refused)

    def tasks(self, loaded: Loaded) -> tuple[Effect, ...]:
        """Return the continuations of the waiters that got permits, and the `on_timeout` of those that are refused."""
        granted = tuple(continuation_task(loaded.name, one.waiter, one.lease, loaded.now) for one in self.grants)
        return granted + refusals(loaded, self.refused)


def head_of(page: Sequence[Waiter], *, more: bool) -> tuple[Waiter, ...]:
    """Return the waiters of the first page by `since` that come first by create time, in that order.

    If there may be `more` behind the page, those whose create time lies close to its end are left out: another one,
    behind it by `since`, may have been created before them.
    """
    in_order = sorted(page, key=lambda one: (one.created_at, one.id))
    if not more or page[-1].since is None:
        return tuple(in_order)
    certain_until = page[-1].since - timedelta(seconds=LIMITS.since_ahead_seconds)
    return tuple(one for one in in_order if one.created_at is not None and one.created_at < certain_until)


def grant_waiters(loaded: Loaded, semaphore: Semaphore) -> Granted:
    """Grant the permits of `semaphore` that are free to the waiters that were read, from the head of the queue."""
    semaphore, evicted = semaphore.expire_leases(loaded.now)
    stale = tuple(one for one in loaded.waiters if one.incarnation != loaded.incarnation)
    waiting = tuple(one for one in loaded.waiters if one.incarnation == loaded.incarnation)
    refused = _within_one_commit([one for one in waiting if is_hopeless(one, semaphore)])
    room_bytes = LIMITS.grant_bytes_max - sum(map(_refusal_bytes, refused))
    others = tuple(one for one in waiting if one not in refused)
    semaphore, grants = _grant_in_order(semaphore, others, loaded.now, room_bytes, first=not refused)
    remaining = others[len(grants) :]
    if loaded.reads.in_order and loaded.reads.waiters:
        semaphore = replace(semaphore, known=loaded.known.after(remaining))
    return Granted(semaphore, grants, refused, remaining, stale, evicted)


def _grant_in_order(
    semaphore: Semaphore, waiters: Iterable[Waiter], now: datetime, room_bytes: int, *, first: bool
) -> tuple[Semaphore, tuple[Grant, ...]]:
    """Grant for as long as the permits last: nobody overtakes a waiter at the head that needs more than are free."""
    grants: list[Grant] = []
    for waiter in waiters:
        room_bytes -= len(waiter.continuation.to_record()["payload"])
        if waiter.permits > semaphore.free(now) or (room_bytes < 0 and (grants or not first)):
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


# --- waits that can never be granted ---


def is_hopeless(waiter: Waiter, semaphore: Semaphore) -> bool:
    """Return whether a waiter wants more permits than the semaphore has by now."""
    return waiter.permits > semaphore.permits


def refuse(loaded: Loaded, after: Semaphore) -> Transition[Semaphore]:
    """End the waits on this page that `after` can never grant; a task does so on the next page."""
    waiting = [one for one in loaded.waiters if one.incarnation == loaded.incarnation]
    hopeless = [one for one in waiting if is_hopeless(one, after)]
    refused = _within_one_commit(hopeless)
    left = tuple(leave(one, "refused") for one in refused)
    tasks = refusals(loaded, refused)
    if len(refused) < len(hopeless):
        tasks += (refuse_task(loaded.name, loaded.incarnation, refused[-1], loaded.now),)
    elif loaded.waiters and loaded.more_waiters:
        tasks += (refuse_task(loaded.name, loaded.incarnation, loaded.waiters[-1], loaded.now),)
    return Transition(after, after, left, effects=tasks, nudge=bool(refused))


def refusals(loaded: Loaded, refused: Iterable[Waiter]) -> tuple[Effect, ...]:
    """Return the `on_timeout` tasks of waiters that are refused."""
    return tuple(task for one in refused for task in timeout_task(loaded.name, one, loaded.now, "permits"))


def _within_one_commit(hopeless: list[Waiter]) -> tuple[Waiter, ...]:
    """Return the first of these waiters: as many as have their tasks in one outbox record, and at least one."""
    sizes = accumulate(map(_refusal_bytes, hopeless))
    fits = sum(size <= LIMITS.grant_bytes_max for size in sizes)
    return tuple(hopeless[: max(1, fits)])


def _refusal_bytes(waiter: Waiter) -> int:
    return 0 if waiter.on_timeout is None else len(waiter.on_timeout.to_record()["payload"])


def mode_after(mode: Mode, *, found: bool, remaining: bool) -> Mode:
    """Return the mode after a read of the wait queue that `found` somebody, with somebody `remaining` in it."""
    if remaining:
        return "closed"
    return "opening" if mode == "closed" or found else "open"
