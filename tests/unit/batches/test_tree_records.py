"""What follows from a node of the tree, by its children and the header."""

from datetime import UTC, datetime
from typing import Any

import pytest

from shared.batches.rules import tree_records
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.counter_tree import Node
from shared.batches.rules.header import Header
from shared.batches.rules.tree_records import Counter, CounterRecord, NextStep, NodeRecord, PageNode

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def header(pages: int | None) -> Header:
    state: Any = "open" if pages is None else "sealed"
    return Header(incarnation="i", digest="", deadline_at=NOW, due_at=NOW, first_pages=0, state=state, pages=pages)


def passed(count: int, first: int = 0) -> dict[str, int]:
    return {str(child): 0 for child in range(first, first + count)}


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
    assert tree_records.next_step(node, NodeRecord(children), header(pages)) is step


def test_a_page_node_lacks_counters_adds_up_failures_and_survives_its_record() -> None:
    node = PageNode(page=3, first=300, units=100, failures_max=2, passed={"0": 2, "4": 1})
    assert PageNode.from_record(node.to_record()) == node
    assert (node.missing_counters(), node.failures, node.end) == ([1, 2, 3], 3, 400)


def test_a_page_node_finds_its_units_by_index() -> None:
    node = PageNode(3, 300, 100, None, {})
    unit = node.unit(BatchRun("b", "i"), 342)
    assert unit
    assert (unit.index, unit.page, unit.offset, unit.page_units) == (342, 3, 42, 100)
    assert node.unit(BatchRun("b", "i"), 400) is None


@pytest.mark.parametrize(("finished", "full"), [(20, True), (19, False)])
def test_a_counter_is_full_when_all_its_units_have_an_outcome(finished: int, full: bool) -> None:
    counter = Counter(page=3, number=1, first=300, page_units=100, counted=CounterRecord(finished))
    assert counter.full is full
    assert counter.indexes()[:3] == [301, 306, 311]
