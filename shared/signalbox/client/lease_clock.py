"""The clock with which a client measures its leases. It also counts the time while the machine is suspended."""

import time

# Python's monotonic clock stands still during a suspension, on Linux and macOS.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def monotonic() -> float:
    """Return the seconds since some moment, of which no setting of the machine's time takes any back."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
