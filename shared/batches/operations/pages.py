"""Load pages: one commit creates the page, its counters and the task that expands it, or nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    return load(ports, run, header, number, _first_index(ports, run, header, number), request.units)


@dataclass(frozen=True, slots=True)
class Appended:
    """The number of the page that follows those of a call, how many units they have, and whether any of them is new."""

    page: int
    units: int
    created: bool


def add_units(ports: Ports, batch: str, first_page: int, units: Iterable[Any]) -> Appended:
    """Cut units into pages as they come, and load them under the numbers from `first_page` on; none are held.

    A repeat of the same units finds the pages. Raises the `Problem` that refuses a page; those before are loaded then.
    """
    run, header = read_header(ports, batch)
    number, first, count, created = first_page, None, 0, False
    for number, page in enumerate(rules.cut_on(units), first_page):
        request = PageRequest(number, page)
        request.check(header.task)
        if not rules.takes_pages(header, number):
            _repeated(ports, run, request)
        else:
            first = _first_index(ports, run, header, number) if first is None else first
            created |= load(ports, run, header, number, first, page)
            first += len(page)
        count += len(page)
    return Appended(number + bool(count), count, created)


def _first_index(ports: Ports, run: BatchRun, header: Header, number: int) -> int:
    previous = ports.store.read(run.page_path(number - 1))[0].data if number else None
    return rules.first_index(header, number, rules.loaded(previous))


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
    """Return the writes of a page, each behind those that are looked for once it is found."""
    size = len(units)
    page = Page.holding(units, first, header)
    page_node = PageNode(number, first, size, header.failures_max, {})
    nodes = map(run.node_path, counter_tree.nodes_created_by(number))
    counters = [run.counter_path(number, counter) for counter in range(counter_tree.counters(size))]
    return [
        *(Put(counter, CounterRecord().to_record(), Must.NOT_EXIST) for counter in counters),
        *(Put(node, NodeRecord().to_record(), Must.NOT_EXIST) for node in nodes),
        Put(run.node_path(Node(1, number)), page_node.to_record(), Must.NOT_EXIST),
        Put(run.page_path(number), page.to_record(), Must.NOT_EXIST),
    ]
