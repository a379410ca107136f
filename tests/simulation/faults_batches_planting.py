"""How faults of the batches are planted: by replacing functions of the kit while the world runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any
from unittest import mock

from tests.simulation import batches_world
from tests.simulation.faults import Fault


def in_batches(clause: str, without: str, target: object, name: str, instead: Any) -> Fault:
    """Return a fault of the batches: `name` of a module or class is replaced."""
    return Fault(clause, without, partial(mock.patch.object, target, name, instead), batches_world.run)


def in_batches_together(clause: str, without: str, *replaced: tuple[object, str, Any]) -> Fault:
    """Return a fault of the batches that replaces several functions."""
    return Fault(clause, without, _plant_together(*replaced), batches_world.run)


def _plant_together(*replaced: tuple[object, str, Any]) -> Callable[[], AbstractContextManager[Any]]:
    def plant() -> AbstractContextManager[Any]:
        stack = ExitStack()
        for target, name, instead in replaced:
            stack.enter_context(mock.patch.object(target, name, instead))
        return stack

    return plant
