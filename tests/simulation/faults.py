"""Faults to plant: the kit with one clause of its protocol left out. The simulation must notice each of them.

A fault replaces a function of the kit by one that lacks the clause, for as long as it is planted. One that goes
unnoticed means that the simulation has lost its sight, or the clause its reason; either is worth knowing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

from tests.simulation import links_world
from tests.simulation.half_commits import half_commits
from tests.simulation.links_kinds import KINDS, Kinds


@dataclass(frozen=True, slots=True)
class Fault:
    """A clause left out. `plant` leaves it out while it is entered; `run` is the world that must notice."""

    clause: str
    without: str
    plant: Callable[[], AbstractContextManager[Any]]
    run: Callable[[int], None]

    def __str__(self) -> str:
        return f"{self.clause}: {self.without}"


def in_links(clause: str, without: str, module: object, name: str, instead: Any, kinds: Kinds = KINDS) -> Fault:
    """A fault of the links, noticed in worlds of these kinds."""
    plant = partial(mock.patch.object, module, name, instead)
    return Fault(clause, without, plant, partial(links_world.run, kinds=kinds))


def torn(fault: Fault) -> Fault:
    """Look for a fault where every read beside a commit finds half of it."""

    def run(seed: int) -> None:
        with half_commits(1.0):
            fault.run(seed)

    return replace(fault, run=run)
