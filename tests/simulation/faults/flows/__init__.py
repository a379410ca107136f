"""All faults of flows; docs/protocols/flows.md says what each clause is for."""

from tests.simulation.faults.flows import archives, code, parts, turns

FAULTS = (*turns.FAULTS, *code.FAULTS, *parts.FAULTS, *archives.FAULTS)
