"""How faults of flows are planted: by replacing functions of the library while the world runs."""

from __future__ import annotations

from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacement, always
from tests.simulation.worlds.flows import nested_programs
from tests.simulation.worlds.flows import world as flows_world


def in_flows(clause: str, without: str, *replacements: Replacement) -> Fault:
    """Return a fault of the flows that replaces what is at the points."""
    return Fault(clause, without, always(*replacements), flows_world.run)


def in_nested_flows(clause: str, without: str, *replacements: Replacement) -> Fault:
    """Return a fault that nested flows must notice."""
    return Fault(clause, without, always(*replacements), nested_programs.run)
