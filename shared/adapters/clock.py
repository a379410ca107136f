"""The machine's clock. It sleeps, spreads retries and limits effort; the time of a decision is the store's."""

import random
import time

from shared.core.operations.time_budgets import Budget, OutOfTime


class SystemClock:
    def sleep(self, seconds: float) -> None:
        """Pause this thread."""
        time.sleep(seconds)

    def jitter(self) -> float:
        """Return a random number from 0 to 1."""
        return random.random()  # noqa: S311 - spreads retries, guards no secret


def time_budget(seconds: float) -> Budget:
    """Return a budget of so many seconds, which begins whenever it is called."""

    def begin() -> OutOfTime:
        ends_at = time.monotonic() + seconds
        return lambda: time.monotonic() >= ends_at

    return begin
