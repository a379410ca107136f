"""All faults of the batches; `fault.py` defines what a fault is, docs/protocols/batches.md what each clause is for."""

from tests.simulation.faults.batches import (
    chains,
    counter_tree,
    ends,
    following_batches,
    grouped_units,
    incarnations,
    keyed_retries,
    pages,
    rate_permits,
    semaphore_permits,
)

GROUPED = grouped_units.FAULTS

FAULTS = (
    *counter_tree.FAULTS,
    *pages.FAULTS,
    *incarnations.FAULTS,
    *ends.FAULTS,
    *chains.FAULTS,
    *keyed_retries.FAULTS,
    *following_batches.FAULTS,
    *semaphore_permits.FAULTS,
    *rate_permits.FAULTS,
)
