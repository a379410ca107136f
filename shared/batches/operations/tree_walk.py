"""Walk a batch's tree down from its root, through what is missing only, and propagate whatever is full on the way.

A counter is full and not propagated if the process of its last unit died; likewise a node.
"""

from collections.abc import Iterable, Sequence

from shared.batches.operations import propagation
from shared.batches.rules import counter_tree
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.counter_tree import Node
from shared.batches.rules.header import Header
from shared.batches.rules.tree_records import Counter, CounterRecord, NodeRecord, PageNode
from shared.core.operations.ports import Ports, Snapshot
from shared.core.rules.limits import LIMITS


def propagate_all(ports: Ports, run: BatchRun, header: Header) -> None:
    """Propagate whatever is full and was not propagated."""
    for counter in unpropagated(ports, run, header, header.pages or 0):
        if counter.full:
            propagation.propagate_counter(ports, run, counter.page, counter.number, counter.counted.failures)


def unpropagated(ports: Ports, run: BatchRun, header: Header, pages: int) -> list[Counter]:
    """Return counters that were not propagated, found from the root down; propagate full nodes on the way."""
    nodes = [counter_tree.root(pages)] if pages else []
    while nodes and nodes[0].level > 1:
        found = _existing(nodes, ports.store.read(*map(run.node_path, nodes)))
        below = [child for node, read in found for child in _missing(node, read, pages)]
        for node, read in found:
            if not _missing(node, read, pages):
                propagation.continue_from(ports, run, node, read, header)
        nodes = below[: LIMITS.walk_nodes_max]
    return _unpropagated_counters(ports, run, nodes)


def _existing(nodes: Sequence[Node], read: Sequence[Snapshot]) -> list[tuple[Node, Snapshot]]:
    return [(node, one) for node, one in zip(nodes, read, strict=True) if one.data is not None]


def _missing(node: Node, read: Snapshot, pages: int) -> list[Node]:
    assert read.data is not None, "only existing nodes"
    return [Node(node.level - 1, child) for child in NodeRecord.from_record(read.data).missing(node, pages)]


def _unpropagated_counters(ports: Ports, run: BatchRun, nodes: Sequence[Node]) -> list[Counter]:
    """Return the counters that these pages' nodes lack; propagate a node that lacks none."""
    lacking: list[tuple[PageNode, int]] = []
    for node, read in _existing(nodes, ports.store.read(*map(run.node_path, nodes)) if nodes else ()):
        assert read.data is not None, "only existing nodes"
        page = PageNode.from_record(read.data)
        numbers = page.missing_counters()
        lacking += [(page, number) for number in numbers]
        if not numbers:
            propagation.propagate_node(ports, run, node, page.failures)
    paths = [run.counter_path(page.page, number) for page, number in lacking]
    found = ports.store.read(*paths) if paths else ()
    return [
        Counter(page.page, number, page.first, page.units, CounterRecord.from_record(one.data))
        for (page, number), one in zip(lacking, found, strict=True)
        if one.data is not None
    ]


def missing_units(ports: Ports, run: BatchRun, counters: Iterable[Counter]) -> list[int]:
    """Return the indexes of the first units of these counters that have no outcome."""
    indexes = sorted(index for counter in counters if not counter.full for index in counter.indexes())
    indexes = indexes[: LIMITS.missing_named_max]
    read = ports.store.read(*map(run.unit_path, indexes)) if indexes else ()
    return [index for index, one in zip(indexes, read, strict=True) if one.data is None]
