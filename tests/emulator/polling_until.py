"""Wait until a process outside the test has done something."""

import time
from collections.abc import Callable
from typing import Any


def eventually(check: Callable[[], Any], seconds_max: float = 30) -> Any:
    """Poll until a check returns a true value, and return that. Raises `AssertionError`."""
    deadline = time.monotonic() + seconds_max
    while not (value := check()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return value
