"""The clock of a test, which only the test moves, and the budget of a sweeper."""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock that only a test moves: the server's time `now`, and a `Clock`. A sleep advances the time at once.

    `slept_seconds` are the sleeps so far.
    """

    def __init__(self, now: datetime = EPOCH) -> None:
        self.now = now
        self.slept_seconds: list[float] = []

    def advance(self, seconds: float) -> None:
        """Advance the time."""
        self.now += timedelta(seconds=seconds)

    def advance_to(self, time: datetime | None) -> None:
        """Advance the time to `time`, unless it is past or None."""
        self.now = max(self.now, time or self.now)

    def sleep(self, seconds: float) -> None:
        self.slept_seconds.append(seconds)
        self.advance(seconds)

    def jitter(self) -> float:
        """Return the mean of a real clock's jitter."""
        return 0.5

    def steady(self) -> float:
        """Return the seconds since the epoch of the test."""
        return (self.now - EPOCH).total_seconds()
