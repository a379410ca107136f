"""Faults to plant: the kit with one clause of its protocol left out. The simulation must notice each of them.

A fault replaces a function of the kit by one that lacks the clause, for as long as it is planted. If no seed notices a
fault, either the simulation has become blind or the clause is unnecessary.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from tests.simulation.faults.points import Replacements, planted
from tests.simulation.half_commits import half_commits


@dataclass(frozen=True, slots=True)
class Fault:
    """A clause that is left out: the replacements at its points, and the world that must notice."""

    clause: str
    without: str
    replacements: Callable[[], Replacements]
    run: Callable[[int], None]

    def plant(self) -> AbstractContextManager[None]:
        """Leave the clause out while the context is entered."""
        return planted(*self.replacements())

    @property
    def points(self) -> tuple[str, ...]:
        """The names of what is replaced, in `FAULT_POINTS`."""
        return tuple(point for point, _ in self.replacements())

    def __str__(self) -> str:
        return f"{self.clause}: {self.without}"


def torn(fault: Fault) -> Fault:
    """Look for a fault where every read concurrent with a commit finds half of it."""

    def run(seed: int) -> None:
        with half_commits(1.0):
            fault.run(seed)

    return replace(fault, run=run)
