"""Count a batch's pages and units, from its records."""

from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.header import Counts
from shared.batches.rules.outcomes import UnitState
from shared.batches.rules.tree_records import PageNode
from shared.core.operations.ports import Condition, Order, Ports, Query

LAST_PAGE_FIRST = Order(("first",), descending=True)
"""In the collection of counters only pages' nodes have a `first` index, so no other record is found."""


def units_in(ports: Ports, run: BatchRun, state: UnitState) -> int:
    """Count the units in a state."""
    return ports.store.count(Query(run.units_path, (Condition(("state",), "==", state),)))


def loaded(ports: Ports, run: BatchRun) -> tuple[int, int]:
    """Count the pages and the units that are loaded."""
    for last in ports.store.query(Query(run.counters_path, order_by=(LAST_PAGE_FIRST,), limit=1)):
        assert last.data is not None, "a query finds only records that exist"
        node = PageNode.from_record(last.data)
        return node.page + 1, node.end
    return 0, 0


def page_of(ports: Ports, run: BatchRun, index: int) -> PageNode | None:
    """Return the node of the page that a unit is on, or None if there is none."""
    up_to = Condition(("first",), "<=", index)
    for found in ports.store.query(Query(run.counters_path, (up_to,), (LAST_PAGE_FIRST,), limit=1)):
        assert found.data is not None, "a query finds only records that exist"
        node = PageNode.from_record(found.data)
        return node if index < node.end else None
    return None


def counts(ports: Ports, run: BatchRun) -> Counts:
    """Count all units of a batch, and those with an outcome.

    Pages may be loaded and failures retried meanwhile. In this order the counts are disjoint: what succeeded stays so,
    and what has an outcome is loaded.
    """
    succeeded = units_in(ports, run, "succeeded")
    failed = units_in(ports, run, "failed")
    return Counts(loaded(ports, run)[1], succeeded, failed)


def counts_of(ports: Ports, run: BatchRun, size: int) -> Counts:
    """Count the units with an outcome of a batch of at least `size` units: more may have been loaded meanwhile."""
    succeeded = units_in(ports, run, "succeeded")
    failed = units_in(ports, run, "failed")
    return Counts(max(size, succeeded + failed), succeeded, failed)
