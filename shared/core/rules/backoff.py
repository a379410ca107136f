"""The pause before a queue delivers a task again, as Cloud Tasks documents it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The least pause, the greatest, and how often it doubles; then it grows by equal steps."""

    min_seconds: float
    max_seconds: float
    doublings_max: int

    def pause_seconds(self, attempt: int) -> float:
        """Return the least time between the end of this attempt, counted from 1, and the next."""
        doublings = min(attempt - 1, self.doublings_max)
        steps = max(1, attempt - self.doublings_max)
        return float(min(self.min_seconds * 2**doublings * steps, self.max_seconds))


NO_BACKOFF = Backoff(0, 0, 0)
