"""Polling: read a value until it meets the caller's condition, with pauses of at most a second."""

from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import accumulate, repeat
from typing import TypeVar

from signalbox.core.ports import Clock

FIRST_PAUSES_SECONDS = (0.1, 0.2, 0.4)

PAUSE_SECONDS = 1.0

T = TypeVar("T")


def poll(clock: Clock, read: Callable[[], T], is_there: Callable[[T], bool], seconds: float) -> T:
    """Read until `is_there` holds, for at most `seconds`; return the last value read. Raises the errors of `read`."""
    return poll_again(clock, read(), read, is_there, seconds)


def poll_again(
    clock: Clock,
    found: T,
    read: Callable[[], T],
    is_there: Callable[[T], bool],
    seconds: float,
    first_pauses: Sequence[float] = FIRST_PAUSES_SECONDS,
) -> T:
    """Poll as `poll` does, but start with the value `found`, which was just read."""
    pauses = [*first_pauses, *repeat(PAUSE_SECONDS, round(seconds))]
    within = bisect(list(accumulate(pauses)), seconds)
    for pause in pauses[:within]:
        if is_there(found):
            break
        clock.sleep(pause)
        found = read()
    return found
