"""How faults of flows are planted: by replacing functions of the kit while the world runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from tests.simulation import flows_world
from tests.simulation.faults import Fault

Replacement = tuple[object, str, Any]


def in_flows(clause: str, without: str, *replacements: Replacement) -> Fault:
    """Return a fault of the flows. A replacement is a module or class, a name in it, and what stands there instead."""
    return Fault(clause, without, lambda: _replaced(replacements), flows_world.run)


@contextmanager
def _replaced(replacements: tuple[Replacement, ...]) -> Iterator[None]:
    with ExitStack() as stack:
        for target, name, instead in replacements:
            stack.enter_context(mock.patch.object(target, name, instead))
        yield
