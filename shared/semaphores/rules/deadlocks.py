"""Deadlocks among waits that name their holder: who holds what the next one waits for, in a circle.

The wait-for graph is reduced: whoever waits for nothing will end and return permits, and so will whoever these are
enough for. Who is left over waits for ever, or rather until a lease expires. A lease without a holder counts as one
that ends, and so does one whose continuation has not begun, so nothing is reported that could go on by itself. A graph
of several reads is not of one instant; but a deadlock stays until a lease expires, so it is in every later one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class HeldPermits:
    """Permits of a semaphore that a holder has until a time."""

    semaphore: str
    holder: str
    permits: int
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class WantedPermits:
    """Permits of a semaphore that a holder waits for."""

    semaphore: str
    holder: str
    permits: int


@dataclass(frozen=True, slots=True)
class WaitForGraph:
    """What holders have and want, and how many permits each semaphore has; the others are free, or will be."""

    permits: Mapping[str, int]
    held: tuple[HeldPermits, ...]
    wanted: tuple[WantedPermits, ...]

    def free(self, semaphore: str, stuck: Iterable[str]) -> int:
        """Count the permits of a semaphore that `stuck` holders do not have."""
        kept = (one.permits for one in self.held if one.semaphore == semaphore and one.holder in stuck)
        return self.permits[semaphore] - sum(kept)


def stuck_holders(graph: WaitForGraph) -> frozenset[str]:
    """Return the holders that wait for each other: the graph without them can be worked off, and with them cannot."""
    stuck = frozenset(one.holder for one in graph.wanted)
    while True:
        going = {one.holder for one in graph.wanted if one.permits <= graph.free(one.semaphore, stuck)}
        if not going & stuck:
            return stuck
        stuck -= going


def cycles(graph: WaitForGraph) -> list[list[dict[str, Any]]]:
    """Return the circles of waiting: each holder with what it holds, what it waits for, and who holds that."""
    stuck = stuck_holders(graph)
    found: list[list[str]] = []
    for holder in sorted(stuck):
        if not any(holder in cycle for cycle in found):
            cycle = _cycle_from(graph, holder, stuck)
            if not any(set(cycle) & set(other) for other in found):
                found.append(cycle)
    return [[_step(graph, holder, cycle[(at + 1) % len(cycle)]) for at, holder in enumerate(cycle)] for cycle in found]


def _cycle_from(graph: WaitForGraph, holder: str, stuck: frozenset[str]) -> list[str]:
    """Follow who waits for whom until somebody comes again; return the holders from there on."""
    path = [holder]
    while (next_ := _waited_for(graph, path[-1], stuck)) not in path:
        path.append(next_)
    return path[path.index(next_) :]


def _waited_for(graph: WaitForGraph, holder: str, stuck: frozenset[str]) -> str:
    """Return a stuck holder of what a stuck one waits for; itself, if it alone has too much of it."""
    names = {one.semaphore for one in graph.wanted if one.holder == holder}
    others = sorted(one.holder for one in graph.held if one.semaphore in names and one.holder in stuck - {holder})
    return others[0] if others else holder


def _step(graph: WaitForGraph, holder: str, next_: str) -> dict[str, Any]:
    held = sorted((one for one in graph.held if one.holder == holder), key=lambda one: one.semaphore)
    names = {one.semaphore for one in graph.held if one.holder == next_}
    wanted = sorted(one.semaphore for one in graph.wanted if one.holder == holder and one.semaphore in names)
    shown = [{"semaphore": one.semaphore, "ends_at": one.ends_at} for one in held]
    return {"holder": holder, "holds": shown, "waits_for": wanted[0], "held_by": next_}
