"""How faults of the batches are planted: by replacing functions of the library while the world runs."""

from __future__ import annotations

from typing import Any

from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacement, always
from tests.simulation.worlds.batches import world as batches_world


def in_batches(clause: str, without: str, point: str, instead: Any) -> Fault:
    """Return a fault of the batches that replaces what is at one point."""
    return in_batches_together(clause, without, (point, instead))


def in_batches_together(clause: str, without: str, *replacements: Replacement) -> Fault:
    """Return a fault of the batches that replaces what is at several points."""
    return Fault(clause, without, always(*replacements), batches_world.run)
