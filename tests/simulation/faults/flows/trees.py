"""Planted faults that a model of flows notices: the rules of shields and of locks in results (flow-13, flow-27)."""

from dataclasses import replace

from tests.simulation.faults.flows import lost_messages, nested_programs
from tests.simulation.worlds.flow_trees import compared

NOTICED = ("flow-27", "flow-13: releasing locks in nested results")

FAULTS = tuple(
    replace(fault, run=compared.run)
    for fault in (*nested_programs.FAULTS, *lost_messages.FAULTS)
    if str(fault).startswith(NOTICED)
)
