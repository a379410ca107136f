"""A clock that only a test moves: the time of the in-memory store, and the `Clock` of the operations."""

from datetime import UTC, datetime, timedelta
from itertools import count

from shared.core.operations.time_budgets import Budget, OutOfTime

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """`now` is the server's time. A sleep moves it on at once and is remembered in `slept_seconds`."""

    def __init__(self, now: datetime = EPOCH) -> None:
        self.now = now
        self.slept_seconds: list[float] = []

    def advance(self, seconds: float) -> None:
        """Move the time on."""
        self.now += timedelta(seconds=seconds)

    def advance_to(self, time: datetime | None) -> None:
        """Move the time on to `time`, unless it is past or None."""
        self.now = max(self.now, time or self.now)

    def sleep(self, seconds: float) -> None:
        self.slept_seconds.append(seconds)
        self.advance(seconds)

    def jitter(self) -> float:
        """Return the middle of what a real clock draws."""
        return 0.5


def budget_of(records: int) -> Budget:
    """Return a budget of the sweeper that is used up after so many records."""

    def begin() -> OutOfTime:
        read = count()
        return lambda: next(read) >= records  # it is read before each record

    return begin
