"""A semaphore as a value: how many permits, who holds them, and whether a wait must read the wait queue first.

                 a wait that finds no permit closes it          whoever read `opening`, and then an empty
                ┌───────────────────────────────────┐           wait queue, opens it
    open ───────┘                                   ▼                              │
      ▲                                          closed ── the wait queue is empty ─► opening ──┐
      └─────────────────────────────────────────────────────────────────────────────────────────┘

While it is open nobody waits, and a wait is decided by this record alone. Otherwise a permit goes to the head of the
wait queue. It opens in two steps, because a wait that joins the queue without writing this record reads it again
afterwards: it reads `open` and closes it, or its own record was there before the queue was found empty.

`alarm_at` is when the earliest lease ends: an admit task is due then while somebody waits. `sweep_at` is when the
sweeper must look at the semaphore at the latest, whatever else was lost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from shared.core.rules.limits import LIMITS
from shared.core.rules.times import microseconds
from shared.semaphores.rules.known_heads import NOTHING_KNOWN, KnownHead
from shared.semaphores.rules.leases import EndedLease, LeaseRecord

COLLECTION = "semaphores"

Mode = Literal["open", "opening", "closed"]

_PLAIN_FIELDS = ("permits", "lease_seconds", "delete_after_seconds", "next_token", "mode", "alarm_at", "clean_at")


def path_of(name: str) -> str:
    """Return the path of a semaphore's record."""
    return f"{COLLECTION}/{name}"


@dataclass(frozen=True, slots=True)
class Semaphore:
    """Settings, leases and the mode. `leases` holds expired leases of continuations too, until their tasks come.

    `known` is what has been found about the order of the wait queue.
    """

    permits: int
    lease_seconds: float
    delete_after_seconds: float | None = None
    leases: tuple[LeaseRecord, ...] = ()
    ended: tuple[EndedLease, ...] = ()
    next_token: int = 0
    mode: Mode = "open"
    alarm_at: datetime | None = None
    clean_at: datetime | None = None
    known: KnownHead = NOTHING_KNOWN
    revision: int = 0

    def __post_init__(self) -> None:
        assert self.permits >= 1, "a semaphore has at least one permit"
        assert len({(lease.id, lease.grant) for lease in self.leases}) == len(self.leases), "each grant is one lease"

    # --- queries ---

    def free(self, now: datetime) -> int:
        """Count the permits that nobody holds; negative if `permits` was lowered below what is held."""
        return self.permits - sum(lease.permits for lease in self.leases if lease.live(now))

    def has_room(self, now: datetime) -> bool:
        """Return whether permits are free though somebody may wait."""
        return self.mode != "open" and self.free(now) > 0

    def lease(self, id_: str, token: int) -> LeaseRecord | None:
        """Return the lease of a wait under the token that is valid now; it may have expired."""
        return next((lease for lease in self.leases if (lease.id, lease.token) == (id_, token)), None)

    def granted_as(self, id_: str, grant: int) -> LeaseRecord | None:
        """Return the lease of a wait under the token it was granted with; it may have expired."""
        return next((lease for lease in self.leases if (lease.id, lease.grant) == (id_, grant)), None)

    def ended_lease(self, id_: str, token: int | None = None) -> EndedLease | None:
        """Return what is remembered of a lease that is over; without a token, the last one of this wait."""
        matching = [one for one in self.ended if one.id == id_ and token in (None, one.token)]
        return matching[-1] if matching else None

    # --- transitions ---

    def grant(
        self, id_: str, permits: int, seconds: float, now: datetime, *, claim_seconds: float | None
    ) -> tuple[Self, LeaseRecord]:
        """Grant permits to a wait. With `claim_seconds` the lease is a continuation's, and must be claimed by then."""
        assert permits <= self.free(now), "there are not so many permits"
        token = max(self.next_token, microseconds(now))
        continued = claim_seconds is not None
        ends_at = now + timedelta(seconds=seconds if claim_seconds is None else claim_seconds)
        lease = LeaseRecord(id_, token, token, ends_at, permits, seconds, continued, claimed=not continued)
        return replace(self, leases=(*self.leases, lease), next_token=token + 1), lease

    def claim(self, lease: LeaseRecord, now: datetime) -> tuple[Self, LeaseRecord]:
        """Start a continuation's lease. A second delivery takes it over under a new token; the first one's is void."""
        token = max(self.next_token, microseconds(now)) if lease.claimed else lease.token
        ends_at = now + timedelta(seconds=lease.seconds)
        claimed = replace(lease, token=token, ends_at=ends_at, claimed=True)
        leases = tuple(claimed if one is lease else one for one in self.leases)
        return replace(self, leases=leases, next_token=max(self.next_token, token + 1)), claimed

    def renew(self, lease: LeaseRecord, seconds: float, now: datetime) -> tuple[Self, LeaseRecord]:
        """Extend a lease; it never ends earlier than before."""
        renewed = replace(lease, ends_at=max(lease.ends_at, now + timedelta(seconds=seconds)))
        return replace(self, leases=tuple(renewed if one is lease else one for one in self.leases)), renewed

    def end(self, lease: LeaseRecord, operation: str = "", *, in_time: bool = False) -> Self:
        """End a lease, and remember by which operation, and whether that is known to have come in time."""
        left = tuple(one for one in self.leases if one is not lease)
        return replace(self, leases=left).remember(
            [EndedLease(lease.id, lease.token, lease.ends_at, operation, in_time)]
        )

    def remember(self, ended: Iterable[EndedLease]) -> Self:
        """Keep the most recent leases that are over."""
        return replace(self, ended=(*self.ended, *ended)[-LIMITS.ended_leases_max :])

    def expire_leases(self, now: datetime) -> tuple[Self, tuple[LeaseRecord, ...]]:
        """Drop expired leases; also return those of continuations that were evicted for lack of room.

        A continuation's expired lease stays, up to a limit: when its task comes late, it shows that the grant was
        lost. A lease that is absent was ended by a signal.
        """
        expired = [lease for lease in self.leases if not lease.live(now)]
        over = [lease for lease in expired if not lease.continued]
        continued = sorted((lease for lease in expired if lease.continued), key=lambda lease: lease.ends_at)
        evicted = tuple(continued[: max(0, len(continued) - LIMITS.expired_leases_max)])
        gone = {*over, *evicted}
        left = replace(self, leases=tuple(lease for lease in self.leases if lease not in gone))
        return left.remember(EndedLease(lease.id, lease.token, lease.ends_at) for lease in over), evicted

    def moved_to(self, mode: Mode, now: datetime) -> Self:
        """Change the mode; a wait queue leaves receipts behind."""
        moved = replace(self, mode=mode)
        return moved if mode == "open" else moved.with_clean_up(now)

    def with_clean_up(self, now: datetime) -> Self:
        """Schedule a clean-up of receipts, unless one is scheduled."""
        return replace(self, clean_at=self.clean_at or now + timedelta(seconds=LIMITS.receipt_seconds))

    def with_alarm(self, now: datetime) -> Self:
        """Set the alarm: no later than the earliest end of a lease while somebody may wait, else none."""
        ends = [lease.ends_at for lease in self.leases if lease.live(now)]
        if self.mode == "open" or not ends:
            return replace(self, alarm_at=None)
        if self.alarm_at is not None and now < self.alarm_at <= min(ends):
            return self
        return replace(self, alarm_at=min(ends))

    def sweep_at(self, now: datetime) -> datetime | None:
        """Return when the sweeper must look at the latest: never before now, so that those due longer come first."""
        times = [self.alarm_at, self.clean_at]
        if self.has_room(now):
            times.append(now + timedelta(seconds=LIMITS.admission_lost_seconds))
        if self.delete_after_seconds is not None:
            times.append(now + timedelta(seconds=self.delete_after_seconds))
        return min((max(time, now) for time in times if time is not None), default=None)

    # --- codec ---

    def to_record(self, now: datetime) -> dict[str, Any]:
        """Return the record; it differs from every earlier one, so that of two racing writers one loses."""
        record: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        record["revision"] = self.revision + 1
        record["leases"] = [lease.to_record() for lease in self.leases]
        record["ended"] = [ended.to_record() for ended in self.ended]
        record |= self.known.to_record()
        sweep_at = self.sweep_at(now)
        return record if sweep_at is None else record | {"sweep_at": sweep_at}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `to_record` returned."""
        fields = {name: value for name, value in record.items() if name not in ("sweep_at", "head")}
        leases = tuple(map(LeaseRecord.from_record, record["leases"]))
        ended = tuple(map(EndedLease.from_record, record["ended"]))
        return cls(**(fields | {"leases": leases, "ended": ended, "known": KnownHead.from_record(record)}))

    def to_json(self, name: str, now: datetime) -> dict[str, Any]:
        """Return the semaphore as people see it."""
        optional = {} if self.delete_after_seconds is None else {"delete_after_seconds": self.delete_after_seconds}
        return {
            "name": name,
            "permits": self.permits,
            "free": max(0, self.free(now)),
            "lease_seconds": self.lease_seconds,
            **optional,
            "leases": [lease.to_json() for lease in self.leases if lease.live(now)],
        }
