"""The machine's clock: sleeping, jitter and time budgets. The `now` of decisions is the store's time instead."""

import random
import time

from signalbox.core.ports import Budget, OutOfTime


class SystemClock:
    def sleep(self, seconds: float) -> None:
        """Pause this thread."""
        time.sleep(seconds)

    def jitter(self) -> float:
        """Return a random number from 0 to 1."""
        return random.random()  # noqa: S311 - spreads retries, guards no secret


def time_budget(seconds: float) -> Budget:
    """Return a budget of `seconds`, which starts each time it is called."""

    def begin() -> OutOfTime:
        ends_at = time.monotonic() + seconds
        return lambda: time.monotonic() >= ends_at

    return begin
