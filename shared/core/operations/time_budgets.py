"""How long a part of the sweeper may go on: each part has a budget of its own, so that none displaces the others.

The adapter measures by the machine's clock: this decides only how much is done now, never what is done.
"""

from collections.abc import Callable

OutOfTime = Callable[[], bool]
"""Return whether the budget is used up. A part reads it before each record."""

Budget = Callable[[], OutOfTime]
"""Begin a budget."""


def unlimited() -> OutOfTime:
    """Begin a budget without an end."""
    return lambda: False
