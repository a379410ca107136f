"""The state of a semaphore: its settings, its leases and its mode, in one record.

                 a wait that finds no free permit closes it     a decision that read `opening`, and then an empty
                ┌───────────────────────────────────┐           wait queue, opens it
    open ───────┘                                   ▼                              │
      ▲                                          closed ── the wait queue is empty ─► opening ──┐
      └─────────────────────────────────────────────────────────────────────────────────────────┘

While the semaphore is open, the wait queue is empty, and this record alone decides a wait. Otherwise permits go to the
head of the wait queue. The semaphore opens in two steps, because a wait can join the queue without writing this record.
Such a wait reads the record again afterwards: either it reads `open` and closes the semaphore, or its own record
existed before the queue was found empty.

`alarm_at` is the end of the earliest lease: while the queue may have waiters, an admit run is due then. `sweep_at` is
the time by which the sweeper visits the semaphore, even if all its tasks were lost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any, Self

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.times import microseconds
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.model.known_head import NOTHING_KNOWN, KnownHead
from signalbox.semaphores.model.lanes import Lane, Mode
from signalbox.semaphores.model.leases import EndedLease, LeaseRecord
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.model.waiters import Waiter

COLLECTION = "semaphores"

_PLAIN_FIELDS = ("next_token", "mode", "alarm_at", "clean_at")


def path_of(name: str) -> str:
    return f"{COLLECTION}/{name}"


def waiter_path(name: str, id_: str) -> str:
    return f"{path_of(name)}/waiters/{id_}"


def release_path(name: str, lease_id: str) -> str:
    """Return the path of a release that was left for an admit run."""
    return f"{path_of(name)}/releases/{lease_id}"


@dataclass(frozen=True, slots=True)
class Semaphore:
    """Settings, leases and the mode. `leases` includes expired leases of continuations whose tasks have not arrived.

    `ended` has the texts of the leases that have ended last, which `ended_lease` reads.
    `clean_at` is the time of the next clean-up of receipts. While the semaphore is paused, since `paused_at`, no permit
    is free.
    """

    settings: SemaphoreSettings
    leases: tuple[LeaseRecord, ...] = ()
    ended: tuple[str, ...] = ()
    next_token: int = 0
    mode: Mode = "open"
    alarm_at: datetime | None = None
    clean_at: datetime | None = None
    known: KnownHead = NOTHING_KNOWN
    lanes: tuple[Lane, ...] = ()
    revision: int = 0
    paused_at: datetime | None = None

    def __post_init__(self) -> None:
        assert self.settings.permits >= 1, "a semaphore has at least one permit"
        assert len({(lease.id, lease.grant) for lease in self.leases}) == len(self.leases), "each grant is one lease"
        assert not self.lanes or self.mode == "closed", "a semaphore with lanes may have waiters"

    # --- queries ---

    def free(self, now: datetime) -> int:
        """Return the number of free permits; negative if `permits` was lowered below the number of held permits.

        While the semaphore is paused, no permit is free.
        """
        free = self.settings.permits - sum(lease.permits for lease in self.leases if lease.is_live(now))
        return free if self.paused_at is None else min(0, free)

    def has_room(self, now: datetime) -> bool:
        """Return whether permits are free while the wait queue may have waiters."""
        return self.mode != "open" and self.free(now) > 0

    def lane(self, id_: str) -> Lane | None:
        """Return a lane of the record."""
        return next((lane for lane in self.lanes if lane.id == id_), None)

    def lease(self, id_: str, token: int) -> LeaseRecord | None:
        """Return the lease of a wait under its current token, or None. The lease may have expired."""
        return next((lease for lease in self.leases if (lease.id, lease.token) == (id_, token)), None)

    def granted_as(self, id_: str, grant: int) -> LeaseRecord | None:
        """Return the lease of a wait by the token of its grant, or None. The lease may have expired."""
        return next((lease for lease in self.leases if (lease.id, lease.grant) == (id_, grant)), None)

    def ended_lease(self, id_: str, token: int | None = None, operation: str | None = None) -> EndedLease | None:
        """Return a wait's last ended lease: of all, of those under `token`, or of those that `operation` has ended."""
        beginning = EndedLease.beginning(id_)
        of_wait = [EndedLease.from_text(text) for text in self.ended if text.startswith(beginning)]
        matching = [one for one in of_wait if token in (None, one.token) and operation in (None, one.operation)]
        return matching[-1] if matching else None

    def silent_grants(self, now: datetime) -> list[LeaseRecord]:
        """Return the grants that no task has claimed long after they expired: their tasks may be lost."""
        return [lease for lease in self.leases if (at := lease.silent_at) is not None and at <= now]

    # --- transitions ---

    def grant(
        self, id_: str, permits: int, seconds: float, now: datetime, *, claim_seconds: float | None
    ) -> tuple[Self, LeaseRecord]:
        """Grant permits to a wait. With `claim_seconds`, a continuation must claim the lease within that time."""
        assert permits <= self.free(now), "there are not so many permits"
        token = max(self.next_token, microseconds(now))
        continued = claim_seconds is not None
        ends_at = now + timedelta(seconds=seconds if claim_seconds is None else claim_seconds)
        lease = LeaseRecord(id_, token, token, ends_at, permits, seconds, continued, claimed=not continued)
        return replace(self, leases=(*self.leases, lease), next_token=token + 1), lease

    def claim(self, lease: LeaseRecord, now: datetime) -> tuple[Self, LeaseRecord]:
        """Start a continuation's lease. A second delivery takes it over under a new token, which voids the first."""
        token = max(self.next_token, microseconds(now)) if lease.claimed else lease.token
        ends_at = now + timedelta(seconds=lease.seconds)
        claimed = replace(lease, token=token, ends_at=ends_at, claimed=True)
        leases = tuple(claimed if other is lease else other for other in self.leases)
        return replace(self, leases=leases, next_token=max(self.next_token, token + 1)), claimed

    def renew(self, lease: LeaseRecord, seconds: float, now: datetime) -> tuple[Self, LeaseRecord]:
        """Extend a lease; it never ends earlier than before."""
        renewed = replace(lease, ends_at=max(lease.ends_at, now + timedelta(seconds=seconds)))
        return replace(self, leases=tuple(renewed if other is lease else other for other in self.leases)), renewed

    def end(self, lease: LeaseRecord, operation: str = "", *, in_time: bool = False) -> Self:
        """End a lease, and store the operation and whether the operation is known to have been in time."""
        left = tuple(other for other in self.leases if other is not lease)
        return replace(self, leases=left).remember(
            [EndedLease(lease.id, lease.token, lease.ends_at, operation, in_time, lease.permits)]
        )

    def remember(self, ended: Iterable[EndedLease]) -> Self:
        """Append ended leases, and keep the most recent ones."""
        texts = (lease.to_text() for lease in ended)
        return replace(self, ended=(*self.ended, *texts)[-LIMITS.ended_leases_max :])

    def expire_leases(self, now: datetime) -> tuple[Self, tuple[LeaseRecord, ...]]:
        """Drop expired leases. Also return the leases of continuations that were evicted because there are too many.

        A continuation's expired lease is kept, up to a limit: if its task arrives late, the lease shows that the grant
        was lost. A lease that is absent was ended by a signal.
        """
        expired = [lease for lease in self.leases if not lease.is_live(now)]
        over = [lease for lease in expired if not lease.continued]
        continued = sorted((lease for lease in expired if lease.continued), key=lambda lease: lease.ends_at)
        evicted = tuple(continued[: max(0, len(continued) - LIMITS.expired_leases_max)])
        gone = {*over, *evicted}
        left = replace(self, leases=tuple(lease for lease in self.leases if lease not in gone))
        ended = (EndedLease(lease.id, lease.token, lease.ends_at, permits=lease.permits) for lease in over)
        return left.remember(ended), evicted

    def moved_to(self, mode: Mode, now: datetime) -> Self:
        """Change the mode, and schedule a clean-up unless the mode is `open`, because a wait queue leaves receipts."""
        moved = replace(self, mode=mode)
        return moved if mode == "open" else moved.with_clean_up(now)

    def with_clean_up(self, now: datetime) -> Self:
        """Schedule a clean-up of receipts, unless one is scheduled."""
        return replace(self, clean_at=self.clean_at or now + timedelta(seconds=CORE_LIMITS.receipt_seconds))

    def with_alarm(self, now: datetime) -> Self:
        """Set the alarm to at most the earliest end of a lease if the queue may have waiters, and to None otherwise."""
        ends = [lease.ends_at for lease in self.leases if lease.is_live(now)]
        if self.mode == "open" or not ends:
            return replace(self, alarm_at=None)
        if self.alarm_at is not None and now < self.alarm_at <= min(ends):
            return self
        return replace(self, alarm_at=min(ends))

    def sweep_at(self, now: datetime) -> datetime | None:
        """Return the time of the sweeper's next visit: never before now, so that semaphores due longest come first."""
        times = [self.alarm_at, self.clean_at, *(lease.silent_at for lease in self.leases)]
        if self.has_room(now):
            times.append(now + timedelta(seconds=LIMITS.admission_lost_seconds))
        if (unused_seconds := self.settings.delete_after_seconds) is not None:
            times.append(now + timedelta(seconds=unused_seconds))
        return min((max(time, now) for time in times if time is not None), default=None)

    # --- codec ---

    def to_record(self, now: datetime) -> dict[str, Any]:
        """Return the record. It differs from every earlier one, so one of two racing writers always fails."""
        record = self.settings.to_record() | {name: getattr(self, name) for name in _PLAIN_FIELDS}
        record["revision"] = self.revision + 1
        record["leases"] = [lease.to_record() for lease in self.leases]
        record["ended"] = list(self.ended)
        record |= self.known.to_record()
        record |= {"lanes": [lane.to_record() for lane in self.lanes]} if self.lanes else {}
        record |= {} if self.paused_at is None else {"paused_at": self.paused_at}
        sweep_at = self.sweep_at(now)
        return record if sweep_at is None else record | {"sweep_at": sweep_at}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        settings = SemaphoreSettings.from_record(record)
        others = (*settings.__slots__, "sweep_at", "head")
        fields = {name: value for name, value in record.items() if name not in others}
        leases = tuple(map(LeaseRecord.from_record, record["leases"]))
        lanes = tuple(map(Lane.from_record, record.get("lanes", ())))
        known = KnownHead.from_record(record)
        parts = {"leases": leases, "ended": tuple(record["ended"]), "known": known, "lanes": lanes}
        return cls(settings, **(fields | parts))


@dataclass(frozen=True, slots=True)
class SemaphoreView:
    """A semaphore at a time of the server, with the parts of its wait queue that were read.

    `waiters` is the head of the wait queue, `waiting` the number of waiters; both are None if they were not read.
    `holders` has the waits of the first leases, by lease id.
    """

    name: str
    semaphore: Semaphore
    now: datetime
    waiters: tuple[Waiter, ...] | None = None
    waiting: int | None = None
    holders: Mapping[str, Waiter] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """The number of free permits."""
        return max(0, self.semaphore.free(self.now))

    @property
    def leases(self) -> tuple[LeaseRecord, ...]:
        """The leases that are held."""
        return tuple(lease for lease in self.semaphore.leases if lease.is_live(self.now))
