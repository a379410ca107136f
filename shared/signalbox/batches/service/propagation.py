"""Propagate full counters and nodes up a batch's tree, and end the batch when its root is full.

To propagate a child, its place is written in its parent: without a guard and always with the same value, so a repeat
has no effect. The header is read only *after* that write. If it is not sealed at that time, the right edge is left to
the seal's check, which reads the edge after the seal. So at least one of the two sees the other's write.

Every write requires its record to exist. `RecordMissing` from here means that the batch was removed.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from signalbox.batches import storage
from signalbox.batches.limits import LIMITS
from signalbox.batches.machine import lifecycle
from signalbox.batches.machine.lifecycle import Decided, NextStep
from signalbox.batches.model import tree
from signalbox.batches.model.headers import Header, header_of_run
from signalbox.batches.model.tree import PASSED, BatchRun, Counter, Node, NodeRecord, PageNode
from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Change, Ports, Put, Snapshot

# --- up the tree ---


def propagate_counter(ports: Ports, run: BatchRun, counter: Counter) -> None:
    """Propagate a full counter to its page's node, and further up as long as nodes are full."""
    node = Node(1, counter.page)
    ports.store.commit([passing(run, node, counter.number, counter.failures)])
    [read] = ports.store.read(run.node_path(node))
    continue_from_page(ports, run, node, read, counter.failures)


def continue_from_page(ports: Ports, run: BatchRun, node: Node, read: Snapshot, failures: int) -> None:
    """Continue from a page's node, read after the propagation of a counter with this number of failures."""
    if read.data is None:
        return
    page = PageNode.from_record(read.data)
    if failures and lifecycle.too_many_failed(page.failures_max, page.failures):
        end_if_too_many_failed(ports, run)
    if lifecycle.step_of_page(page) is NextStep.PROPAGATE:
        propagate_node(ports, run, node, page.failures)


def propagate_node(ports: Ports, run: BatchRun, node: Node, failures: int) -> None:
    """Propagate a full node to its parent, and further up as long as nodes are full."""
    parent = tree.parent(node)
    ports.store.commit([passing(run, parent, node.index, failures)])
    read, header = ports.store.read(run.node_path(parent), run.header_path)
    continue_from(ports, run, parent, read, header_of_run(header.data, run))


def continue_from(ports: Ports, run: BatchRun, node: Node, read: Snapshot, header: Header | None) -> None:
    """Propagate a node above the pages' level if it is full, or end the batch. `read` is the node's record."""
    if read.data is None or header is None or header.ended:
        return
    record = NodeRecord.from_record(read.data)
    if lifecycle.too_many_failed(header.settings.failures_max, record.failures):
        end_if_too_many_failed(ports, run)
    match lifecycle.step_of_node(node, record, header):
        case NextStep.PROPAGATE:
            propagate_node(ports, run, node, record.failures)
        case NextStep.COMPLETE:
            complete_batch(ports, run)


def check_right_edge(ports: Ports, run: BatchRun) -> None:
    """Propagate the right edge's nodes, from the lowest up. Before the seal, no process knew that they were full."""
    header = storage.read_header_of_run(ports, run)
    if header is None or not header.pages:
        return
    node = tree.last_of_level_2(header.pages)
    [lowest] = ports.store.read(run.node_path(node))
    continue_from(ports, run, node, lowest, header)


def passing(run: BatchRun, node: Node, child: int, failures: int) -> Change:
    """Return the write that propagates a child to a node."""
    return Change(run.node_path(node), {(PASSED, str(child)): failures})


# --- ends ---


def complete_batch(ports: Ports, run: BatchRun) -> None:
    """End a batch whose units all have an outcome."""
    failed = storage.count_units(ports, run, "failed")
    end_batch(ports, run, lambda header, now: lifecycle.complete(run, header, failed, now))


def end_if_too_many_failed(ports: Ports, run: BatchRun) -> None:
    """End a batch in which more units have failed than it tolerates."""
    counts = storage.read_counts(ports, run)
    end_batch(ports, run, lambda header, now: lifecycle.fail(run, header, counts, now))


def end_batch(ports: Ports, run: BatchRun, rule: Callable[[Header, datetime], Decided]) -> Header | None:
    """End a batch by a rule of `lifecycle`, and enqueue the tasks of its end.

    Returns the header after that, or None if the batch was removed. The commit is guarded by the header, so a batch
    ends once.
    """

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Header | None]:
        [snapshot] = read
        header = header_of_run(snapshot.data, run)
        if header is None:
            return Decision((), None)
        decided = rule(header, snapshot.read_time)
        if decided.state == header:
            return Decision((), header)
        write = Put(run.header_path, decided.state.to_record(), snapshot.guard)
        writes = (write, *storage.completion_writes(decided.effects, snapshot.read_time))
        return Decision(writes, decided.state, decided.effects)

    header, _ = perform(ports, [run.header_path], decide)
    return header


# --- down the tree ---


def propagate_all(ports: Ports, run: BatchRun, header: Header) -> list[Counter]:
    """Walk the tree from its root down, and propagate each full counter and node. Return the other counters.

    A counter or node is full and not propagated if the process of its last unit died.
    """
    counters = unpropagated(ports, run, header, header.pages or 0)
    for counter in counters:
        if counter.is_full:
            propagate_counter(ports, run, counter)
    return [counter for counter in counters if not counter.is_full]


def unpropagated(ports: Ports, run: BatchRun, header: Header, pages: int) -> list[Counter]:
    """Return counters that were not propagated, found from the root down. Propagate full nodes on the way."""
    nodes = [tree.root(pages)] if pages else []
    while nodes and nodes[0].level > 1:
        found = _existing_nodes(nodes, ports.store.read(*map(run.node_path, nodes)))
        below = [child for node, read in found for child in _missing_children(node, read, pages)]
        for node, read in found:
            if not _missing_children(node, read, pages):
                continue_from(ports, run, node, read, header)
        nodes = below[: LIMITS.walk_nodes_max]
    return _unpropagated_counters(ports, run, nodes)


def _existing_nodes(nodes: Sequence[Node], read: Sequence[Snapshot]) -> list[tuple[Node, Snapshot]]:
    return [(node, snapshot) for node, snapshot in zip(nodes, read, strict=True) if snapshot.data is not None]


def _missing_children(node: Node, read: Snapshot, pages: int) -> list[Node]:
    assert read.data is not None, "only existing nodes"
    return [Node(node.level - 1, child) for child in NodeRecord.from_record(read.data).missing(node, pages)]


def _unpropagated_counters(ports: Ports, run: BatchRun, nodes: Sequence[Node]) -> list[Counter]:
    """Return the counters that were not propagated to these pages' nodes. Propagate a node that has all counters."""
    missing: list[Counter] = []
    for node, read in _existing_nodes(nodes, ports.store.read(*map(run.node_path, nodes)) if nodes else ()):
        assert read.data is not None, "only existing nodes"
        page = PageNode.from_record(read.data)
        missing += page.missing_counters()
        if lifecycle.step_of_page(page) is NextStep.PROPAGATE:
            propagate_node(ports, run, node, page.failures)
    found = ports.store.read(*map(run.counter_path, missing)) if missing else ()
    return [
        replace(counter.with_record(snapshot.data), changed_at=snapshot.update_time)
        for counter, snapshot in zip(missing, found, strict=True)
        if snapshot.data is not None
    ]


def missing_units(ports: Ports, run: BatchRun, counters: Iterable[Counter]) -> list[int]:
    """Return the indexes of the first units of these counters that have no outcome."""
    indexes = sorted(index for counter in counters if not counter.is_full for index in counter.indexes())
    indexes = indexes[: LIMITS.missing_named_max]
    read = ports.store.read(*map(run.unit_path, indexes)) if indexes else ()
    return [index for index, snapshot in zip(indexes, read, strict=True) if snapshot.data is None]
