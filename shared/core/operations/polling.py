"""Wait for something that only a read shows: short pauses first, then one read a second."""

from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import accumulate, repeat
from typing import TypeVar

from shared.core.operations.ports import Clock

FIRST_PAUSES_SECONDS = (0.1, 0.2, 0.4)
PAUSE_SECONDS = 1.0

T = TypeVar("T")


def poll(clock: Clock, read: Callable[[], T], is_there: Callable[[T], bool], seconds: float) -> T:
    """Read until it is there, for so many seconds at most; return what was read last. Raises what `read` raises."""
    return poll_again(clock, read(), read, is_there, seconds)


def poll_again(
    clock: Clock,
    found: T,
    read: Callable[[], T],
    is_there: Callable[[T], bool],
    seconds: float,
    first_pauses: Sequence[float] = FIRST_PAUSES_SECONDS,
) -> T:
    """Read as `poll` does what was `found` just now, after the first pause."""
    for pause in _pauses(first_pauses, seconds):
        if is_there(found):
            break
        clock.sleep(pause)
        found = read()
    return found


def _pauses(first: Sequence[float], seconds: float) -> list[float]:
    """Return the pauses between reads, within `seconds` in all."""
    pauses = [*first, *repeat(PAUSE_SECONDS, round(seconds))]
    return pauses[: bisect(list(accumulate(pauses)), seconds)]
