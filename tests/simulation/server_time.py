"""How far `SERVER_TIME` strays from the time of its commit: it is when a server processed the request, by its clock.

A separate generator makes these draws, so that a world's other draws do not depend on them.
"""

from collections.abc import Callable
from datetime import timedelta
from random import Random

BEHIND_MAX_MS = 200
AHEAD_MAX_MS = 49
"""Less than `LIMITS.since_ahead_seconds`, which the kit counts on."""

NEAR = 0.6
"""Probability that it is the commit's time, as on an idle database."""


def server_time_strays(seed: int) -> Callable[[], timedelta]:
    """Return the function that a simulated store calls at each commit."""
    random = Random(f"server time {seed}")

    def stray() -> timedelta:
        if random.random() < NEAR:
            return timedelta()
        return timedelta(milliseconds=random.choice((-1, -5, -BEHIND_MAX_MS, 5, AHEAD_MAX_MS)))

    return stray
