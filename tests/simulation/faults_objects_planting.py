"""How faults of the objects are planted: by replacing functions of the kit while the world runs."""

from __future__ import annotations

from typing import Any
from unittest import mock

from tests.simulation import objects_world
from tests.simulation.faults import Fault


def in_objects(clause: str, without: str, target: object, name: str, instead: Any) -> Fault:
    """Return a fault of the objects: `name` of a module or class is replaced."""
    return Fault(clause, without, lambda: mock.patch.object(target, name, instead), objects_world.run)
