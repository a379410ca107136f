"""How faults of the objects are planted: by replacing functions of the kit while the world runs."""

from __future__ import annotations

from typing import Any
from unittest import mock

from tests.simulation import objects_world
from tests.simulation.faults import Fault
from tests.simulation.half_commits import half_commits


def in_objects(clause: str, without: str, target: object, name: str, instead: Any, torn: float = 0.0) -> Fault:
    """Return a fault of the objects: `name` of a module or class is replaced. `torn` reads find half a commit."""

    def run(seed: int) -> None:
        with half_commits(torn):
            objects_world.run(seed)

    return Fault(clause, without, lambda: mock.patch.object(target, name, instead), run)
