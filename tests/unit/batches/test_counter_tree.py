"""The tree of counters as arithmetic: every unit has one counter, every node one place above, however many pages."""

import pytest

from signalbox.batches.model import tree
from signalbox.batches.model.tree import Node, PageNode


@pytest.mark.parametrize("page_units", [1, 19, 20, 21, 40, 99, 100])
def test_the_counters_of_a_page_share_its_units_out_and_none_has_more_than_20(page_units: int) -> None:
    counters = PageNode(0, 300, page_units, None).counters()
    shares = [counter.indexes() for counter in counters]
    assert sorted(index for share in shares for index in share) == list(range(300, 300 + page_units))
    assert all(counter.counted(len(share), 0).is_full for counter, share in zip(counters, shares, strict=True))
    assert max(map(len, shares)) <= 20


def test_units_that_run_together_have_different_counters() -> None:
    assert [tree.counter_of(offset, 100) for offset in range(6)] == [0, 1, 2, 3, 4, 0]


@pytest.mark.parametrize("pages", [1, 2, 20, 21, 400, 401, 8_000])
def test_every_page_reaches_the_root_through_nodes_that_wait_for_it(pages: int) -> None:
    root = tree.root(pages)
    for page in {0, pages // 2, pages - 1}:
        node = Node(1, page)
        while node != root:
            above = tree.parent(node)
            assert node.index in tree.children(above, pages)
            node = above


@pytest.mark.parametrize("pages", [1, 20, 21, 399, 8_000])
def test_a_page_that_begins_a_node_creates_it_and_every_node_is_created_once(pages: int) -> None:
    created = [node for page in range(pages) for node in tree.nodes_created_by(page)]
    expected = [Node(level, index) for level in range(2, 5) for index in range(tree.width(level, pages))]
    assert sorted(created, key=str) == sorted(expected, key=str)


def test_before_the_seal_a_node_waits_for_all_the_children_it_can_have() -> None:
    assert list(tree.children(Node(2, 1), None)) == list(range(20, 40))
    assert list(tree.children(Node(2, 1), 23)) == [20, 21, 22]


def test_a_tree_has_at_most_8000_pages_and_no_level_above_its_top() -> None:
    assert tree.pages_max() == 8_000
    assert tree.root(8_000) == Node(4, 0)
    assert tree.is_top(Node(4, 0))
