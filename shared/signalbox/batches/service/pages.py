"""Load the pages of a batch. Each is created once, and only after the page before it."""

from collections.abc import Iterable, Sequence
from typing import Any

from signalbox.batches import storage
from signalbox.batches.machine import pages
from signalbox.batches.machine.pages import cut_stream
from signalbox.batches.model import tree
from signalbox.batches.model.headers import Header
from signalbox.batches.model.large_values import claimed_units, place_of_batch
from signalbox.batches.model.pages import Page, PageStart, loaded
from signalbox.batches.model.tree import BatchRun, Node, NodeRecord, PageNode
from signalbox.batches.requests import PageRequest
from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import AlreadyExists, Must, Ports, Put, Write
from signalbox.core.problems import TooLarge
from signalbox.payloads.model import Outgoing
from signalbox.payloads.service import store as store_payloads

PAGES_A_LOOK = 100
"""Pages that a call loads before it reads again whether the batch has ended."""


def add_page(ports: Ports, batch: str, request: PageRequest) -> bool:
    """Load the next page of a batch; return whether it is new. Raises the `Problem` that refuses it."""
    run, header = storage.read_header(ports, batch)
    request.check(header)
    number = request.page
    if not pages.takes_pages(header, number):
        return _repeated(ports, run, header, request)
    return load_page(ports, run, header, number, _page_start(ports, run, header, number), request.units)


@dataclass(frozen=True, slots=True)
class Appended:
    """The number after a call's last page, the number of units of the call, and whether any of its pages is new."""

    page: int
    units: int
    created: bool


def add_units(ports: Ports, batch: str, first_page: int, units: Iterable[Any]) -> Appended:
    """Cut units into pages as they arrive, and load the pages under the numbers from `first_page` on.

    At most one page of units is in memory. A repeat with the same units finds the pages. Raises the `Problem` that
    refuses a page; the pages before it are loaded then. The header is read again after every `PAGES_A_LOOK` pages, so
    the load of a large batch ends soon after a cancel.
    """
    run, header = storage.read_header(ports, batch)
    number, start, unit_count, created = first_page, None, 0, False
    for number, page in enumerate(cut_stream(units), first_page):
        request = PageRequest(number, page)
        if number > first_page and number % PAGES_A_LOOK == 0:
            header = _header_now(ports, run)
        request.check(header)
        if not pages.takes_pages(header, number):
            _repeated(ports, run, header, request)
        else:
            start = _page_start(ports, run, header, number) if start is None else start
            created |= load_page(ports, run, header, number, start, page)
            start = start.after(len(page), header.settings.per_task)
        unit_count += len(page)
    return Appended(number + bool(unit_count), unit_count, created)


def _header_now(ports: Ports, run: BatchRun) -> Header:
    header = storage.read_header_of_run(ports, run)
    if header is None:
        raise storage.no_such_batch(run.batch)
    return header


def _page_start(ports: Ports, run: BatchRun, header: Header, number: int) -> PageStart:
    previous = ports.store.read(run.page_path(number - 1))[0].data if number else None
    return pages.page_start(header, number, loaded(previous))


def _repeated(ports: Ports, run: BatchRun, header: Header, request: PageRequest) -> bool:
    """Check that the page exists with these units, and return False, since it is not new. Raises a `Problem`."""
    [held] = ports.store.read(run.page_path(request.page))
    if held.data is None:
        raise pages.not_loaded(header)
    pages.check_repeat(loaded(held.data), request.page, request.units)
    return False


def load_page(ports: Ports, run: BatchRun, header: Header, number: int, start: PageStart, units: Sequence[Any]) -> bool:
    """Commit a page with its counters and the task that expands it. Return False if the same page exists.

    Raises `OtherBody`, `BatchSealed` or `TooLarge`.
    """
    if number >= tree.pages_max():
        raise TooLarge(f"A batch has at most {tree.pages_max():,} pages.", field="page")
    effects = () if header.settings.task is None else (run.effect_for("expand", number, page=number),)
    outgoing = Outgoing()
    stored = claimed_units(units, header.settings.task, place_of_batch(run), outgoing)
    try:
        page = Page.holding(units, start, header, stored if outgoing else None)
        commit_page(ports, page_writes(run, header, number, page), effects, outgoing)
    except AlreadyExists:
        [held] = ports.store.read(run.page_path(number))
        pages.check_repeat(loaded(held.data), number, units)
        return False
    return True


def commit_page(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect], outgoing: Outgoing) -> None:
    """Store the payloads of a page, and commit it. Raises `AlreadyExists`, `Unavailable`."""
    store_payloads(ports, outgoing)
    outbox.commit(ports, writes, effects)


def page_writes(run: BatchRun, header: Header, number: int, page: Page) -> list[Write]:
    """Return the writes of a page. Each record comes after the records that its readers look for next."""
    of_groups = page.per_task, page.first_group
    page_node = PageNode(number, page.first, page.size, header.settings.failures_max, {}, *of_groups)
    nodes = map(run.node_path, tree.nodes_created_by(number))
    return [
        *(Put(run.counter_path(counter), counter.to_record(), Must.NOT_EXIST) for counter in page_node.counters()),
        *(Put(node, NodeRecord().to_record(), Must.NOT_EXIST) for node in nodes),
        Put(run.node_path(Node(1, number)), page_node.to_record(), Must.NOT_EXIST),
        Put(run.page_path(number), page.to_record(), Must.NOT_EXIST),
    ]
