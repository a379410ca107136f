"""How faults of links are planted: by replacing a function of the library while the world runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from signalbox.core.kit_names import ANYONE
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always
from tests.simulation.worlds.links import world as links_world
from tests.simulation.worlds.links.kinds import KINDS, Kinds


def in_links(clause: str, without: str, point: str, instead: Any, kinds: Kinds = KINDS) -> Fault:
    """Return a fault of the links, noticed in worlds of these kinds."""
    return Fault(clause, without, always((point, instead)), in_world(kinds))


def in_world(kinds: Kinds, writers: str = ANYONE) -> Callable[[int], None]:
    """Return a function that runs a seed of the links, in worlds of these kinds, where these clients write
    documents.
    """
    return partial(links_world.run, kinds=kinds, writers=writers)
