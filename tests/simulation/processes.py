"""The processes of a simulated world: greenlets that yield before every round trip, and crash where the seed chooses.

Each process has a pace. Most bad interleavings have one process that pauses while the others run to their end,
so paces differ widely and change.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from greenlet import greenlet

from signalbox.core.problems import Problem, Unavailable
from signalbox.core.user_code import ProcessEnded

if TYPE_CHECKING:
    from tests.simulation.world import World

PACES = (0.002, 0.05, 1.0)
"""Weights of a process in the draw of the next step."""

PACE_CHANGES = 0.15
"""Probability, a step, that a process changes its pace."""


EXITS = (SystemExit, CancelledError, GeneratorExit)
"""Exceptions of users' code that are not an `Exception`. The code under test must not let them end a process."""


class Killed(ProcessEnded):
    """The process is gone. Not an `Exception`: nothing in the code under test may catch it."""


@dataclass(slots=True)
class Process:
    """A greenlet at work. `ended` is called with whether its work is done, or must be retried."""

    name: str
    run: greenlet
    ended: Callable[[bool], None]
    pace: float


class Processes:
    """Those that run now. The scheduler is the greenlet that made the world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._scheduler = greenlet.getcurrent()
        self.running: list[Process] = []
        self.current = ""

    def start(self, name: str, work: Callable[[], None], ended: Callable[[bool], None]) -> None:
        """Add a process; it takes its first step when the scheduler chooses it."""
        pace = self._world.random.choice(PACES)
        run = greenlet(work, self._scheduler)
        if self._world.versions:
            name += self._world.versions.assign(run)
        self.running.append(Process(name, run, ended, pace))

    def yield_to_others(self) -> None:
        """Return to the scheduler until it chooses the calling process again. Raises `Killed`."""
        self._scheduler.switch()

    def step(self, process: Process) -> None:
        """Run a process up to its next round trip, or to its end."""
        if self._world.random.random() < PACE_CHANGES:
            process.pace = self._world.random.choice(PACES)
        self.current = process.name
        try:
            self._switch_to(process)
        except Killed:
            self._end(process, done=False)
        except Unavailable as error:
            self._world.log(f"unavailable: {error}")
            self._end(process, done=False)
        except Problem as problem:
            self._world.log(f"problem: {problem.detail}")
            self._end(process, done=True)
        else:
            if process.run.dead:
                self._end(process, done=not self._killed())

    def _switch_to(self, process: Process) -> None:
        if self._killed():
            self._world.log("  FAULT: is killed")
            process.run.throw(Killed)
        else:
            process.run.switch()

    def _killed(self) -> bool:
        return self._world.inject_fault(self._world.fault_rates.kill)

    def _end(self, process: Process, *, done: bool) -> None:
        self.running.remove(process)
        self._world.log("ends, acknowledged" if done else "ends, not acknowledged")
        process.ended(done)
