"""How long the worlds are: usually a few operations and faults, so that the trace of a violation is short.

`make simulate LONG=1` runs longer ones: chains of repairs that need several faults, and names that are reused twice.
There, a seed means another run.
"""

from collections.abc import Iterator
from contextlib import contextmanager

OPERATIONS_LONG = 16
FAULTS_LONG = 25


class _Length:
    long = False


@contextmanager
def long_worlds(long: bool = True) -> Iterator[None]:
    """Make all worlds of this process long while the context is entered."""
    before, _Length.long = _Length.long, long
    try:
        yield
    finally:
        _Length.long = before


def begin_process(long: bool) -> None:
    """Make all worlds of a new process long, or leave them as they are."""
    _Length.long = long


def operations_max(usual: int, long: int = OPERATIONS_LONG) -> int:
    """Return how many operations a world has at most."""
    return max(usual, long) if _Length.long else usual


def faults(usual: int) -> int:
    """Return how many faults a world has in all, if it has any."""
    return max(usual, FAULTS_LONG) if _Length.long and usual else usual
