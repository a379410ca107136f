"""Load pages: one commit creates the page, its counters and the task that expands it, or nothing."""

from collections.abc import Sequence
from typing import Any

from shared.batches.operations.headers import read_header
from shared.batches.rules import counter_tree
from shared.batches.rules import pages as rules
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.counter_tree import Node
from shared.batches.rules.header import Header
from shared.batches.rules.pages import Page
from shared.batches.rules.requests import PageRequest
from shared.batches.rules.tree_records import CounterRecord, NodeRecord, PageNode
from shared.core.operations import outbox
from shared.core.operations.ports import AlreadyExists, Must, Ports, Put, Write
from shared.core.rules.problems import BatchSealed, TooLarge


def add_page(ports: Ports, batch: str, request: PageRequest) -> bool:
    """Load the next page of a batch; return whether it is new. Raises the `Problem` that refuses it."""
    run, header = read_header(ports, batch)
    request.check(header.task)
    number = request.page
    if not rules.takes_pages(header, number):
        return _repeated(ports, run, request)
    previous = ports.store.read(run.page_path(number - 1))[0].data if number else None
    first = rules.first_index(header, number, rules.loaded(previous))
    return load(ports, run, header, number, first, request.units)


def _repeated(ports: Ports, run: BatchRun, request: PageRequest) -> bool:
    [held] = ports.store.read(run.page_path(request.page))
    if held.data is None:
        raise BatchSealed("The batch is sealed, has ended, or is being created.", field="page")
    rules.check_repeat(rules.loaded(held.data), request.page, request.units)
    return False


def load(ports: Ports, run: BatchRun, header: Header, number: int, first: int, units: Sequence[Any]) -> bool:
    """Commit a page with its counters and its expansion; return False if the same page exists.

    Raises `OtherBody`, `BatchSealed` or `TooLarge`.
    """
    if number >= counter_tree.pages_max():
        raise TooLarge(f"A batch has at most {counter_tree.pages_max():,} pages.", field="page")
    effects = () if header.task is None else (run.effect_for("expand", number, page=number),)
    try:
        outbox.commit(ports, _records(run, header, number, first, units), effects)
    except AlreadyExists:
        [held] = ports.store.read(run.page_path(number))
        rules.check_repeat(rules.loaded(held.data), number, units)
        return False
    return True


def _records(run: BatchRun, header: Header, number: int, first: int, units: Sequence[Any]) -> list[Write]:
    size = len(units)
    page = Page.holding(units, first, header)
    page_node = PageNode(number, first, size, header.failures_max, {})
    nodes = map(run.node_path, counter_tree.nodes_created_by(number))
    counters = [run.counter_path(number, counter) for counter in range(counter_tree.counters(size))]
    return [
        Put(run.page_path(number), page.to_record(), Must.NOT_EXIST),
        Put(run.node_path(Node(1, number)), page_node.to_record(), Must.NOT_EXIST),
        *(Put(node, NodeRecord().to_record(), Must.NOT_EXIST) for node in nodes),
        *(Put(counter, CounterRecord().to_record(), Must.NOT_EXIST) for counter in counters),
    ]
