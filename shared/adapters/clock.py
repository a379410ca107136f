"""The machine's clock. It schedules and sleeps; what time it *is* for a decision, the store says."""

import random
import time


class SystemClock:
    def sleep(self, seconds: float) -> None:
        """Pause this thread."""
        time.sleep(seconds)

    def jitter(self) -> float:
        """Draw a number from 0 to 1."""
        return random.random()  # noqa: S311 - it spreads retries, and keeps no secret
