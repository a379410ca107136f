"""Populate and cancel batches that belong to others: sub-batches of units, and batches that follow.

**Sub-batches.** A unit's task may return a batch, whose end is the unit's outcome. A redelivered task may return
another definition, a result, or an error. So the first sub-batch that is stored completely is the unit's work, whatever
a later delivery returns. If it was not sealed because the process that loaded it died, the next delivery seals it, and
does not run the code. If pages are missing, the definition is lost: the next sub-batch replaces it, or the sweeper ends
it once the unit has another outcome. The batch that follows another has a single id, which is derived from the other's
run.

**Cancelling.** A task per level cancels the sub-batches of a cancelled batch, then theirs. A sub-batch is committed,
then its parent's header is read, then its units are loaded; the parent's end is committed, then its sub-batches are
queried. So at least one of the two sees the other's commit, and no unit of a sub-batch is loaded and never cancelled.
"""

from contextlib import suppress
from itertools import count

from signalbox.batches import storage
from signalbox.batches.limits import LIMITS
from signalbox.batches.machine import lifecycle
from signalbox.batches.machine.units import may_overwrite
from signalbox.batches.model.headers import REPLACED, Header, header_of, header_of_run
from signalbox.batches.model.large_values import place_of_batch
from signalbox.batches.model.tree import COLLECTION, BatchRun, header_path
from signalbox.batches.model.units import PlacedUnit, UnitRecord
from signalbox.batches.problems import BatchSealed, PageOutOfOrder
from signalbox.batches.requests import BatchFollowing, BatchSpec, SealRequest
from signalbox.batches.service import propagation
from signalbox.batches.service.lifecycle import seal
from signalbox.batches.service.population import end_with_parent, populate
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import Ports, Query, Snapshot
from signalbox.core.problems import NotFound, OtherBody
from signalbox.core.records.queries import Condition
from signalbox.payloads.service import opening_those_of


def cancel_sub_batches(ports: Ports, run: BatchRun, after: str, rate: str = "") -> None:
    """Cancel a page of a batch's sub-batches, by id, once the task for the next page is enqueued.

    If the batch's units wait for a `rate`, the task that ends their waits is also enqueued.
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


def populate_sub_batch(ports: Ports, unit: PlacedUnit, spec: BatchSpec) -> None:
    """Create and seal a unit's sub-batch, unless the unit has one. Raises `TooLarge` or `Unavailable`."""
    for number in count():  # at most one for each start of the unit's task
        batch = unit.sub_batch_id(number)
        try:
            reason = populate(ports, batch, spec, unit).status.reason
        except (OtherBody, BatchSealed):
            reason = _seal_or_replace(ports, batch)
        if reason != REPLACED or _has_outcome(ports, unit):
            return


def has_sub_batch(ports: Ports, unit: PlacedUnit, first: Header | None) -> bool:
    """Return whether a unit has a sub-batch that is stored completely. `first` is the header of its first one."""
    _, header = stored_sub_batch(ports, unit, first)
    return header is not None and header.state != "open"


def stored_sub_batch(ports: Ports, unit: PlacedUnit, first: Header | None) -> tuple[str, Header | None]:
    """Return the id and the header of a unit's sub-batch, sealed if all of its pages are loaded.

    `first` is the header of the unit's first sub-batch.
    """
    batch, header = storage.last_sub_batch(ports, unit, first)
    if header is None or header.state != "open":
        return batch, header
    with suppress(PageOutOfOrder, BatchSealed, NotFound):
        seal(ports, batch, SealRequest(header.first_pages))
    return batch, storage.read_header_of_run(ports, BatchRun(batch, header.incarnation))


def end_if_lost(ports: Ports, run: BatchRun, header: Header, unit: PlacedUnit) -> bool:
    """End a sub-batch for which its unit does not wait. Return whether it has ended.

    It is open, and no delivery will seal it; or the parent's batch was cancelled, and the task that tells its
    sub-batches was lost.
    """
    held, read = ports.store.read(unit.path, unit.run.header_path)
    parent = header_of_run(read.data, unit.run)
    if header.state == "open" and _is_outcome(held, unit):
        replace_sub_batch(ports, run)
    elif parent is None or parent.state == "cancelled":
        end_with_parent(ports, run)
    else:
        return False
    return True


def _has_outcome(ports: Ports, unit: PlacedUnit) -> bool:
    [held] = ports.store.read(unit.path)
    return _is_outcome(held, unit)


def _is_outcome(held: Snapshot, unit: PlacedUnit) -> bool:
    return held.data is not None and not may_overwrite(UnitRecord.from_record(held.data), unit)


def _seal_or_replace(ports: Ports, batch: str) -> str:
    """Seal a sub-batch with the pages of its header, or else end it as replaced. Return the reason for its end."""
    [read] = ports.store.read(header_path(batch))
    header = header_of(read.data)
    if header is None or header.state != "open":
        return header.reason if header else ""
    try:
        return seal(ports, batch, SealRequest(header.first_pages)).reason
    except (PageOutOfOrder, BatchSealed):
        return replace_sub_batch(ports, BatchRun(batch, header.incarnation))


def replace_sub_batch(ports: Ports, run: BatchRun) -> str:
    """Cancel a sub-batch that another one, or another outcome, replaces. Return the reason from its header."""
    counts = storage.read_counts(ports, run)
    header = propagation.end_batch(ports, run, lambda header, now: lifecycle.replace_sub(run, header, counts, now))
    return header.reason if header else ""


def populate_next(ports: Ports, run: BatchRun) -> None:
    """Create the batch that follows a batch that succeeded. A repeat finishes an interrupted call.

    If the batch that succeeded is a sub-batch, the following batch completes the parent, a unit, in its place.
    """
    header = storage.read_header_of_run(ports, run)
    if header is not None and header.ended:
        with opening_those_of(ports, place_of_batch(run)):
            spec = BatchFollowing.from_then(header.then)
        following = replace(spec, on_failure=spec.on_failure or header.settings.on_failure)
        populate(ports, run.then_id, following, header.parent)
