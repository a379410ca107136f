"""The machine's clock. It only sleeps and spreads retries; the time of a decision is the store's."""

import random
import time


class SystemClock:
    def sleep(self, seconds: float) -> None:
        """Pause this thread."""
        time.sleep(seconds)

    def jitter(self) -> float:
        """Return a random number from 0 to 1."""
        return random.random()  # noqa: S311 - spreads retries, guards no secret
