"""All faults of the batches; `fault.py` defines what a fault is, docs/protocols/batches.md what each clause is for."""

from tests.simulation.faults.batches import chains, ends, groups, keyed, pages, permits, rated, runs, then, tree

GROUPED = groups.FAULTS

FAULTS = (
    *tree.FAULTS,
    *pages.FAULTS,
    *runs.FAULTS,
    *ends.FAULTS,
    *chains.FAULTS,
    *keyed.FAULTS,
    *then.FAULTS,
    *permits.FAULTS,
    *rated.FAULTS,
)
