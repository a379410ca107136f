"""How faults of the objects are planted: by replacing functions of the library while the world runs."""

from __future__ import annotations

from typing import Any

from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always
from tests.simulation.worlds.objects import world as objects_world


def in_objects(clause: str, without: str, point: str, instead: Any) -> Fault:
    """Return a fault of the objects that replaces what is at one point."""
    return Fault(clause, without, always((point, instead)), objects_world.run)
