"""The answers about semaphores, leases and waits."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Annotated, Literal, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Described, Range, Seconds, Text
from signalbox.core.surface.shown import TaskShown
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine.lanes import weight_of
from signalbox.semaphores.model.lanes import Lane
from signalbox.semaphores.model.leases import LEASE_ID, Lease, LeaseRecord
from signalbox.semaphores.model.priorities import PRIORITY
from signalbox.semaphores.model.semaphore import Semaphore, SemaphoreView
from signalbox.semaphores.model.waiters import WaitAnswer, Waiter

Permits = Annotated[int, Range(1)]
Token = Annotated[int, Range(1)]


@dataclass(frozen=True, slots=True)
class LeaseShown:
    """A lease: permits until a time."""

    id: Annotated[str, LEASE_ID]

    token: Token
    """A fencing token; each lease has a larger one than all earlier leases."""

    ends_at: datetime

    @classmethod
    def of(cls, lease: Lease) -> Self:
        return cls(lease.id, lease.token, lease.ends_at)


@dataclass(frozen=True, slots=True)
class HeldLeaseShown:
    """A lease that is held."""

    id: Annotated[str, LEASE_ID]

    token: Token
    """A fencing token; each lease has a larger one than all earlier leases."""

    ends_at: datetime

    permits: Permits

    task: TaskShown | None = None
    """The task that runs under the lease, for the first hundred; absent without a continuation."""

    holder: str = ""
    """The holder that the wait names, for the first hundred, if any."""

    @classmethod
    def of(cls, lease: LeaseRecord, wait: Waiter | None) -> Self:
        """Return a lease; its task and holder are known if its wait's receipt was read."""
        task, holder = (_task(wait), wait.request.holder) if wait else (None, "")
        return cls(lease.lease_id, lease.token, lease.ends_at, lease.permits, task, holder)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiterShown:
    """A wait in the wait queue."""

    id: str

    since: datetime

    permits: Permits

    key: str = ""
    """The key that the wait names, if any."""

    priority: Annotated[str, Described({"enum": ["high", "low"]})] = ""
    """Absent for the normal priority."""

    task: TaskShown

    holder: str = ""
    """The holder that the wait names, if any."""

    @classmethod
    def of(cls, waiter: Waiter) -> Self:
        assert waiter.since is not None, "a wait in the queue has a place"
        return cls(
            id=waiter.id,
            since=waiter.since,
            permits=waiter.permits,
            key=waiter.request.key,
            priority=waiter.request.priority if waiter.request.priority != "normal" else "",
            task=_task(waiter),
            holder=waiter.request.holder,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneShown:
    """A key and a priority that may have waits now."""

    shared: Literal[True] | None = None
    """The lane of several keys for which there is no room."""

    key: str = ""
    """Absent for waits without a key."""

    priority: Annotated[str, PRIORITY]

    weight: Annotated[int, Range(1)]
    """The weight of the lane's key times the weight of its priority."""

    share: Annotated[float, Range(0, 1)]
    """The lane's share of the permits while all these lanes have waits."""

    @classmethod
    def of(cls, lane: Lane, weight: int, total: int) -> Self:
        return cls(
            shared=True if lane.key is None else None,
            key=lane.key or "",
            priority=lane.priority,
            weight=weight,
            share=round(weight / total, 4),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SemaphoreShown:
    """The semaphore as it is now."""

    name: str

    permits: Annotated[int, Range(1, LIMITS.permits_max)]

    free: Annotated[int, Range(0, LIMITS.permits_max)]

    lease_seconds: Annotated[float, Seconds()]

    delete_after_seconds: Annotated[float | None, Seconds()] = None

    weights: Mapping[str, Annotated[int, Range(2, LIMITS.key_weight_max)]] = field(default_factory=dict)

    description: Annotated[str, Text(lambda: LIMITS.description_characters_max)] = ""

    leases: tuple[HeldLeaseShown, ...]

    waiters: Annotated[tuple[WaiterShown, ...] | None, Described({"maxItems": LIMITS.waiters_shown_max})] = None
    """The first waiters in the wait queue, in the order of their lanes."""

    waiting: Annotated[int | None, Range(1)] = None
    """The number of waiters, in a list of semaphores that have some."""

    lanes: tuple[LaneShown, ...] = ()
    """The keys and priorities that may have waits now, if any has more than the plain lane."""

    paused_at: datetime | None = None
    """When it was paused; absent if it is not. Then `free` is 0."""

    waits_ended: Annotated[int, Range(1, LIMITS.grants_page_max)] = 0
    """The number of waits among the first 90 that this change has ended, because they need more permits than there are
    now. Further ones behind these end soon after."""

    @classmethod
    def of(cls, view: SemaphoreView, waits_ended: int = 0) -> Self:
        """Return a semaphore; the parts of its wait queue that were not read are absent."""
        semaphore = view.semaphore
        return cls(
            name=view.name,
            permits=semaphore.settings.permits,
            free=view.free,
            lease_seconds=semaphore.settings.lease_seconds,
            delete_after_seconds=semaphore.settings.delete_after_seconds,
            weights=semaphore.settings.weights,
            description=semaphore.settings.description,
            leases=tuple(HeldLeaseShown.of(lease, view.holders.get(lease.lease_id)) for lease in view.leases),
            waiters=None if view.waiters is None else tuple(map(WaiterShown.of, view.waiters)),
            waiting=view.waiting,
            lanes=_lanes(semaphore),
            paused_at=semaphore.paused_at,
            waits_ended=waits_ended,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedSemaphoreShown(SemaphoreShown):
    """The semaphore with its wait queue."""

    waiters: Annotated[tuple[WaiterShown, ...], Described({"maxItems": LIMITS.waiters_shown_max})]
    """The first waiters in the wait queue, in the order of their lanes."""


@dataclass(frozen=True, slots=True)
class SemaphoresShown:
    """One page of semaphores, the last if it has no `next_page_token`."""

    semaphores: Annotated[tuple[SemaphoreShown, ...], Described({"maxItems": LIMITS.semaphores_listed_max})]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class HeldShown:
    """Permits of a semaphore that a holder has until a time."""

    semaphore: str
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class HolderShown:
    """A holder in a circle: it waits for permits of the next one, the last one for those of the first."""

    holder: str
    holds: tuple[HeldShown, ...]
    waits_for: str
    """The semaphore whose permits it waits for."""

    held_by: str
    """The next holder, which has these permits."""


@dataclass(frozen=True, slots=True)
class DeadlocksShown:
    """Circles of holders."""

    deadlocks: tuple[tuple[HolderShown, ...], ...]

    complete: bool
    """Whether all semaphores with waiters were searched."""


@dataclass(frozen=True, slots=True)
class WaitedShown:
    """The answer to a wait. A lease is the continuation's, if there is one."""

    acquired: bool

    lease: LeaseShown | None = None

    waiting: bool = False
    """The wait is in the wait queue."""

    ended: bool = False
    """The wait of this id has ended. Its lease was signalled or expired, or it was cancelled or timed out."""

    paused: bool = False
    """The semaphore is paused, and there is no continuation that could wait."""

    @classmethod
    def of(cls, answer: WaitAnswer) -> Self:
        if answer.lease:
            return cls(acquired=True, lease=LeaseShown.of(answer.lease))
        return cls(acquired=False, waiting=answer.waiting, ended=answer.ended, paused=answer.paused)


@dataclass(frozen=True, slots=True)
class CancelledShown:
    """Whether the wait was cancelled."""

    cancelled: bool


@dataclass(frozen=True, slots=True)
class ReleasedShown:
    """Whether the lease was still held."""

    released: bool


@dataclass(frozen=True, slots=True)
class RenewedShown:
    """Whether the lease was still held, and its new end."""

    renewed: bool
    ends_at: datetime | None = None


def _task(waiter: Waiter) -> TaskShown:
    return TaskShown(**waiter.task_shown())


def _lanes(semaphore: Semaphore) -> tuple[LaneShown, ...]:
    """Return the lanes that may have waiters, each with its weight and its share of the permits."""
    lanes = [lane for lane in semaphore.lanes if lane.mode != "open"]
    total = sum(weight_of(semaphore, lane) for lane in lanes)
    return tuple(LaneShown.of(lane, weight_of(semaphore, lane), total) for lane in lanes)
