"""A semaphore as a value: how many permits, who holds them, and whether one must look at the line before taking one.

                 a wait that finds no permit closes it          a run that read `opening`, and then
                ┌───────────────────────────────────┐           an empty line, opens it
    open ───────┘                                   ▼                              │
      ▲                                          closed ──── the line was empty ──► opening ──┐
      └───────────────────────────────────────────────────────────────────────────────────────┘

While it is open nobody waits, and a wait decides by this record alone. Otherwise a permit goes to the head of the line.
Two steps back to open, because a wait that joins the line without touching this record reads it again afterwards: it
sees `open` and closes it, or its own record was there before the line was found empty.

`alarm_at` is when the earliest lease ends: a task is due then while somebody waits. `sweep_at` is when the sweeper
should look at the latest, whatever else was lost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from shared.core.rules.limits import LIMITS
from shared.core.rules.times import microseconds
from shared.semaphores.rules.leases import Ended, Held

COLLECTION = "semaphores"

Mode = Literal["open", "opening", "closed"]


def path_of(name: str) -> str:
    """Give the path of a semaphore's record."""
    return f"{COLLECTION}/{name}"


@dataclass(frozen=True, slots=True)
class Semaphore:
    """Limits, leases and the mode. `leases` holds lapsed continuations too, until their tasks come to claim them."""

    permits: int
    lease_seconds: float
    delete_after_seconds: float | None = None
    leases: tuple[Held, ...] = ()
    ended: tuple[Ended, ...] = ()
    next_token: int = 0
    mode: Mode = "open"
    alarm_at: datetime | None = None
    clean_at: datetime | None = None
    revision: int = 0

    def __post_init__(self) -> None:
        assert self.permits >= 1, "a semaphore without permits lets nobody in, ever"
        assert len({(lease.id, lease.grant) for lease in self.leases}) == len(self.leases), "each grant is one lease"

    # --- what it holds ---

    def free(self, now: datetime) -> int:
        """Count the permits that nobody holds; below 0 when the number of permits was lowered under those held."""
        return self.permits - sum(lease.permits for lease in self.leases if lease.live(now))

    def lease(self, id_: str, token: int) -> Held | None:
        """Find a lease by its id and the token that is valid now; it may have lapsed."""
        return next((lease for lease in self.leases if (lease.id, lease.token) == (id_, token)), None)

    def granted_as(self, id_: str, grant: int) -> Held | None:
        """Find a lease by its id and the token it was granted with; it may have lapsed."""
        return next((lease for lease in self.leases if (lease.id, lease.grant) == (id_, grant)), None)

    def past(self, id_: str, token: int | None = None) -> Ended | None:
        """Find what is remembered of a lease that is over; without a token, the last of this wait."""
        fitting = [one for one in self.ended if one.id == id_ and token in (None, one.token)]
        return fitting[-1] if fitting else None

    # --- what may follow ---

    def grant(
        self, id_: str, permits: int, seconds: float, now: datetime, *, claim_seconds: float | None
    ) -> tuple[Self, Held]:
        """Give permits to a wait. With `claim_seconds` the lease is a continuation's, and must be claimed by then."""
        assert permits <= self.free(now), "there are not so many permits"
        token = max(self.next_token, microseconds(now))
        continued = claim_seconds is not None
        ends_at = now + timedelta(seconds=seconds if claim_seconds is None else claim_seconds)
        held = Held(id_, token, token, ends_at, permits, seconds, continued, claimed=not continued)
        return replace(self, leases=(*self.leases, held), next_token=token + 1), held

    def claim(self, held: Held, now: datetime) -> tuple[Self, Held]:
        """Begin a continuation's lease; again, if another delivery has: that one's token is void then."""
        token = max(self.next_token, microseconds(now)) if held.claimed else held.token
        ends_at = now + timedelta(seconds=held.seconds)
        claimed = replace(held, token=token, ends_at=ends_at, claimed=True)
        leases = tuple(claimed if lease is held else lease for lease in self.leases)
        return replace(self, leases=leases, next_token=max(self.next_token, token + 1)), claimed

    def renew(self, held: Held, seconds: float, now: datetime) -> tuple[Self, Held]:
        """Let a lease end later, never earlier."""
        renewed = replace(held, ends_at=max(held.ends_at, now + timedelta(seconds=seconds)))
        return replace(self, leases=tuple(renewed if lease is held else lease for lease in self.leases)), renewed

    def end(self, held: Held, operation: str = "", *, in_time: bool = False) -> Self:
        """End a lease, and remember by which operation, and whether that is known to have come in time."""
        left = tuple(lease for lease in self.leases if lease is not held)
        return replace(self, leases=left).remember([Ended(held.id, held.token, held.ends_at, operation, in_time)])

    def remember(self, ended: Iterable[Ended]) -> Self:
        """Keep the last of the leases that are over."""
        return replace(self, ended=(*self.ended, *ended)[-LIMITS.ended_leases_max :])

    def settled(self, now: datetime) -> tuple[Self, tuple[Held, ...]]:
        """Let go of lapsed leases; give those of continuations for which there is no room left here.

        A continuation's lapsed lease stays, up to a bound: when its task comes after all, it says what was lost. What
        is absent was ended by a signal.
        """
        lapsed = [lease for lease in self.leases if not lease.live(now)]
        over = [lease for lease in lapsed if not lease.continued]
        waiting = sorted((lease for lease in lapsed if lease.continued), key=lambda lease: lease.ends_at)
        spilled = tuple(waiting[: max(0, len(waiting) - LIMITS.lapsed_leases_max)])
        gone = {*over, *spilled}
        left = replace(self, leases=tuple(lease for lease in self.leases if lease not in gone))
        return left.remember(Ended(lease.id, lease.token, lease.ends_at) for lease in over), spilled

    def moved_to(self, mode: Mode, now: datetime) -> Self:
        """Change the mode; a line leaves receipts behind."""
        moved = replace(self, mode=mode)
        return moved if mode == "open" else moved.receipted(now)

    def receipted(self, now: datetime) -> Self:
        """Have receipts cleaned up some day."""
        return replace(self, clean_at=self.clean_at or now + timedelta(seconds=LIMITS.receipt_seconds))

    def armed(self, now: datetime) -> Self:
        """Keep the alarm: no later than the earliest end while somebody may wait, and none while nobody does."""
        ends = [lease.ends_at for lease in self.leases if lease.live(now)]
        if self.mode == "open" or not ends:
            return replace(self, alarm_at=None)
        if self.alarm_at is not None and now < self.alarm_at <= min(ends):
            return self
        return replace(self, alarm_at=min(ends))

    def sweep_at(self, now: datetime) -> datetime | None:
        """Say when the sweeper must look at the latest."""
        times = [self.alarm_at, self.clean_at]
        if self.mode != "open" and self.free(now) > 0:
            times.append(now + timedelta(seconds=LIMITS.nudge_patience_seconds))
        if self.delete_after_seconds is not None:
            times.append(now + timedelta(seconds=self.delete_after_seconds))
        return min((time for time in times if time is not None), default=None)


def reopened(mode: Mode, *, found: bool, left: bool) -> Mode:
    """Say the mode after a look at the line that `found` somebody, and `left` somebody there."""
    if left:
        return "closed"
    return "opening" if mode == "closed" or found else "open"


def encode(semaphore: Semaphore, now: datetime) -> dict[str, Any]:
    """Give the record; it differs from every earlier one, so that of two racing writers one loses."""
    record: dict[str, Any] = {
        name: getattr(semaphore, name)
        for name in ("permits", "lease_seconds", "delete_after_seconds", "next_token", "mode", "alarm_at", "clean_at")
    }
    record["revision"] = semaphore.revision + 1
    record["leases"] = [lease.record() for lease in semaphore.leases]
    record["ended"] = [ended.record() for ended in semaphore.ended]
    sweep_at = semaphore.sweep_at(now)
    return record if sweep_at is None else record | {"sweep_at": sweep_at}


def decode(data: Mapping[str, Any]) -> Semaphore:
    """Read a record."""
    fields = {name: value for name, value in data.items() if name != "sweep_at"}
    leases, ended = map(Held.of, data["leases"]), map(Ended.of, data["ended"])
    return Semaphore(**(fields | {"leases": tuple(leases), "ended": tuple(ended)}))
