"""The wait queue: free permits go to the waiters at its head, in the order of their records' create times.

One function grants, whatever frees the permits: a signal grants its own in the commit that ends its lease, and an admit
run grants all that are free. Both also end the waits that need more permits than the semaphore has, because these would
block all waiters behind them.

**The admit run.** Under contention, waits and signals are separate records, whose commits cannot conflict. One run,
named after a slot of the server's time, applies up to a hundred of each in one guarded commit. The alarm of an expiring
lease is also such a run.

    command  mode     permits  queue    then     waiter   admit run
    -------  -------  -------  -------  -------  -------  ---------
    admit    open     any      empty    open     -        -
    admit    opening  any      empty    open     -        -
    admit    opening  free     waiters  opening  granted  nudge
    admit    opening  held     waiters  closed   -        -
    admit    closed   free     empty    opening  -        nudge
    admit    closed   free     waiters  opening  granted  nudge
    admit    closed   held     any      closed   -        -

`permits` are those that are free once the releases are applied. The row "opening, free, waiters" assumes that all
waiters that were read are granted; if some are left, the semaphore is closed.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import reduce
from itertools import accumulate

from signalbox.core.effects import Effect
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import Unavailable
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine import lanes
from signalbox.semaphores.machine.decision_types import (
    Loaded,
    QueueReads,
    Transition,
    WaiterTransition,
    continuation_task,
    end_tasks,
    leave,
    refuse_lanes_task,
    refuse_task,
    timeout_task,
)
from signalbox.semaphores.machine.lanes import mode_after
from signalbox.semaphores.model.lanes import Mode
from signalbox.semaphores.model.leases import LeaseRecord, Release
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.waiters import Waiter


@dataclass(frozen=True, slots=True)
class Grant:
    """A waiter with its new lease."""

    waiter: Waiter
    lease: LeaseRecord


@dataclass(frozen=True, slots=True)
class Granted:
    """The semaphore after the grants, and the outcome for each waiter that was read.

    `stale` waiters wait for an earlier semaphore of this name: as many as one commit removes. `evicted` is as in
    `Transition`.
    """

    semaphore: Semaphore
    grants: tuple[Grant, ...]
    refused: tuple[Waiter, ...]
    remaining: tuple[Waiter, ...]
    stale: tuple[Waiter, ...]
    evicted: tuple[LeaseRecord, ...]

    @property
    def transitions(self) -> tuple[WaiterTransition, ...]:
        """The transitions of the waiters that are granted or refused."""
        left = tuple(WaiterTransition("left", grant.waiter) for grant in self.grants)
        return left + tuple(leave(waiter, "refused") for waiter in self.refused)

    def tasks(self, loaded: Loaded) -> tuple[Effect, ...]:
        """Return the continuations of the grants, and the `on_timeout` tasks of the waiters that are refused."""
        granted = tuple(continuation_task(loaded.name, grant.waiter, grant.lease, loaded.now) for grant in self.grants)
        return granted + refusals(loaded, self.refused)


def grant_waiters(loaded: Loaded, semaphore: Semaphore) -> Granted:
    """Grant the free permits of `semaphore` to the waiters that were read, from the head of the queue."""
    semaphore, evicted = semaphore.expire_leases(loaded.now)
    stale = _within_one_commit([waiter for waiter in loaded.waiters if waiter.incarnation != loaded.incarnation])
    waiting = tuple(waiter for waiter in loaded.waiters if waiter.incarnation == loaded.incarnation)
    refused = _within_one_commit([waiter for waiter in waiting if is_hopeless(waiter, semaphore)])
    room_bytes = LIMITS.grant_bytes_max - sum(map(_bytes_of_end, (*stale, *refused)))
    others = tuple(waiter for waiter in waiting if waiter not in refused)
    semaphore, grants = grant_in_order(semaphore, others, loaded.now, room_bytes, first=not (stale or refused))
    remaining = others[len(grants) :]
    if loaded.heads:
        granted = [grant.waiter for grant in grants]
        semaphore = lanes.served(loaded, semaphore, granted, {waiter.id for waiter in (*granted, *refused)})
    elif loaded.reads.in_order and loaded.reads.waiters:
        semaphore = replace(semaphore, known=loaded.known.after(remaining))
    return Granted(semaphore, grants, refused, remaining, stale, evicted)


def grant_in_order(
    semaphore: Semaphore, waiters: Iterable[Waiter], now: datetime, room_bytes: int, *, first: bool
) -> tuple[Semaphore, tuple[Grant, ...]]:
    """Grant in order, up to the first waiter that needs more permits than are free. No later waiter overtakes it."""
    grants: list[Grant] = []
    for waiter in waiters:
        room_bytes -= len(waiter.continuation.to_record()["payload"])
        if waiter.permits > semaphore.free(now) or (room_bytes < 0 and (grants or not first)):
            break
        semaphore, grant = grant_permits(semaphore, waiter, now)
        grants.append(grant)
    return semaphore, tuple(grants)


def grant_permits(semaphore: Semaphore, waiter: Waiter, now: datetime) -> tuple[Semaphore, Grant]:
    """Grant a waiter its permits. The continuation must claim the permits shortly after the task is due."""
    seconds = waiter.request.lease_seconds or semaphore.settings.lease_seconds
    claim_seconds = LIMITS.claim_seconds + waiter.continuation.delay_seconds
    after, lease = semaphore.grant(waiter.id, waiter.permits, seconds, now, claim_seconds=claim_seconds)
    return after, Grant(replace(waiter, state="granted", grant=lease.grant), lease)


# --- waits that can never be granted ---


def is_hopeless(waiter: Waiter, semaphore: Semaphore) -> bool:
    """Return whether a waiter needs more permits than the semaphore has."""
    return waiter.permits > semaphore.settings.permits


def refuse(loaded: Loaded, after: Semaphore) -> Transition[Semaphore]:
    """End the waits of this page that `after` can never grant; a task does the same for the next page."""
    waiting = [waiter for waiter in loaded.waiters if waiter.incarnation == loaded.incarnation]
    hopeless = [waiter for waiter in waiting if is_hopeless(waiter, after)]
    refused = _within_one_commit(hopeless)
    left = tuple(leave(waiter, "refused") for waiter in refused)
    tasks = refusals(loaded, refused)
    if len(refused) < len(hopeless):
        tasks += (refuse_task(loaded, refused[-1]),)
    elif loaded.waiters and loaded.more_waiters:
        tasks += (refuse_task(loaded, loaded.waiters[-1]),)
    elif loaded.reads.waiters and loaded.semaphore.lanes and not loaded.reads.by_lane:
        tasks += (refuse_lanes_task(loaded),)
    return Transition(after, after, left, effects=tasks, nudge=bool(refused))


def refuse_page(loaded: Loaded) -> Transition[Semaphore]:
    """End the waits that can never be granted, on a page behind the first page."""
    return refuse(loaded, loaded.semaphore)


def refusals(loaded: Loaded, refused: Iterable[Waiter]) -> tuple[Effect, ...]:
    """Return the `on_timeout` tasks of waiters that are refused."""
    return tuple(task for waiter in refused for task in timeout_task(loaded.name, waiter, loaded.now, "permits"))


def _within_one_commit(ended: list[Waiter]) -> tuple[Waiter, ...]:
    """Return the first of these waiters: as many as one outbox record has room for, and at least one."""
    sizes = accumulate(map(_bytes_of_end, ended))
    fits = sum(size <= LIMITS.grant_bytes_max for size in sizes)
    return tuple(ended[: max(1, fits)])


def _bytes_of_end(waiter: Waiter) -> int:
    """Return the size of the task that follows the end of a wait without a grant: the unit's task, or `on_timeout`."""
    call = waiter.continuation if waiter.request.unit else waiter.request.on_timeout
    return 0 if call is None else len(call.to_record()["payload"])


# --- the admit run ---


def admit_reads(loaded: Loaded) -> QueueReads:
    """Read a page of waiters, or as many as can be granted if their order is known. Without free permits, read none."""
    semaphore = _after_releases(loaded)
    free = semaphore.free(loaded.now)
    if free <= 0 and semaphore.mode == "closed":
        return QueueReads()
    if semaphore.lanes:
        return QueueReads(max(0, min(free, LIMITS.grants_page_max)), in_order=True)
    known = 0 < free <= len(semaphore.known.ids)
    return QueueReads(free if known else LIMITS.grants_page_max, in_order=True)


def check_due(now: datetime, not_before: datetime | None) -> None:
    """Raise `Unavailable` for an early run: the commits that the run should see may not have been made yet."""
    if not_before is not None and now < not_before:
        raise Unavailable("the commits that this run should see may not have been made yet")


def admit(loaded: Loaded) -> Transition[None]:
    """Apply releases, grant from the head of the wait queue, delete stale waiters, and set the new mode.

    A run that leaves work, or a semaphore in the mode `opening`, enqueues the next run.
    """
    granted = grant_waiters(loaded, _after_releases(loaded))
    free = granted.semaphore.free(loaded.now)
    fits = granted.remaining and granted.remaining[0].permits <= free
    mode = _mode(loaded, granted)
    unread = loaded.more_waiters and not (loaded.heads and mode == "open")
    more_waiters = (unread and not granted.remaining and free > 0) or bool(granted.refused)
    more_releases = len(loaded.releases) == LIMITS.releases_page_max
    removed = tuple(WaiterTransition("removed", waiter) for waiter in granted.stale)
    return Transition(
        granted.semaphore.moved_to(mode, loaded.now),
        None,
        (*granted.transitions, *removed),
        releases_applied=loaded.releases,
        effects=granted.tasks(loaded) + stale_units(loaded, granted.stale),
        nudge=bool(mode == "opening" or more_releases or more_waiters or fits),
        evicted=granted.evicted,
    )


def stale_units(loaded: Loaded, stale: Iterable[Waiter]) -> tuple[Effect, ...]:
    """Return the tasks of units and flows whose waits were for an earlier semaphore, which was deleted."""
    return tuple(task for waiter in stale for task in end_tasks(loaded.name, waiter, loaded.now))


def _mode(loaded: Loaded, granted: Granted) -> Mode:
    """Return the new mode. Without a read of the queue, it stays. With lanes, it follows from the lanes' modes."""
    if not loaded.reads.waiters or loaded.semaphore.lanes:
        return granted.semaphore.mode
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
