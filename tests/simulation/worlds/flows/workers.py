"""The code of inline steps in a simulated world: it runs in its delivery's process, while time passes."""

from __future__ import annotations

from random import Random

from signalbox.flows.tasks.turns import Code
from signalbox.mailboxes.model import CallOutcome
from tests.simulation.world import World

SLOW = 0.1
"""Probability that no code ends before the time until which a delivery waits."""


class SimulatedWorkers:
    """The workers of one delivery, which the platform would end after `lasts_seconds`."""

    def __init__(self, world: World, own: Random, lasts_seconds: float = 540) -> None:
        self._world, self._own = world, own
        self._codes: dict[str, Code] = {}
        self._began_at = world.now()
        self._lasts_seconds = lasts_seconds

    @property
    def running(self) -> list[str]:
        """The paths whose code has begun."""
        return list(self._codes)

    def begin(self, path: str, code: Code) -> None:
        """Begin code. It runs when its delivery waits."""
        self._codes[path] = code

    def wait(self, seconds: float) -> dict[str, CallOutcome]:
        """Let the others act; then run the code of one step, or let the time pass."""
        self._world.step("waits for inline steps")
        if self._own.random() < SLOW:
            self._world.pass_time(seconds)
            return {}
        path = self._own.choice(list(self._codes))
        outcome = self._codes[path]()
        return {path: outcome} if self._codes.pop(path, None) else {}

    def abandon(self, path: str) -> None:
        """Forget code that has begun."""
        self._codes.pop(path, None)

    def seconds(self) -> float:
        """Return the seconds since the delivery began."""
        return (self._world.now() - self._began_at).total_seconds()

    def seconds_left(self) -> float:
        """Return the seconds until the delivery is ended."""
        return self._lasts_seconds - self.seconds()
