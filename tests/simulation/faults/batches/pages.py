"""Faults of batch-3: pages are contiguous and created once; a page and the seal compete for one record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from signalbox.batches.model.headers import Header
from signalbox.batches.model.pages import Page
from signalbox.batches.model.tree import BatchRun, Node
from signalbox.core.effects import Effect
from signalbox.core.ports import Ports, Snapshot, Write
from tests.simulation.faults.batches.planting import in_batches
from tests.simulation.faults.fault import torn
from tests.simulation.faults.points import original

sealing = original("batches.seal_writes")
records = original("batches.page_writes")
children = original("batches.children")
nodes_created_by = original("batches.nodes_created_by")


def _no_end_mark(run: BatchRun, header: Header, read: tuple[Snapshot, ...], count: int) -> Any:
    decision = sealing(run, header, read, count)
    return replace(decision, state=decision.state[:1])


def _unguarded_page(run: BatchRun, header: Header, number: int, page: Page) -> list[Write]:
    return [replace(write, guard=None) for write in records(run, header, number, page)]


def _page_first(run: BatchRun, header: Header, number: int, page: Page) -> list[Write]:
    return records(run, header, number, page)[::-1]


def _enqueued_after(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Any:
    """Tasks are enqueued after the commit, without an outbox record."""
    committed = ports.store.commit(writes)
    ports.queue.create(effects)
    return committed


def _one_child_before_the_seal(node: Node, pages: int | None) -> range:
    """Before the seal a node is full with the children of a single page."""
    return children(node, 1 if pages is None else pages)


def _root_on_level_2(pages: int) -> Node:
    del pages
    return Node(2, 0)


def _nodes_of_level_2_only(page: int) -> list[Node]:
    return [node for node in nodes_created_by(page) if node.level == 2]


FAULTS = (
    in_batches("batch-3", "the end mark", "batches.seal_writes", _no_end_mark),
    in_batches("batch-3", "pages that must not exist", "batches.page_writes", _unguarded_page),
    in_batches("batch-3", "a page's task in its commit", "core.commit", _enqueued_after),
    torn(in_batches("batch-3", "the page as the last write", "batches.page_writes", _page_first)),
    in_batches("batch-3", "all children before the seal", "batches.children", _one_child_before_the_seal),
    in_batches("batch-3", "the left edge from page 0", "batches.nodes_created_by", _nodes_of_level_2_only),
    in_batches("batch-3", "the root above all pages", "batches.root", _root_on_level_2),
    in_batches("batch-3", "expanding at all", "batches.expand_page", lambda *_: None),
)
