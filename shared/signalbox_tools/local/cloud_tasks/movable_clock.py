"""The time of the emulator: that of the machine, moved forward by tests."""

import time

AHEAD_SECONDS_MAX = 100 * 366 * 86_400
"""A hundred years: times after the year 9999 have no form in JSON."""


class MovableClock:
    """A clock that is called for the seconds since 1970. It is never set back."""

    def __init__(self, ahead_seconds: float = 0.0) -> None:
        self.ahead_seconds = ahead_seconds

    def __call__(self) -> float:
        return time.time() + self.ahead_seconds

    def advance(self, seconds: float) -> None:
        """Move the time forward by `seconds`, 0 or more. Raises `ValueError` above `AHEAD_SECONDS_MAX` altogether."""
        if self.ahead_seconds + seconds > AHEAD_SECONDS_MAX:
            raise ValueError("The clock may be at most 100 years ahead of the machine's")
        self.ahead_seconds += seconds
