"""Batches: units of work, and one completion task when all of them have an outcome.

    populate ──► header, pages ──► batch_expand: a task per unit ──► complete_unit ──► counters ──► … ──► on_complete
       seal ──► end mark + sealed header + check ─────────────────────────────────────────────▲

This part creates, loads, seals, shows and cancels batches, and those that belong to others: sub-batches and batches
that follow. `units` enqueues units and records outcomes, `propagation` walks the tree up and ends batches. No step
relies on running once: if a process dies, a repeat of its step or the sweeper completes what it left unfinished.

**Sub-batches.** A unit's task may return a batch, whose end is the unit's outcome. A redelivered task may return
another definition, a result, or an error. So the first sub-batch that is sealed is the unit's work, whatever a later
delivery returns. If a sub-batch was not sealed because the process that loaded it died, it is sealed if all its pages
are loaded; otherwise its definition is lost, and the next one replaces it. The batch that follows another has one id,
made from the other's run.

**Cancelling.** A task per level cancels the sub-batches of a cancelled batch, then theirs. A sub-batch is committed,
then its parent's header is read, then its units are loaded; the parent's end is committed, then its sub-batches are
queried. So at least one of the two sees the other's commit, and no unit of a sub-batch is loaded and never cancelled.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, islice
from typing import Any

from signalbox.batches import storage
from signalbox.batches.limits import LIMITS
from signalbox.batches.machine import lifecycle
from signalbox.batches.machine.units import may_start
from signalbox.batches.model import tree
from signalbox.batches.model.batches import (
    REPLACED,
    BatchStatus,
    Counts,
    EndMark,
    Header,
    Page,
    PageStart,
    cut,
    cut_stream,
    digest,
    header_of,
    header_of_run,
    loaded,
    then_id,
)
from signalbox.batches.model.tree import COLLECTION, BatchRun, Node, NodeRecord, PageNode, header_path
from signalbox.batches.model.units import PlacedUnit, Retries, UnitRecord
from signalbox.batches.problems import BatchSealed, NothingToRun, PageOutOfOrder
from signalbox.batches.requests import (
    BatchesQuery,
    BatchSpec,
    PageRequest,
    RetryRequest,
    SealRequest,
    UnitsQuery,
    check_batch_id,
)
from signalbox.batches.service import propagation
from signalbox.batches.service.units import begin_chains, retry_all, retry_named
from signalbox.core import outbox
from signalbox.core.calls import check_names, declared_parameters
from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.paging import with_prefix
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import AlreadyExists, Must, Ports, Put, Query, Snapshot, Write
from signalbox.core.problems import OtherBody, TooLarge
from signalbox.core.queries import Condition
from signalbox.core.times import microseconds

# --- creating ---


@dataclass(frozen=True, slots=True)
class Populated:
    """The status of a batch, and whether this call created it."""

    status: BatchStatus
    created: bool


def populate(ports: Ports, batch: str, spec: BatchSpec, parent: PlacedUnit | None = None) -> Populated:
    """Create a batch with its first units, and seal it if the spec says so. A repeat finishes a call that died.

    The end of a batch with a `parent` completes that unit. Raises `OtherBody` if the id is used with another spec.
    """
    pages = cut(spec.units)
    run, header, created = _create(ports, check_batch_id(batch), spec, len(pages), parent)
    if header.state == "open" and parent and not parent_is_live(ports, parent):
        header = end_with_parent(ports, run) or header
    if header.state == "open":
        _load_first_pages(ports, run, header, pages)
    if not spec.sealed or header.ended:
        return Populated(status_of(ports, run, header), created)
    return Populated(seal(ports, batch, SealRequest(len(pages))), created)


def populate_whole(ports: Ports, batch: str, spec: BatchSpec, units: Iterable[dict[str, Any]]) -> BatchStatus:
    """Create and seal a batch with all of its units: in one call if they fit, otherwise page by page as they arrive.

    Each call can be repeated. Raises `OtherBody` if the id is used with other units, and `BadBatch` or `TooLarge` if no
    batch can have the units.
    """
    arriving = iter(units)
    first = list(islice(arriving, LIMITS.call_units_max + 1))
    if len(first) <= LIMITS.call_units_max:
        return populate(ports, batch, replace(spec, units=first, sealed=True)).status
    populate(ports, batch, spec)
    added = add_units(ports, batch, 0, chain(first, arriving))
    return seal(ports, batch, SealRequest(added.page))


def _load_first_pages(ports: Ports, run: BatchRun, header: Header, pages: Sequence[Sequence[Any]]) -> None:
    start = PageStart()
    for number, units in enumerate(pages):
        load_page(ports, run, header, number, start, units)
        start = start.after(len(units), header.per_task)


def _create(
    ports: Ports, batch: str, spec: BatchSpec, first_pages: int, parent: PlacedUnit | None
) -> tuple[BatchRun, Header, bool]:
    run = BatchRun(batch, draw_incarnation(ports))

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, tuple[Header, bool]]:
        [snapshot] = read
        held = None if snapshot.data is None else Header.from_record(snapshot.data)
        new = spec.header(run.incarnation, first_pages, parent, snapshot.read_time)
        decided = lifecycle.create(run, held, new, snapshot.read_time)
        created = decided.answer
        writes = (Put(run.header_path, decided.state.to_record(), Must.NOT_EXIST),) if created else ()
        return Decision(writes, (decided.state, created), decided.effects)

    (header, created), _ = perform(ports, [run.header_path], decide)
    return BatchRun(batch, header.incarnation), header, created


def draw_incarnation(ports: Ports) -> str:
    return ports.store.new_id()


# --- loading pages ---


def add_page(ports: Ports, batch: str, request: PageRequest) -> bool:
    """Load the next page of a batch; return whether it is new. Raises the `Problem` that refuses it."""
    run, header = storage.read_header(ports, batch)
    request.check(header)
    number = request.page
    if not lifecycle.takes_pages(header, number):
        return _repeated(ports, run, request)
    return load_page(ports, run, header, number, _page_start(ports, run, header, number), request.units)


@dataclass(frozen=True, slots=True)
class Appended:
    """The number of the page after those of a call, the number of their units, and whether any of them is new."""

    page: int
    units: int
    created: bool


def add_units(ports: Ports, batch: str, first_page: int, units: Iterable[Any]) -> Appended:
    """Cut units into pages as they arrive, and load these under the numbers from `first_page` on.

    At most one page of units is in memory. A repeat with the same units finds the pages. Raises the `Problem` that
    refuses a page; the pages before it are loaded then.
    """
    run, header = storage.read_header(ports, batch)
    number, start, unit_count, created = first_page, None, 0, False
    for number, page in enumerate(cut_stream(units), first_page):
        request = PageRequest(number, page)
        request.check(header)
        if not lifecycle.takes_pages(header, number):
            _repeated(ports, run, request)
        else:
            start = _page_start(ports, run, header, number) if start is None else start
            created |= load_page(ports, run, header, number, start, page)
            start = start.after(len(page), header.per_task)
        unit_count += len(page)
    return Appended(number + bool(unit_count), unit_count, created)


def _page_start(ports: Ports, run: BatchRun, header: Header, number: int) -> PageStart:
    previous = ports.store.read(run.page_path(number - 1))[0].data if number else None
    return lifecycle.page_start(header, number, loaded(previous))


def _repeated(ports: Ports, run: BatchRun, request: PageRequest) -> bool:
    """Check that the page exists with these units, and return False, since it is not new. Raises a `Problem`."""
    [held] = ports.store.read(run.page_path(request.page))
    if held.data is None:
        raise BatchSealed("The batch is sealed, has ended, or is being created.", field="page")
    lifecycle.check_repeat(loaded(held.data), request.page, request.units)
    return False


def load_page(ports: Ports, run: BatchRun, header: Header, number: int, start: PageStart, units: Sequence[Any]) -> bool:
    """Commit a page with its counters and the task that expands it. Return False if the same page exists.

    Raises `OtherBody`, `BatchSealed` or `TooLarge`.
    """
    if number >= tree.pages_max():
        raise TooLarge(f"A batch has at most {tree.pages_max():,} pages.", field="page")
    effects = () if header.task is None else (run.effect_for("expand", number, page=number),)
    try:
        outbox.commit(ports, _page_records(run, header, number, Page.holding(units, start, header)), effects)
    except AlreadyExists:
        [held] = ports.store.read(run.page_path(number))
        lifecycle.check_repeat(loaded(held.data), number, units)
        return False
    return True


def _page_records(run: BatchRun, header: Header, number: int, page: Page) -> list[Write]:
    """Return the writes of a page. Each record comes after the records that its readers look for next."""
    of_groups = page.per_task, page.first_group
    page_node = PageNode(number, page.first, page.size, header.failures_max, {}, *of_groups)
    nodes = map(run.node_path, tree.nodes_created_by(number))
    return [
        *(Put(run.counter_path(counter), counter.to_record(), Must.NOT_EXIST) for counter in page_node.counters()),
        *(Put(node, NodeRecord().to_record(), Must.NOT_EXIST) for node in nodes),
        Put(run.node_path(Node(1, number)), page_node.to_record(), Must.NOT_EXIST),
        Put(run.page_path(number), page.to_record(), Must.NOT_EXIST),
    ]


# --- sealing ---


def seal(ports: Ports, batch: str, request: SealRequest) -> BatchStatus:
    """Close a batch at this number of pages. Raises `PageOutOfOrder` or `BatchSealed`, or `NotFound`.

    The commit writes the end mark under the next page's number, and contains the check, a task that propagates what was
    full before the seal. A batch without units completes here.
    """
    run, _ = storage.read_header(ports, batch)
    pages = request.pages
    paths = [run.header_path, run.page_path(pages), *([run.page_path(pages - 1)] if pages else [])]

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Header]:
        header = header_of_run(read[0].data, run)
        if header is None:
            raise storage.no_such_batch(batch)
        return _sealing(run, header, read, pages)

    header, _ = perform(ports, paths, decide)
    return status_of(ports, run, header)


def _sealing(run: BatchRun, header: Header, read: tuple[Snapshot, ...], pages: int) -> Decision[Writes, Header]:
    end, last = loaded(read[1].data), loaded(read[-1].data)
    decided = lifecycle.seal(run, header, pages, end, last, read[0].read_time)
    if decided.state == header:
        return Decision((), header)
    mark = Put(run.page_path(pages), EndMark().to_record(), Must.NOT_EXIST)
    ends = storage.completion_writes(decided.effects, read[0].read_time)
    writes = (Put(run.header_path, decided.state.to_record(), read[0].guard), mark, *ends)
    return Decision(writes, decided.state, decided.effects)


# --- showing and cancelling ---


def get(ports: Ports, batch: str) -> BatchStatus:
    """Return the status of a batch. Raises `NotFound`."""
    return status_of(ports, *storage.read_header(ports, batch))


def status_of(ports: Ports, run: BatchRun, header: Header) -> BatchStatus:
    """Return the status of a run, with the counts of its end or the present ones."""
    if header.ended:
        return BatchStatus.of_ended(run.batch, header)
    if header.size is not None:
        page_count, size = header.pages, header.size
    else:
        page_count, size = storage.count_loaded(ports, run)
    counts = storage.read_counts_of(ports, run, size) if size else Counts(0, 0, 0)
    follows = then_id(run.batch, header)
    return BatchStatus(run.batch, header.state, counts, page_count, then=follows, task=header.task)


@dataclass(frozen=True, slots=True)
class BatchesPage:
    """The headers of a page of batches by their ids. `more` is the token of the next page as the answer shows it."""

    headers: Mapping[str, Header]
    more: Mapping[str, str]


def find(ports: Ports, request: BatchesQuery) -> BatchesPage:
    """Return a page of the batches, from their headers alone, without those that are being removed."""
    listing = request.listing
    of_state = (Condition(("state",), "==", request.state),) if request.state else ()
    where = (*of_state, *with_prefix(listing.prefix))
    found = ports.store.query(Query(COLLECTION, where, limit=listing.limit, after=listing.after))
    headers = {snapshot.id: header for snapshot in found if (header := header_of(snapshot.data))}
    return BatchesPage(headers, listing.next_page([snapshot.id for snapshot in found]))


def cancel(ports: Ports, batch: str) -> BatchStatus:
    """End a batch and its sub-batches, so that units that have not started do not run. Raises `NotFound`."""
    run, _ = storage.read_header(ports, batch)
    counts = storage.read_counts(ports, run)
    header = propagation.end_batch(ports, run, lambda header, now: lifecycle.cancel(run, header, counts, now))
    if header is None:
        raise storage.no_such_batch(batch)
    return status_of(ports, run, header)


def cancel_sub_batches(ports: Ports, run: BatchRun, after: str, rate: str = "") -> None:
    """Cancel a page of a batch's sub-batches, by id, once the task for the next page is enqueued.

    If its units wait for a `rate`, the task that ends their waits is enqueued, too.
    """
    if rate:
        ports.queue.create([lifecycle.drop_task(run, rate)])
    of_this = (Condition(("parent_run",), "==", run.key),)
    limit = LIMITS.batches_sweep_page
    found = ports.store.query(Query(COLLECTION, of_this, limit=limit, after=(after,) if after else ()))
    if len(found) == limit:
        ports.queue.create([run.effect_for("cancel", found[-1].id, after=found[-1].id)])
    for snapshot in found:
        header = Header.from_record(snapshot.data or {})
        if not header.ended:
            end_with_parent(ports, BatchRun(snapshot.id, header.incarnation))


def end_with_parent(ports: Ports, run: BatchRun) -> Header | None:
    """End a sub-batch whose parent's batch was cancelled."""
    counts = storage.read_counts(ports, run)
    return propagation.end_batch(ports, run, lambda header, now: lifecycle.end_with_parent(run, header, counts, now))


def parent_is_live(ports: Ports, parent: PlacedUnit) -> bool:
    """Return whether a unit still waits for its sub-batch, since its batch has not ended."""
    return may_start(storage.read_header_of_run(ports, parent.run), parent.attempt)


# --- showing and retrying units ---


@dataclass(frozen=True, slots=True)
class UnitsPage:
    """Units with an outcome, in the order of their indexes; units of the next page may have indexes between these.

    `next_page_token` is empty on the last page.
    """

    units: list[UnitRecord]
    next_page_token: str = ""


def list_units(ports: Ports, batch: str, query: UnitsQuery) -> UnitsPage:
    """Return a page of units with an outcome. Raises `NotFound`."""
    run, _ = storage.read_header(ports, batch)
    found = storage.read_outcomes(ports, run, query.state, query.after)
    listed = [UnitRecord.from_record(read.data) for read in found if read.data is not None]
    is_full = len(listed) == LIMITS.units_listed_max
    by_index = sorted(listed, key=lambda record: record.unit.index)
    return UnitsPage(by_index, str(listed[-1].unit.index) if is_full else "")


def outcomes_of(ports: Ports, batch: str, query: UnitsQuery) -> Iterator[UnitRecord]:
    """Iterate over all units with an outcome, in the order of their records' ids, with one page of them in memory.

    Raises `NotFound`; while iterating, `Unavailable`.
    """
    run, _ = storage.read_header(ports, batch)
    return storage.iterate_outcomes(ports, run, query.state, query.after)


def retry(ports: Ports, batch: str, request: RetryRequest, key: str = "") -> None:
    """Enqueue retries of units that failed; the same request under the same `key` enqueues nothing more.

    Raises `NothingToRun`, `BatchSealed`, `BadArgument` or `NotFound`.
    """
    run, header, now = storage.read_header_at(ports, batch)
    if header.task is None:
        raise NothingToRun("The batch has no task: its units are completed from outside.")
    if header.state == "cancelled":
        raise BatchSealed("The batch was cancelled, so its units cannot be retried.")
    check_names(declared_parameters(), replace(header.task, payload=request.payload), "payload")
    indexes = None if request.units is None else sorted(set(request.units))
    call = digest(key, indexes, request.payload) if key else ports.store.new_id()
    retries = Retries(call, microseconds(now), request.payload)
    if header.concurrency is not None:
        begin_chains(ports, run, retries, header.concurrency, indexes)
    elif indexes is None:
        ports.queue.create([retry_all(run, retries, -1)])
    else:
        ports.queue.create(retry_named(run, retries, indexes))


# --- sub-batches, and batches that follow ---


def populate_sub_batch(ports: Ports, unit: PlacedUnit, spec: BatchSpec) -> None:
    """Create and seal a unit's sub-batch, or keep the one that it has. Raises `TooLarge` or `Unavailable`."""
    for number in count():  # at most one for each start of the unit's task
        batch = unit.sub_batch_id(number)
        try:
            reason = populate(ports, batch, spec, unit).status.reason
        except (OtherBody, BatchSealed):
            reason = _seal_or_replace(ports, batch)
        if reason != REPLACED:
            return


def _seal_or_replace(ports: Ports, batch: str) -> str:
    """Seal a sub-batch with the pages of its header, or else end it as replaced. Return the reason for its end."""
    [read] = ports.store.read(header_path(batch))
    header = header_of(read.data)
    if header is None or header.state != "open":
        return header.reason if header else ""
    try:
        return seal(ports, batch, SealRequest(header.first_pages)).reason
    except (PageOutOfOrder, BatchSealed):
        return _replace(ports, BatchRun(batch, header.incarnation))


def _replace(ports: Ports, run: BatchRun) -> str:
    counts = storage.read_counts(ports, run)
    header = propagation.end_batch(ports, run, lambda header, now: lifecycle.replace_sub(run, header, counts, now))
    return header.reason if header else ""


def populate_next(ports: Ports, run: BatchRun) -> None:
    """Create the batch that follows one that succeeded. A repeat finishes a call that died.

    If the batch that succeeded is a sub-batch, the one that follows completes the parent's unit in its place.
    """
    header = storage.read_header_of_run(ports, run)
    if header is not None and header.ended:
        spec = BatchSpec.from_then(header.then)
        following = replace(spec, on_failure=spec.on_failure or header.on_failure)
        populate(ports, run.then_id, following, header.parent)
