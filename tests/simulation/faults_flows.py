"""All faults of flows; docs/protocols/flows.md says what each clause is for."""

from tests.simulation import faults_flows_code, faults_flows_parts, faults_flows_turns

FAULTS = (*faults_flows_turns.FAULTS, *faults_flows_code.FAULTS, *faults_flows_parts.FAULTS)
