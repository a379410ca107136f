"""Transient refusals: for a while, an installation lacks a right, a queue, or a valid identity.

Rights that take effect after a first deployment cause this. `SimulatedQueue` translates the error as the kit's adapter
does. One world in five has such an installation. A separate generator makes its draws, so that the runs of the other
worlds do not depend on them.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from google.api_core import exceptions as google

from tests.simulation.reached_counts import REACHED, TASKS_REFUSED

if TYPE_CHECKING:
    from tests.simulation.world import World

INCOMPLETE = 0.2
"""Probability that a world's installation is incomplete."""

REFUSALS_MAX = 4

ERRORS = (google.PermissionDenied, google.NotFound, google.Unauthenticated)


class PassingRefusals:
    """What Cloud Tasks refuses in a world because of the installation."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._random = Random(f"refusals {seed}")
        incomplete = self._random.random() < INCOMPLETE
        self._left = self._random.randint(1, REFUSALS_MAX) if incomplete else 0

    def refuse(self) -> None:
        """Raise the error of Google's client, if Cloud Tasks refuses here."""
        rates = self._world.fault_rates
        if rates.left > 0 and self._left > 0 and self._random.random() < rates.refuse_task:
            self._left -= 1
            error = self._random.choice(ERRORS)("the installation is incomplete")
            self._world.log(f"  FAULT: Cloud Tasks answers {type(error).__name__}")
            REACHED[TASKS_REFUSED] += 1
            raise error
