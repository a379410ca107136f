"""The time of the emulator: that of the machine, moved forward by tests."""

import time


class MovableClock:
    """A clock that is called for the seconds since 1970. It is never set back."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_seconds

    def advance(self, seconds: float) -> None:
        """Move the time forward by `seconds`, 0 or more."""
        self.ahead_seconds += seconds
