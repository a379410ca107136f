"""Propagate full counters and nodes up a batch's tree, and end the batch when its root is full.

Propagating writes the child's place in its parent: blind, and always the same value, so a repeat is a no-op. The header
is read only *after* that write. If it is not sealed then, the right edge is left to the seal's check, which reads the
edge after the seal: one of the two sees what the other wrote.

Every write requires its record to exist: `NotFound` from here means that the batch was removed.
"""

from collections.abc import Callable

from shared.batches.operations import counting
from shared.batches.rules import counter_tree, ends, tree_records
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.counter_tree import Node
from shared.batches.rules.header import BatchEnd, Header, header_of_run
from shared.batches.rules.tree_records import PASSED, NextStep, NodeRecord, PageNode
from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Change, Ports, Put, Snapshot
from shared.core.rules.effects import Decision


def propagate_counter(ports: Ports, run: BatchRun, page: int, counter: int, failures: int) -> None:
    """Propagate a full counter to its page's node, and on up while nodes are full too."""
    node = Node(1, page)
    ports.store.commit([_passing(run, node, counter, failures)])
    [read] = ports.store.read(run.node_path(node))
    if read.data is None:
        return
    page_node = PageNode.from_record(read.data)
    if failures and ends.too_many(page_node.failures_max, page_node.failures):
        end_if_too_many_failed(ports, run)
    if not page_node.missing_counters():
        propagate_node(ports, run, node, page_node.failures)


def propagate_node(ports: Ports, run: BatchRun, node: Node, failures: int) -> None:
    """Propagate a full node to its parent, and on up while nodes are full."""
    parent = counter_tree.parent(node)
    ports.store.commit([_passing(run, parent, node.index, failures)])
    read, header = ports.store.read(run.node_path(parent), run.header_path)
    continue_from(ports, run, parent, read, header_of_run(header.data, run))


def continue_from(ports: Ports, run: BatchRun, node: Node, read: Snapshot, header: Header | None) -> None:
    """Continue from a node above the pages' level, as it was read: propagate it, or complete the batch."""
    if read.data is None or header is None or header.ended:
        return
    record = NodeRecord.from_record(read.data)
    if ends.too_many(header.failures_max, record.failures):
        end_if_too_many_failed(ports, run)
    match tree_records.next_step(node, record, header):
        case NextStep.PROPAGATE:
            propagate_node(ports, run, node, record.failures)
        case NextStep.COMPLETE:
            complete(ports, run)


def check_right_edge(ports: Ports, run: BatchRun) -> None:
    """Propagate the nodes of the right edge, bottom up: until the seal nobody could know that they are full."""
    [read] = ports.store.read(run.header_path)
    header = header_of_run(read.data, run)
    if header is None or not header.pages:
        return
    node = counter_tree.last_of_level_2(header.pages)
    [lowest] = ports.store.read(run.node_path(node))
    continue_from(ports, run, node, lowest, header)


def _passing(run: BatchRun, node: Node, child: int, failures: int) -> Change:
    return Change(run.node_path(node), {(PASSED, str(child)): failures})


# --- ends ---


def complete(ports: Ports, run: BatchRun) -> None:
    """End a batch whose units all have an outcome."""
    failed = counting.units_in(ports, run, "failed")
    end(ports, run, lambda header: ends.completion(header, failed))


def end_if_too_many_failed(ports: Ports, run: BatchRun) -> None:
    """End a batch in which more units failed than it tolerates."""
    counts = counting.counts(ports, run)
    end(ports, run, lambda header: ends.failure_end(header, counts))


def end(ports: Ports, run: BatchRun, decide_end: Callable[[Header], BatchEnd | None]) -> Header | None:
    """End a batch that has not ended, if `decide_end` returns how; enqueue what follows from its end.

    Returns the header after that, or None if the run is over. One commit guarded by the header: a batch ends once.
    """

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Header | None]:
        header = header_of_run(read[0].data, run)
        batch_end = None if header is None or header.ended else decide_end(header)
        if header is None or batch_end is None:
            return Decision((), header)
        ended = header.ended_with(batch_end, read[0].read_time)
        write = Put(run.header_path, ended.to_record(), read[0].guard)
        return Decision((write,), ended, ended.end_effects(run, read[0].read_time))

    header, _ = perform(ports, [run.header_path], decide)
    return header
