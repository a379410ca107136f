"""The time for the code of users: the machine's clock, or in a test the clock of the harness.

The `now` of the kit's decisions is the store's time instead.
"""

from collections.abc import Callable
from datetime import UTC, datetime

Read = Callable[[], datetime]


def _of_the_machine() -> datetime:
    return datetime.now(UTC)


_read: Read = _of_the_machine


def now() -> datetime:
    """Return the present time, with the time zone UTC."""
    return _read()


def bind(read: Read) -> Read:
    """Read the time from `read` in this process from now on. Return the function that was used before."""
    global _read
    before, _read = _read, read
    return before
