"""The table in the docstring of `machine.lifecycle` for the counter tree, row by row, and the records of the tree."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from signalbox.batches.machine import lifecycle as machine
from signalbox.batches.machine.lifecycle import NextStep
from signalbox.batches.model.headers import Header
from signalbox.batches.model.tree import BatchRun, Counter, Node, NodeRecord, PageNode, children
from signalbox.batches.model.units import PlacedUnit
from tests.unit.batches.tables import Row, rows_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def header(pages: int | None) -> Header:
    state: Any = "open" if pages is None else "sealed"
    return Header(incarnation="i", digest="", deadline_at=NOW, due_at=NOW, first_pages=0, state=state, pages=pages)


def passed(count: int, first: int = 0) -> dict[str, int]:
    return {str(child): 0 for child in range(first, first + count)}


NODES: dict[tuple[str, str], tuple[Node, int | None]] = {
    ("below root", "open"): (Node(2, 1), None),
    ("below root", "sealed"): (Node(2, 1), 23),
    ("root", "sealed"): (Node(3, 0), 23),
    ("highest", "open"): (Node(4, 0), None),
}
"""A node of each kind by the header's state, and the number of pages."""

TABLE = [
    replace(row, condition=state)
    for row in rows_of(machine, "page", "below root", "root", "highest")
    for state in row.condition.split(", ")
]


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_each_row_of_the_table_holds(row: Row) -> None:
    assert {step.name.lower() for step in steps(row)} == {*row.outcome}


def steps(row: Row) -> list[NextStep]:
    """Return the results for a node whose children are full, and for the node with each one missing."""
    if row.command == "page":
        page = PageNode(3, 300, 45, None, passed(3))
        return [machine.step_of_page(replace(page, passed=present)) for present in present_in(page.passed, row.state)]
    node, pages = NODES[row.command, row.condition]
    every = {str(child): 0 for child in children(node, pages)}
    return [machine.step_of_node(node, NodeRecord(some), header(pages)) for some in present_in(every, row.state)]


def present_in(every: Mapping[str, int], state: str) -> list[Mapping[str, int]]:
    if state == "full":
        return [every]
    return [{child: 0 for child in every if child != missing} for missing in every]


def test_the_table_has_every_kind_of_node() -> None:
    kinds = {("page", "open"), ("page", "sealed"), *NODES}
    assert {(row.command, row.condition, row.state) for row in TABLE} == {
        (*kind, state) for kind in kinds for state in ("full", "missing")
    }


@pytest.mark.parametrize(
    ("node", "children", "pages", "step"),
    [
        (Node(2, 0), passed(19), None, NextStep.WAIT),
        (Node(2, 0), passed(20), None, NextStep.PROPAGATE),
        (Node(2, 0), passed(19), 20, NextStep.WAIT),
        (Node(2, 0), passed(20), 20, NextStep.COMPLETE),
        (Node(2, 0), passed(3), 3, NextStep.COMPLETE),
        (Node(2, 1), passed(3, 20), 23, NextStep.PROPAGATE),
        (Node(3, 0), passed(1), 23, NextStep.WAIT),
        (Node(3, 0), passed(2), 23, NextStep.COMPLETE),
        (Node(4, 0), passed(20), None, NextStep.WAIT),
        (Node(4, 0), passed(20), 8_000, NextStep.COMPLETE),
    ],
)
def test_a_full_node_is_propagated_and_a_full_root_completes_the_batch(
    node: Node, children: dict[str, int], pages: int | None, step: NextStep
) -> None:
    assert machine.step_of_node(node, NodeRecord(children), header(pages)) is step


def test_a_page_node_lacks_counters_adds_up_failures_and_survives_its_record() -> None:
    node = PageNode(page=3, first=300, units=100, failures_max=2, passed={"0": 2, "4": 1})
    assert PageNode.from_record(node.to_record()) == node
    missing = [counter.number for counter in node.missing_counters()]
    assert (missing, node.failures, node.end) == ([1, 2, 3], 3, 400)


def test_a_page_node_gives_a_unit_its_place_by_its_index() -> None:
    unit = PlacedUnit.on_page(BatchRun("b", "i"), PageNode(3, 300, 100, None), 342, None)
    assert (unit.index, unit.page, unit.offset, unit.page_units) == (342, 3, 42, 100)
    assert unit.counter == Counter(3, 2, 300, 100)


@pytest.mark.parametrize(("finished", "full"), [(20, True), (19, False)])
def test_a_counter_is_full_when_all_its_units_have_an_outcome(finished: int, full: bool) -> None:
    counter = Counter(page=3, number=1, first=300, page_units=100).counted(finished, 0)
    assert counter.is_full is full
    assert replace(counter, finished=0).with_record(counter.to_record()) == counter
    assert counter.indexes()[:3] == [301, 306, 311]
