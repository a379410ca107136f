"""Faults of batch-1 and batch-2: a redelivered unit propagates along the whole path; the seal's check and its order."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from signalbox.batches.machine.lifecycle import Decided
from signalbox.batches.machine.units import may_overwrite
from signalbox.batches.model import tree
from signalbox.batches.model.headers import Counts, Header, header_of_run
from signalbox.batches.model.tree import PASSED, BatchRun, Counter, Node
from signalbox.batches.model.units import PlacedUnit, UnitOutcome, UnitRecord
from signalbox.batches.requests import SealRequest
from signalbox.batches.service import propagation
from signalbox.batches.storage import read_header
from signalbox.core.effects import Decision
from signalbox.core.ports import AlreadyExists, Change, Increment, Must, Ports, Put, Snapshot
from tests.simulation.faults.batches.planting import in_batches, in_batches_together
from tests.simulation.faults.points import original

propagate_counter = original("batches.propagate_counter")
propagate_node = original("batches.propagate_node")
continue_from = propagation.continue_from
propagate_if_full = original("batches.propagate_if_full")
complete_again = original("batches.complete_again")
sealing = original("batches.seal_writes")
seal = original("batches.seal")
end = original("batches.ended_batch")


# --- batch-1 ---


def _done_once_recorded(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> None:
    """A unit with an outcome propagates nothing."""
    [held] = ports.store.read(unit.path)
    if held.data is not None and may_overwrite(UnitRecord.from_record(held.data), unit):
        complete_again(ports, unit, outcome)


def _one_level_only(ports: Ports, run: BatchRun, counter: Counter) -> None:
    """A counter that was propagated before is not propagated again, and nothing above it."""
    [node] = ports.store.read(run.node_path(Node(1, counter.page)))
    if node.data is None or str(counter.number) not in node.data[PASSED]:
        propagate_counter(ports, run, counter)


def _two_levels_only(ports: Ports, run: BatchRun, node: Node, failures: int) -> None:
    """A node that was propagated before is not propagated again, and nothing above it."""
    [parent] = ports.store.read(run.node_path(tree.parent(node)))
    if parent.data is None or str(node.index) not in parent.data[PASSED]:
        propagate_node(ports, run, node, failures)


def _counted_apart(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> bool:
    """The outcome in one commit, the count in another."""
    try:
        ports.store.commit([Put(unit.path, UnitRecord(unit, outcome).to_record(), Must.NOT_EXIST)])
    except AlreadyExists:
        return False
    failure = int(outcome.state == "failed")
    change = Change(unit.counter_path, {tree.UNITS: Increment(1), tree.FAILURES: Increment(failure)})
    counted = ports.store.commit([change]).results[0].values
    propagate_if_full(ports, unit, unit.counter.counted(counted[tree.UNITS], counted[tree.FAILURES]))
    return True


# --- batch-2 ---


def _header_read_first(ports: Ports, run: BatchRun, node: Node, failures: int) -> None:
    """The header is read before the node is propagated."""
    parent = tree.parent(node)
    [header] = ports.store.read(run.header_path)
    ports.store.commit([propagation.passing(run, parent, node.index, failures)])
    [read] = ports.store.read(run.node_path(parent))
    continue_from(ports, run, parent, read, header_of_run(header.data, run))


def _node_read_first(ports: Ports, run: BatchRun, node: Node, failures: int) -> None:
    """The parent is read before the write, and the child added to what was read."""
    parent = tree.parent(node)
    read, header = ports.store.read(run.node_path(parent), run.header_path)
    ports.store.commit([propagation.passing(run, parent, node.index, failures)])
    if read.data is not None:
        read = replace(read, data={**read.data, PASSED: {**read.data[PASSED], str(node.index): failures}})
    continue_from(ports, run, parent, read, header_of_run(header.data, run))


def _no_check(run: BatchRun, header: Header, read: tuple[Snapshot, ...], count: int) -> Any:
    decision = sealing(run, header, read, count)
    return replace(decision, effects=tuple(effect for effect in decision.effects if effect.task != "check"))


def _checked_once(ports: Ports, batch: str, request: SealRequest) -> Any:
    """The process that seals checks, and may crash before; a repeat of the seal does not check."""
    run, header = read_header(ports, batch)
    status = seal(ports, batch, request)
    if header.state == "open":
        propagation.check_right_edge(ports, run)
    return status


def _empty_stays_sealed(
    run: BatchRun, header: Header, state: Any, counts: Counts, now: datetime, *more: Any
) -> Decided:
    return Decision(header, None) if counts.size == 0 else end(run, header, state, counts, now, *more)


def _first_of_level_2(pages: int) -> Node:
    """The check reads the first of the lowest nodes, not the last."""
    del pages
    return Node(2, 0)


FAULTS = (
    in_batches("batch-1", "propagating when the outcome exists", "batches.complete_again", _done_once_recorded),
    in_batches("batch-1", "propagating the whole path", "batches.propagate_counter", _one_level_only),
    in_batches("batch-1", "propagating above the page", "batches.propagate_node", _two_levels_only),
    in_batches("batch-1", "outcome and count in one commit", "batches.create_outcome in units", _counted_apart),
    in_batches("batch-1", "propagating what is full", "batches.propagate_if_full", lambda *_: None),
    in_batches("batch-2", "the check after the seal", "batches.check_right_edge", lambda *_: None),
    in_batches_together(
        "batch-2",
        "the check in the seal's commit",
        ("batches.seal_writes", _no_check),
        ("batches.seal", _checked_once),
        ("batches.seal in population", _checked_once),
    ),
    in_batches("batch-2", "the check of the last node", "batches.last_of_level_2", _first_of_level_2),
    in_batches("batch-2", "reading the header after the write", "batches.propagate_node", _header_read_first),
    in_batches("batch-2", "reading the node after the write", "batches.propagate_node", _node_read_first),
    in_batches("batch-2", "completing an empty batch in the seal", "batches.ended_batch", _empty_stays_sealed),
)
