"""Batches: units of work, and one completion task when all of them have an outcome.

    populate ──► header, pages ──► batch_expand: a task per unit ──► complete_unit ──► counters ──► … ──► on_complete
       seal ──► end mark + sealed header + check ─────────────────────────────────────────────▲

This module creates a batch with its first units. `pages` loads further ones, `lifecycle` seals, shows and cancels,
`sub_batches` populates batches that belong to others, `retries` retries failed units, `lists` reads pages of batches
and units, `units` enqueues units and records outcomes, and `propagation` walks up the tree and ends batches. No step
relies on running once: if a process dies, a repeat of its step or the sweeper completes the rest.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

from signalbox.batches import storage
from signalbox.batches.limits import LIMITS
from signalbox.batches.machine import lifecycle
from signalbox.batches.machine.pages import cut
from signalbox.batches.machine.units import may_start
from signalbox.batches.model.headers import BatchStatus, Header
from signalbox.batches.model.large_values import place_of_batch
from signalbox.batches.model.pages import PageStart
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import PlacedUnit
from signalbox.batches.problems import BatchSealed
from signalbox.batches.requests import BatchFollowing, BatchSpec, SealRequest, check_batch_id
from signalbox.batches.service import propagation
from signalbox.batches.service.lifecycle import seal, status_of
from signalbox.batches.service.pages import add_units, load_page
from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Must, Ports, Put, Snapshot
from signalbox.core.problems import Unavailable
from signalbox.payloads.model import Outgoing
from signalbox.payloads.service import store as store_payloads


@dataclass(frozen=True, slots=True)
class Populated:
    """The status of a batch, and whether this call created it."""

    status: BatchStatus
    created: bool


def populate(ports: Ports, batch: str, spec: BatchFollowing, parent: PlacedUnit | None = None) -> Populated:
    """Create a batch with its first units, and seal it if `spec.sealed`. A repeat finishes an interrupted call.

    The end of a batch with a `parent` completes that unit. A batch may end while it is populated; then this is its
    status. Raises `OtherBody` if the id is used with another spec.
    """
    pages = cut(spec.units)
    run, header, created = create_batch(ports, check_batch_id(batch), spec, len(pages), parent)
    if header.state == "open" and parent and not parent_is_live(ports, parent):
        header = end_with_parent(ports, run) or header
    if header.state == "open":
        _load_first_pages(ports, run, header, pages)
    if not spec.sealed or header.ended:
        return Populated(status_of(ports, run, header), created)
    return Populated(seal_unless_ended(ports, batch, len(pages)), created)


def seal_unless_ended(ports: Ports, batch: str, pages: int) -> BatchStatus:
    """Seal a batch that this call populates, unless it has ended meanwhile. Raises what `seal` raises otherwise."""
    try:
        return seal(ports, batch, SealRequest(pages))
    except BatchSealed as refused:
        return status_of_ended(ports, batch, refused)


def status_of_ended(ports: Ports, batch: str, refused: BatchSealed) -> BatchStatus:
    """Return the status of a batch that has ended before it was sealed. Raises `refused` if another call sealed it."""
    run, header = storage.read_header(ports, batch)
    if not header.ended or header.pages is not None:
        raise refused
    return status_of(ports, run, header)


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
    try:
        added = add_units(ports, batch, 0, chain(first, arriving))
    except BatchSealed as refused:
        return status_of_ended(ports, batch, refused)
    return seal_unless_ended(ports, batch, added.page)


def _load_first_pages(ports: Ports, run: BatchRun, header: Header, pages: Sequence[Sequence[Any]]) -> None:
    start = PageStart()
    for number, units in enumerate(pages):
        load_page(ports, run, header, number, start, units)
        start = start.after(len(units), header.settings.per_task)


def create_batch(
    ports: Ports, batch: str, spec: BatchFollowing, first_pages: int, parent: PlacedUnit | None
) -> tuple[BatchRun, Header, bool]:
    """Commit the header of a new run, unless the batch exists. Return the run, its header and whether it is new.

    Large units of the batches that follow are stored before, unless this is a repeat. Raises `TooLarge`.
    """
    run, outgoing = BatchRun(batch, draw_incarnation(ports)), Outgoing()
    then = spec.stored_then(place_of_batch(run), outgoing)
    is_stored = not outgoing or stored_if_new(ports, run, outgoing)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, tuple[Header, bool]]:
        [snapshot] = read
        held = None if snapshot.data is None else Header.from_record(snapshot.data)
        if held is None and not is_stored:
            raise Unavailable("the batch has been removed meanwhile")
        new = spec.header(run.incarnation, first_pages, parent, snapshot.read_time, then)
        decided = lifecycle.create(run, held, new, snapshot.read_time)
        created = decided.answer
        writes = (Put(run.header_path, decided.state.to_record(), Must.NOT_EXIST),) if created else ()
        return Decision(writes, (decided.state, created), decided.effects)

    (header, created), _ = perform(ports, [run.header_path], decide)
    return BatchRun(batch, header.incarnation), header, created


def stored_if_new(ports: Ports, run: BatchRun, outgoing: Outgoing) -> bool:
    """Store the payloads that the header of a new run names, and return True, unless the batch exists."""
    [held] = ports.store.read(run.header_path)
    if held.data is None:
        store_payloads(ports, outgoing)
    return held.data is None


def draw_incarnation(ports: Ports) -> str:
    return ports.store.new_id()


def end_with_parent(ports: Ports, run: BatchRun) -> Header | None:
    """End a sub-batch whose parent's batch was cancelled."""
    counts = storage.read_counts(ports, run)
    return propagation.end_batch(ports, run, lambda header, now: lifecycle.end_with_parent(run, header, counts, now))


def parent_is_live(ports: Ports, parent: PlacedUnit) -> bool:
    """Return whether a unit still waits for its sub-batch, since its batch has not ended."""
    return may_start(storage.read_header_of_run(ports, parent.run), parent.attempt)
