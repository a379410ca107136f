"""Purges of the queues in some worlds of batches: tasks vanish at any point, and the records stay.

The queues are purged when some tasks were created, after some round trips of other processes, soon after the code of a
unit has raised, while its task waits for the retry, or before a batch's sub-batches are cancelled. A purge takes the
tasks of the batches and their units, and in some worlds also the admit runs and the task that holds the permits. In
some, an operator interferes besides.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from signalbox.batches.model.units import PlacedUnit
from signalbox.core.effects import Effect
from signalbox.core.problems import Unavailable
from tests.simulation.reached_counts import RAISED_BEFORE_PURGES, REACHED

if TYPE_CHECKING:
    from tests.simulation.world import World

TASKS_MAX, STEPS_MAX, STEPS_AFTER_RAISE_MAX = 14, 120, 6
"""A purge follows at most so many created tasks, or round trips, or round trips after a unit's code has raised."""

OF_RETRIES_RATE, TASKS_OF_RETRIES_MAX = 0.5, 6
"""The share of worlds with retries in which their tasks are purged, after at most so many were created."""

OF_CANCELS_RATE = 0.7
"""The share of worlds in which each task is purged that cancels sub-batches."""

RAISES_RATE = 0.3
"""The share of starts of units' code that raise, until the queues have been purged."""

OF_UNITS = ("batch_expand", "painter")
OTHERS = ("semaphore_admit", "another")


class Purges:
    """The purges of a world, and the units whose code raises before one."""

    def __init__(self, world: World, created: Random, seed: int) -> None:
        self._world = world
        self._random = Random(f"purges {seed}")
        self.meets_operators = self._random.random() < 0.5
        self._functions = OF_UNITS + (OTHERS if self._random.random() < 0.5 else ())
        self._after_raise = self._random.random() < 0.6
        self._of_cancels = Random(f"purges of cancels {seed}").random() < OF_CANCELS_RATE
        self._take_one = world.queue.take
        world.queue.take = self._take  # type: ignore[method-assign]  # the queues are purged between two tasks
        self._after_tasks(created.randint(1, TASKS_MAX))

    def beginnings(self) -> list[Callable[[], None]]:
        """Return the acts of an operator who purges while other processes run."""
        return [lambda: self._later(self._random.randint(0, STEPS_MAX))] if self._random.random() < 0.5 else []

    def may_raise(self, unit: PlacedUnit) -> None:
        """Raise in place of a unit's code, in some worlds, and purge the queues soon after."""
        if self._after_raise and self._random.random() < RAISES_RATE:
            self._after_raise = False
            REACHED[RAISED_BEFORE_PURGES] += 1
            self._later(self._random.randint(1, STEPS_AFTER_RAISE_MAX))
            raise Unavailable(f"the code of unit {unit.index} raised")

    def end(self) -> None:
        """Purge nothing from now on: it is known when all must end."""
        self._after_raise = self._of_cancels = False
        self._after_tasks(0)

    def of_retries(self) -> None:
        """Purge the queues once while units are retried, in some worlds."""
        if self._random.random() < OF_RETRIES_RATE:
            self._after_tasks(self._random.randint(1, TASKS_OF_RETRIES_MAX))

    def _later(self, steps: int) -> None:
        def work() -> None:
            for _ in range(steps):
                self._world.step("does other work")
            self._purge()

        self._world.start("purges the queues", work)

    def _after_tasks(self, count: int) -> None:
        """Purge the queues when this many more tasks were created; at 0, never."""
        self._tasks_left = count

    def _take(self, effect: Effect) -> bool:
        is_new = self._take_one(effect)
        self._tasks_left -= 1
        if self._tasks_left == 0 or (self._of_cancels and effect.task == "cancel"):
            self._purge()
        return is_new

    def _purge(self) -> None:
        self._world.queue.purge(lambda effect: effect.function in self._functions)
