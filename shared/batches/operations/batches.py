"""Batches: units of work, and one completion task when all of them have an outcome.

    populate ──► header, pages ──► batch_expand: a task a unit ──► complete_unit ──► counters ──► … ──► on_complete
       seal ──► end mark + sealed header + check ──────────────────────────────────────────▲

`pages` loads, `tasks` expands, `units` records outcomes, `propagation` walks the tree up, `sweep` repairs, times out
and removes. Nothing relies on running once: whoever repeats a step, or the sweeper, finishes what a process that died
left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shared.batches.operations import cancellation, counting, pages, propagation
from shared.batches.operations.headers import no_such_batch, read_header
from shared.batches.rules import ends
from shared.batches.rules import pages as page_rules
from shared.batches.rules.batch_run import COLLECTION, BatchRun, header_path
from shared.batches.rules.header import BatchEnd, Counts, Header, header_of, header_of_run
from shared.batches.rules.pages import EndMark
from shared.batches.rules.queries import BatchesQuery
from shared.batches.rules.requests import BatchSpec, SealRequest, check_batch_id
from shared.batches.rules.status import BatchStatus, header_to_json
from shared.batches.rules.units import PlacedUnit
from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Condition, Must, Ports, Put, Query, Snapshot
from shared.core.rules.effects import Decision
from shared.core.rules.problems import OtherBody, Unavailable


@dataclass(frozen=True, slots=True)
class Populated:
    """The status of a batch, and whether this call created it."""

    status: BatchStatus
    created: bool


def populate(ports: Ports, batch: str, spec: BatchSpec, parent: PlacedUnit | None = None) -> Populated:
    """Create a batch with its first units, and seal it if the spec says so. A repeat finishes a call that died.

    With `parent` the end of this batch completes that unit. Raises `OtherBody` if the id is used with another spec.
    """
    cut = page_rules.cut(spec.units)
    run, header, created = _create(ports, check_batch_id(batch), spec, len(cut), parent)
    if header.state == "open" and parent and not cancellation.parent_goes_on(ports, parent):
        header = cancellation.end_with_parent(ports, run) or header
    if header.state == "open":
        _load_first_pages(ports, run, header, cut)
    if not spec.sealed or header.ended:
        return Populated(status_of(ports, run, header), created)
    return Populated(seal(ports, batch, SealRequest(len(cut))), created)


def _load_first_pages(ports: Ports, run: BatchRun, header: Header, cut: Sequence[Sequence[Any]]) -> None:
    first = 0
    for number, units in enumerate(cut):
        pages.load(ports, run, header, number, first, units)
        first += len(units)


def _create(
    ports: Ports, batch: str, spec: BatchSpec, first_pages: int, parent: PlacedUnit | None
) -> tuple[BatchRun, Header, bool]:
    incarnation = draw_incarnation(ports)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, tuple[Header, bool]]:
        if read[0].data is not None:
            return Decision((), (_repeated(batch, Header.from_record(read[0].data), spec), False))
        deadline_at = read[0].read_time + timedelta(seconds=spec.deadline_seconds)
        header = Header(
            incarnation=incarnation,
            digest=spec.digest(),
            deadline_at=deadline_at,
            due_at=deadline_at,
            first_pages=first_pages,
            task=spec.task,
            on_complete=spec.on_complete,
            failures_max=spec.failures_max,
            parent=parent,
            concurrency=spec.concurrency,
            queues=tuple(spec.queues),
        )
        effects = header.deadline_effects(BatchRun(batch, incarnation), spec.deadline_seconds)
        return Decision((Put(header_path(batch), header.to_record(), Must.NOT_EXIST),), (header, True), effects)

    (header, created), _ = perform(ports, [header_path(batch)], decide)
    return BatchRun(batch, header.incarnation), header, created


def draw_incarnation(ports: Ports) -> str:
    """Return a new incarnation."""
    return ports.store.new_id()


def _repeated(batch: str, held: Header, spec: BatchSpec) -> Header:
    if held.state == "removed":
        raise Unavailable(f"the batch {batch!r} is being removed", retry_after_seconds=60)
    if held.digest != spec.digest():
        raise OtherBody(f"The batch {batch!r} was created with a different body.", field="id")
    return held


def seal(ports: Ports, batch: str, request: SealRequest) -> BatchStatus:
    """Close a batch at this number of pages. Raises `PageOutOfOrder` or `BatchSealed`, or `NotFound`.

    The commit writes the end mark under the next page's number. It carries the check, a task that propagates what was
    full before the seal. A batch without units completes here.
    """
    run, _ = read_header(ports, batch)
    count = request.pages
    paths = [run.header_path, run.page_path(count), *([run.page_path(count - 1)] if count else [])]

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Header]:
        header = header_of_run(read[0].data, run)
        if header is None:
            raise no_such_batch(batch)
        if header.state != "open":
            page_rules.check_sealed_alike(header, count)
            return Decision((), header)
        return _sealing(run, header, read, count)

    header, _ = perform(ports, paths, decide)
    return status_of(ports, run, header)


def _sealing(run: BatchRun, header: Header, read: tuple[Snapshot, ...], count: int) -> Decision[Writes, Header]:
    end, last = (page_rules.loaded(one.data) for one in (read[1], read[-1]))
    size = page_rules.size_at_seal(header, count, end, last)
    now = read[0].read_time
    sealed = header.sealed_at(count, size, now)
    if not size:
        sealed = sealed.ended_with(BatchEnd("completed", Counts(0, 0, 0)), now)
    effects = (run.effect_for("check"),) if size else sealed.end_effects(run, now)
    mark = Put(run.page_path(count), EndMark().to_record(), Must.NOT_EXIST)
    return Decision((Put(run.header_path, sealed.to_record(), read[0].guard), mark), sealed, effects)


def get(ports: Ports, batch: str) -> BatchStatus:
    """Return the status of a batch. Raises `NotFound`."""
    return status_of(ports, *read_header(ports, batch))


@dataclass(frozen=True, slots=True)
class BatchesPage:
    """Batches by id as a list shows them; `more` is the token of the next page as the answer holds it."""

    batches: list[dict[str, Any]]
    more: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the page as people see it."""
        return {"batches": self.batches, **self.more}


def find(ports: Ports, request: BatchesQuery) -> BatchesPage:
    """Return a page of the batches, by their headers alone. Those being removed are left out."""
    where = (Condition(("state",), "==", request.state),) if request.state else ()
    listing = request.listing
    found = ports.store.query(Query(COLLECTION, where, limit=listing.limit, after=listing.after))
    headers = ((one.id, header_of(one.data)) for one in found)
    shown = [header_to_json(id_, header) for id_, header in headers if header]
    return BatchesPage(shown, listing.next_page([one.id for one in found]))


def cancel(ports: Ports, batch: str) -> BatchStatus:
    """End a batch that has not ended, and its sub-batches: units that have not started do not run.

    Raises `NotFound`.
    """
    run, _ = read_header(ports, batch)
    counts = counting.counts(ports, run)
    header = propagation.end(ports, run, lambda _: ends.cancellation(counts))
    if header is None:
        raise no_such_batch(batch)
    return status_of(ports, run, header)


def status_of(ports: Ports, run: BatchRun, header: Header) -> BatchStatus:
    """Return the status of a run with the counts of its end, or those of now."""
    if header.ended:
        return BatchStatus.of_ended(run.batch, header)
    if header.size is not None:
        page_count, size = header.pages, header.size
    else:
        page_count, size = counting.loaded(ports, run)
    counts = counting.counts_of(ports, run, size) if size else Counts(0, 0, 0)
    return BatchStatus(run.batch, header.state, counts, page_count)
