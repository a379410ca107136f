"""All faults of flows; docs/protocols/flows.md says what each clause is for."""

from tests.simulation.faults.flows import archives, locks_and_sub_flows, replayed_code, turns

FAULTS = (*turns.FAULTS, *replayed_code.FAULTS, *locks_and_sub_flows.FAULTS, *archives.FAULTS)
