"""Deadlocks among waits that name their holder: a circle of holders, each waiting for permits of the next.

The wait-for graph is reduced. A holder that waits for nothing will end and release its permits; so will a holder for
which these permits are enough. The holders that are left over wait until a lease expires. A lease without a holder
counts as one that ends, and so does a lease whose continuation has not started, so nothing is reported that could
resolve itself. The reads of a graph are not of one instant, but a deadlock stays until a lease expires, so every later
graph shows it.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.semaphores.shown import HeldShown, HolderShown


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
    """The permits of each semaphore, and the permits that holders have and want. All others are free or will be."""

    permits: Mapping[str, int]
    held: tuple[HeldPermits, ...]
    wanted: tuple[WantedPermits, ...]

    def free(self, semaphore: str, stuck: Iterable[str]) -> int:
        """Return the number of permits of a semaphore that the `stuck` holders do not have."""
        kept = (held.permits for held in self.held if held.semaphore == semaphore and held.holder in stuck)
        return self.permits[semaphore] - sum(kept)


def stuck_holders(graph: WaitForGraph) -> frozenset[str]:
    """Return the holders that wait for each other. All other holders can finish."""
    stuck = frozenset(wanted.holder for wanted in graph.wanted)
    while True:
        granted = {wanted.holder for wanted in graph.wanted if wanted.permits <= graph.free(wanted.semaphore, stuck)}
        if not granted & stuck:
            return stuck
        stuck -= granted


def cycles(graph: WaitForGraph) -> tuple[tuple[HolderShown, ...], ...]:
    """Return the circles of holders. An entry has a holder, its leases, and the semaphore and holder it waits for."""
    stuck = stuck_holders(graph)
    found: list[list[str]] = []
    for holder in sorted(stuck):
        if not any(holder in cycle for cycle in found):
            cycle = _cycle_from(graph, holder, stuck)
            if not any(set(cycle) & set(other) for other in found):
                found.append(cycle)
    return tuple(
        tuple(_step(graph, holder, cycle[(at + 1) % len(cycle)]) for at, holder in enumerate(cycle)) for cycle in found
    )


def _cycle_from(graph: WaitForGraph, holder: str, stuck: frozenset[str]) -> list[str]:
    """Follow the waits until a holder is reached a second time; return the holders from its first occurrence."""
    path = [holder]
    while (next_ := _waited_for(graph, path[-1], stuck)) not in path:
        path.append(next_)
    return path[path.index(next_) :]


def _waited_for(graph: WaitForGraph, holder: str, stuck: frozenset[str]) -> str:
    """Return a stuck holder of a semaphore that `holder` waits for; `holder` itself if only it has too many permits."""
    names = {wanted.semaphore for wanted in graph.wanted if wanted.holder == holder}
    others = sorted(held.holder for held in graph.held if held.semaphore in names and held.holder in stuck - {holder})
    return others[0] if others else holder


def _step(graph: WaitForGraph, holder: str, next_: str) -> HolderShown:
    own = sorted((held for held in graph.held if held.holder == holder), key=lambda held: held.semaphore)
    names = {held.semaphore for held in graph.held if held.holder == next_}
    waits = sorted(wanted.semaphore for wanted in graph.wanted if wanted.holder == holder and wanted.semaphore in names)
    leases = tuple(HeldShown(held.semaphore, held.ends_at) for held in own)
    return HolderShown(holder, leases, waits_for=waits[0], held_by=next_)
