"""Record the outcomes of units, and list them.

One commit a unit: its record is created and its counter incremented; the commit's answer carries the new count. Only
who fills a counter does more. A redelivered unit finds its record and propagates the whole path, in case that one died.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from shared.batches.operations import chains, counting, propagation
from shared.batches.operations.headers import read_header
from shared.batches.rules import ends, outcomes, tree_records
from shared.batches.rules.batch_run import BatchRun, header_path
from shared.batches.rules.chains import first_runs
from shared.batches.rules.header import REPLACED, Header, header_of, header_of_run
from shared.batches.rules.outcomes import UnitOutcome, UnitRecord
from shared.batches.rules.queries import UnitsQuery
from shared.batches.rules.tree_records import CounterRecord
from shared.batches.rules.units import PlacedUnit
from shared.batches.rules.watch import ENDED_AT
from shared.core.operations.perform import pause
from shared.core.operations.ports import (
    SERVER_TIME,
    AlreadyExists,
    Change,
    Condition,
    Data,
    Increment,
    Must,
    Ports,
    Put,
    Query,
    RecordMissing,
    Snapshot,
    Stale,
)
from shared.core.operations.record_sizes import is_full
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NotFound, Unavailable

UNITS, FAILURES = ("units",), ("failures",)
"""The fields of a counter: its units with an outcome, and those of them that failed."""


def complete_unit(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> None:
    """Record a unit's outcome, once, and enqueue the unit that waits for it; a no-op if the batch was removed.

    Raises `Unavailable`.
    """
    try:
        if not _create(ports, unit, outcome):
            _complete_again(ports, unit, outcome)
        chains.follow(ports, unit)
    except RecordMissing:
        ports.log.info("batch not found, unit dropped", batch=unit.batch, unit=unit.index)


def _create(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> bool:
    """Commit the outcome and the count; return False if the unit has an outcome already."""
    record = Put(unit.path, _ended_now(unit, outcome), Must.NOT_EXIST)
    count = Change(unit.counter_path, {UNITS: Increment(1), FAILURES: Increment(int(outcome.state == "failed"))})
    try:
        committed = ports.store.commit([record, count])
    except AlreadyExists:
        return False
    counted = committed.results[1].values
    _propagate_if_full(ports, unit, CounterRecord(counted[UNITS], counted[FAILURES]))
    return True


def _ended_now(unit: PlacedUnit, outcome: UnitOutcome) -> Data:
    """Return the record of an outcome with the time by which watchers find it."""
    return {**UnitRecord(unit, outcome).to_record(), ENDED_AT: SERVER_TIME}


def _propagate_if_full(ports: Ports, unit: PlacedUnit, counted: CounterRecord) -> None:
    if tree_records.counter_is_full(unit.counter, unit.page_units, counted.finished):
        propagation.propagate_counter(ports, unit.run, unit.page, unit.counter, counted.failures)


def _complete_again(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> None:
    """Handle a unit that has an outcome: a later attempt may overwrite a failure; every delivery propagates."""
    for attempt in range(LIMITS.rounds_max):
        held, counter = ports.store.read(unit.path, unit.counter_path)
        if held.data is None or counter.data is None:
            return None
        may_overwrite = outcomes.may_overwrite(UnitRecord.from_record(held.data), unit)
        if not may_overwrite or _overwritten(ports, unit, outcome, held):
            return _propagate_if_full(ports, unit, CounterRecord.from_record(counter.data))
        pause(ports, attempt)
    raise Unavailable("contention on a unit's record")


def _overwritten(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome, held: Snapshot) -> bool:
    """Overwrite a failure under its guard. No counter changes: a failed unit is counted already."""
    try:
        ports.store.commit([Put(unit.path, _ended_now(unit, outcome), held.guard)])
    except Stale:
        return False
    return True


def resume_unit(ports: Ports, unit: PlacedUnit) -> bool:
    """Return whether a redelivered unit need not run: it has its outcome, or a sub-batch that will be its outcome.

    If it has its outcome, this propagates along its path, and enqueues the unit that waits for it.
    """
    held, counter, child = ports.store.read(unit.path, unit.counter_path, header_path(unit.sub_batch_id()))
    if counter.data is None:
        return True
    if held.data is None or outcomes.may_overwrite(UnitRecord.from_record(held.data), unit):
        return _has_sub_batch(ports, unit, header_of(child.data))
    try:
        _propagate_if_full(ports, unit, CounterRecord.from_record(counter.data))
        chains.follow(ports, unit)
    except RecordMissing:
        ports.log.info("batch not found, unit dropped", batch=unit.batch, unit=unit.index)
    return True


def _has_sub_batch(ports: Ports, unit: PlacedUnit, first: Header | None) -> bool:
    """Return whether a unit has a sub-batch that was sealed; `first` is the header of the unit's first."""
    header, number = first, 0
    while header is not None and header.reason == REPLACED:
        number += 1
        [read] = ports.store.read(header_path(unit.sub_batch_id(number)))
        header = header_of(read.data)
    return header is not None and header.state != "open"


def unit_is_live(ports: Ports, unit: PlacedUnit) -> bool:
    """Return whether a unit may start: its batch has not ended, or it is completed and this is a retry."""
    [read] = ports.store.read(unit.run.header_path)
    return ends.unit_is_live(header_of_run(read.data, unit.run), unit.attempt)


def complete_by_index(ports: Ports, batch: str, index: int, outcome: UnitOutcome) -> None:
    """Record the outcome of a unit known by its index, and enqueue the unit that waits for it. Raises `NotFound`."""
    complete_unit(ports, find_unit(ports, batch, index), outcome)


def find_unit(ports: Ports, batch: str, index: int) -> PlacedUnit:
    """Return a unit with its place, and what waits for its first run. Raises `NotFound`."""
    run, header = read_header(ports, batch)
    node = counting.page_of(ports, run, index)
    if node and (unit := node.unit(run, index)):
        return replace(unit, chain=first_runs(header.concurrency))
    raise NotFound(f"The batch {batch!r} has no unit {index}.", field="index")


@dataclass(frozen=True, slots=True)
class UnitsPage:
    """Units with an outcome, in the order of their indexes; those of the next page need not come after them.

    `next_page_token` is empty on the last page.
    """

    units: list[UnitRecord]
    next_page_token: str = ""


def list_units(ports: Ports, batch: str, query: UnitsQuery) -> UnitsPage:
    """Return a page of units with an outcome. Raises `NotFound`."""
    run, _ = read_header(ports, batch)
    listed = read_outcomes(ports, run, query)
    is_full = len(listed) == LIMITS.units_listed_max
    by_index = sorted(listed, key=lambda one: one.unit.index)
    return UnitsPage(by_index, str(listed[-1].unit.index) if is_full else "")


def outcomes_of(ports: Ports, batch: str, query: UnitsQuery) -> Iterator[UnitRecord]:
    """Iterate over all units with an outcome, in the order of their records' ids; a page of them is held at a time.

    Raises `NotFound`; while iterating, `Unavailable`.
    """
    run, _ = read_header(ports, batch)
    return _outcomes(ports, run, _outcomes_query(run, query))


def _outcomes(ports: Ports, run: BatchRun, query: Query) -> Iterator[UnitRecord]:
    while page := ports.store.query(query):
        records = [UnitRecord.from_record(one.data) for one in page if one.data is not None]
        yield from records
        if not is_full(query, page):
            return
        query = replace(query, after=(run.unit_id(records[-1].unit.index),))


def read_outcomes(ports: Ports, run: BatchRun, query: UnitsQuery) -> list[UnitRecord]:
    """Query a page of the records of units, in the order of their ids: that of `spread`, not of their indexes."""
    found = ports.store.query(replace(_outcomes_query(run, query), bytes_max=None))
    return [UnitRecord.from_record(one.data) for one in found if one.data is not None]


def _outcomes_query(run: BatchRun, query: UnitsQuery) -> Query:
    where = (Condition(("state",), "==", query.state),) if query.state else ()
    cursor = () if query.after is None else (run.unit_id(query.after),)
    limit, bytes_max = LIMITS.units_listed_max, LIMITS.read_bytes_max
    return Query(run.units_path, where, limit=limit, after=cursor, bytes_max=bytes_max)
