"""Enqueue units, record their outcomes, and enqueue the units that wait for them.

A unit's outcome takes one commit: its record is created and its counter incremented, and the commit's answer contains
the new count. Only the process that fills a counter does more. A redelivered unit finds its record and propagates along
the whole path, in case that process died.

In a batch that limits its `concurrency`, a unit's outcome is committed, then the next unit of its chain is enqueued,
then its delivery is acknowledged. A page is committed, then its expansion reads which of the units before its own have
an outcome. So at least one of the two sees the other's commit. If both do, they create one task, since it has one name.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from signalbox.batches import storage
from signalbox.batches.limits import LIMITS
from signalbox.batches.machine import units as machine
from signalbox.batches.machine.lifecycle import end_tasks
from signalbox.batches.machine.watch import ENDED_AT
from signalbox.batches.model.groups import Group
from signalbox.batches.model.headers import header_of
from signalbox.batches.model.large_values import claimed_outcome
from signalbox.batches.model.pages import Page, loaded
from signalbox.batches.model.tree import FAILURES, UNITS, BatchRun, Counter, header_path
from signalbox.batches.model.units import FirstRuns, GroupRuns, PlacedUnit, Retries, UnitOutcome, UnitRecord, first_runs
from signalbox.batches.service import groups, propagation, sub_batches
from signalbox.core.effects import Effect
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import pause
from signalbox.core.ports import (
    SERVER_TIME,
    AlreadyExists,
    Change,
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
from signalbox.core.problems import NotFound, Unavailable
from signalbox.core.records.queries import Condition
from signalbox.payloads.model import Outgoing
from signalbox.payloads.service import store as store_payloads

AHEAD = "ahead"
"""The field of a unit that was completed from outside before its chain reached it."""

RETRIED_BY = "retried_by"
"""The field of a unit with the calls that have retried it."""


# --- outcomes ---


def complete_unit(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> None:
    """Record a unit's outcome once, and enqueue the unit that waits for it. If the batch was removed, do nothing.

    A large result is stored before. Raises `Unavailable`.
    """
    outcome = stored_outcome(ports, unit, outcome)
    try:
        if not create_outcome(ports, unit, outcome):
            complete_again(ports, unit, outcome)
        follow(ports, unit)
    except RecordMissing:
        ports.log.info("batch not found, unit dropped", batch=unit.batch, unit=unit.index)


def stored_outcome(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> UnitOutcome:
    """Store a large result. Return the outcome as the unit's record contains it. Raises `Unavailable`."""
    outgoing = Outgoing()
    named = claimed_outcome(unit, outcome, outgoing)
    store_payloads(ports, outgoing)
    return named


def create_outcome(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> bool:
    """Commit the outcome and the count. Return False if the unit has an outcome already."""
    record = Put(unit.path, _ended_now(unit, outcome), Must.NOT_EXIST)
    count = Change(unit.counter_path, {UNITS: Increment(1), FAILURES: Increment(int(outcome.state == "failed"))})
    try:
        committed = ports.store.commit([record, count])
    except AlreadyExists:
        return False
    counts = committed.results[1].values
    propagate_if_full(ports, unit, unit.counter.counted(counts[UNITS], counts[FAILURES]))
    return True


def _ended_now(unit: PlacedUnit, outcome: UnitOutcome) -> Data:
    """Return the record of an outcome, with the time by which watchers find it."""
    ahead = {AHEAD: True} if isinstance(unit.chain, FirstRuns) and not unit.chain.is_reached else {}
    return {**UnitRecord(unit, outcome).to_record(), **ahead, ENDED_AT: SERVER_TIME}


def propagate_if_full(ports: Ports, unit: PlacedUnit, counter: Counter) -> None:
    """Add a unit's counter to the counts above it if all units of the counter have an outcome."""
    if counter.is_full:
        propagation.propagate_counter(ports, unit.run, counter)


def complete_again(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> None:
    """Handle an outcome for a unit that has one. A later attempt may overwrite a failure; every delivery propagates."""
    for attempt in range(CORE_LIMITS.rounds_max):
        held, counter = ports.store.read(unit.path, unit.counter_path)
        if held.data is None or counter.data is None:
            return None
        mark_reached(ports, unit, held.data)
        may_overwrite = machine.may_overwrite(UnitRecord.from_record(held.data), unit)
        if not may_overwrite or overwrite_failure(ports, unit, outcome, held):
            return propagate_if_full(ports, unit, unit.counter.with_record(counter.data))
        pause(ports, attempt)
    raise Unavailable("contention on a unit's record")


def mark_reached(ports: Ports, unit: PlacedUnit, held: Data) -> None:
    """Record that a chain has reached a unit with an outcome, so that a page that is loaded later continues it."""
    if held.get(AHEAD) and isinstance(unit.chain, FirstRuns) and unit.chain.is_reached:
        ports.store.commit([Change(unit.path, {(AHEAD,): False})])


def overwrite_failure(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome, held: Snapshot) -> bool:
    """Overwrite a failure, if its record has not changed. No counter changes, because the unit is counted already."""
    assert held.data is not None, "an outcome is overwritten"
    kept: dict[str, Any] = {AHEAD: True} if held.data.get(AHEAD) else {}
    if calls := machine.retried_by(UnitRecord.from_record(held.data), unit):
        kept[RETRIED_BY] = list(calls)
    try:
        ports.store.commit([Put(unit.path, {**_ended_now(unit, outcome), **kept}, held.guard)])
    except Stale:
        return False
    return True


# --- deliveries ---


def need_not_run(ports: Ports, unit: PlacedUnit, *, is_repeated: bool) -> bool:
    """Return whether a delivered unit need not run, since it has its outcome, or a sub-batch that will be its outcome.

    A first delivery checks this only in a batch that limits its `concurrency`. There the unit may have been completed
    from outside, or its task may have been created again after its name was free.
    """
    if not is_repeated and not (isinstance(unit.chain, FirstRuns) and _has_outcome(ports, unit)):
        return False
    return resume_unit(ports, unit)


def _has_outcome(ports: Ports, unit: PlacedUnit) -> bool:
    [record] = ports.store.read(unit.path)
    return record.data is not None


def unit_is_live(ports: Ports, unit: PlacedUnit) -> bool:
    """Return whether a unit may start: its batch has not ended, or it is completed and this is a retry."""
    return machine.may_start(storage.read_header_of_run(ports, unit.run), unit.attempt)


def resume_unit(ports: Ports, unit: PlacedUnit) -> bool:
    """Return whether a redelivered unit need not run: it has its outcome, or a sub-batch that will be its outcome.

    If it has its outcome, propagate along its path, and enqueue the unit that waits for it.
    """
    held, counter, child = ports.store.read(unit.path, unit.counter_path, header_path(unit.sub_batch_id()))
    if counter.data is None:
        return True
    if held.data is None or machine.may_overwrite(UnitRecord.from_record(held.data), unit):
        return sub_batches.has_sub_batch(ports, unit, header_of(child.data))
    try:
        mark_reached(ports, unit, held.data)
        propagate_if_full(ports, unit, unit.counter.with_record(counter.data))
        follow(ports, unit)
    except RecordMissing:
        ports.log.info("batch not found, unit dropped", batch=unit.batch, unit=unit.index)
    return True


# --- for callers ---


def complete_by_index(ports: Ports, batch: str, index: int, outcome: UnitOutcome) -> None:
    """Record the outcome of the unit with an index, and enqueue the unit that waits for it. Raises `NotFound`.

    If the unit's chain has not reached it, the record is marked (`AHEAD`), and the chain continues once it reaches the
    unit.
    """
    unit = find_unit(ports, batch, index)
    complete_unit(ports, placed_ahead(ports, unit), outcome)


def placed_ahead(ports: Ports, unit: PlacedUnit) -> PlacedUnit:
    """Return the unit, marked as reached by its chain only if the unit before it has an outcome and was reached."""
    if not isinstance(unit.chain, FirstRuns) or (before := unit.index - unit.chain.concurrency) < 0:
        return unit
    [record] = ports.store.read(unit.run.unit_path(before))
    return replace(unit, chain=replace(unit.chain, is_reached=is_followed(record)))


def is_followed(record: Snapshot) -> bool:
    """Return whether a unit has an outcome and was reached by its chain, so that the next unit may run."""
    return record.data is not None and not record.data.get(AHEAD)


def find_unit(ports: Ports, batch: str, index: int) -> PlacedUnit:
    """Return a unit with its place, and the chain of its first attempt. Raises `NotFound`.

    A grouped unit has no chain here: the task of its group continues the chain later.
    """
    run, header = storage.read_header(ports, batch)
    page = storage.find_page_node(ports, run, index)
    if page is None:
        raise NotFound(f"The batch {batch!r} has no unit {index}.", field="index")
    return PlacedUnit.on_page(
        run, page, index, None if header.settings.per_task else first_runs(header.settings.concurrency)
    )


# --- enqueuing units ---


def expand_page(ports: Ports, run: BatchRun, number: int) -> None:
    """Enqueue a task for each unit, or group, of a page that may run now. A repeat finds the tasks' names taken."""
    [read] = ports.store.read(run.page_path(number))
    page = None if read.data is None else Page.from_record(read.data)
    if page is not None and page.per_task is not None:
        groups.expand(ports, run, number, page, read)
    elif page is not None and page.task is not None:
        placed = ready(ports, page, page.units(run, number))
        ports.queue.create(tasks_of(placed, [read]))


def repeat_page(ports: Ports, run: BatchRun, number: int) -> None:
    """Enqueue again, for a page's units without an outcome, their tasks and the ends of their sub-batches.

    Both may be lost. A task that still exists has the same name, so it is not created twice.
    """
    [read] = ports.store.read(run.page_path(number))
    page = None if read.data is None else Page.from_record(read.data)
    if page is None or page.task is None or not unit_is_live(ports, page.units(run, number)[0]):
        return
    placed = page.units(run, number)
    records = ports.store.read(*(unit.path for unit in placed))
    missing = [unit for unit, record in zip(placed, records, strict=True) if record.data is None]
    if not missing:
        return
    children = ports.store.read(*(header_path(unit.sub_batch_id()) for unit in missing))
    ends: list[Effect] = []
    lost: list[PlacedUnit] = []
    for unit, child in zip(missing, children, strict=True):
        id_, header = sub_batches.stored_sub_batch(ports, unit, header_of(child.data))
        if header is None or header.state == "open":
            lost.append(unit)
        elif header.ended:
            ended = BatchRun(id_, header.incarnation)
            ends += [task for task in end_tasks(ended, header, child.read_time) if task.task in ("then", "child")]
    if page.per_task is not None:
        of_groups = groups.lost(ports, run, number, page, lost)
        ports.queue.create([*ends, *machine.group_tasks(of_groups, page, read.read_time)])
        return
    ports.queue.create([*ends, *tasks_of(ready(ports, page, lost), [read])])
    chains = {unit.index % page.concurrency: unit for unit in reversed(lost)} if page.concurrency else {}
    for first in chains.values():
        repeat_ahead(ports, first)


def repeat_ahead(ports: Ports, unit: PlacedUnit) -> None:
    """Enqueue the task that continues a unit's chain, if units before it were completed from outside.

    The task is that of the first such unit, behind a unit that the chain has reached: the chain stopped there.
    """
    assert isinstance(unit.chain, FirstRuns), "only chains have units that are completed ahead"
    ahead, before = None, unit.index - unit.chain.concurrency
    for _ in range(LIMITS.page_units_max):
        [record] = ports.store.read(unit.run.unit_path(before)) if before >= 0 else [None]
        if record is None or record.data is None or not record.data.get(AHEAD):
            is_reached = record is None or record.data is not None
            break
        ahead, before = before, before - unit.chain.concurrency
    else:
        return
    if ahead is not None and is_reached:
        _run_next(ports, unit, ahead)


def ready(ports: Ports, page: Page, units: Sequence[PlacedUnit]) -> list[PlacedUnit]:
    """Return the units of a new page that may run now: the first of a chain, and those after a unit with an outcome."""
    limit = page.concurrency
    if limit is None:
        return list(units)
    later = [unit for unit in units if unit.index >= limit]
    before = ports.store.read(*(unit.run.unit_path(unit.index - limit) for unit in later)) if later else ()
    due = [unit for unit, previous in zip(later, before, strict=True) if is_followed(previous)]
    return [unit for unit in units if unit.index < limit] + due


def follow(ports: Ports, unit: PlacedUnit) -> None:
    """Enqueue the next unit of the chain of a unit that has an outcome. Raises `Unavailable`, which is retried."""
    match unit.chain:
        case FirstRuns(concurrency, is_reached=True):
            _run_next(ports, unit, unit.index + concurrency)
        case GroupRuns() as chain:
            groups.follow_unit(ports, Group.of_unit(unit, chain))
        case Retries() as chain if chain.is_chain:
            retry_next(ports, unit.run, chain.behind(unit.run.unit_id(unit.index)))


def _run_next(ports: Ports, unit: PlacedUnit, index: int) -> None:
    """Enqueue the unit `index` if its page is loaded. If not, the page's expansion will enqueue the unit."""
    found = _page_with(ports, unit, index)
    if found is not None:
        number, page, read = found
        following = page.units(unit.run, number)[index - page.first]
        ports.queue.create(tasks_of([following], [read]))


def _page_with(ports: Ports, unit: PlacedUnit, index: int) -> tuple[int, Page, Snapshot] | None:
    """Return the number of the page that has a unit, and the page.

    One read finds that page if the pages from the unit's own page to it have the same size.
    """
    guessed = unit.page + (index - unit.index + unit.offset) // unit.page_units
    node = None
    if (found := _page(ports, unit.run, guessed, index)) is None:
        node = storage.find_page_node(ports, unit.run, index)
    return found if node is None else _page(ports, unit.run, node.page, index)


def _page(ports: Ports, run: BatchRun, number: int, index: int) -> tuple[int, Page, Snapshot] | None:
    [read] = ports.store.read(run.page_path(number))
    page = loaded(read.data)
    return (number, page, read) if isinstance(page, Page) and page.holds(index) else None


def tasks_of(units: Sequence[PlacedUnit], read: Sequence[Snapshot], retries: Retries | None = None) -> list[Effect]:
    """Return the tasks of units, with the payloads of the pages read and the changed arguments of `retries`."""
    pages = {snapshot.path: page for snapshot in read if isinstance(page := loaded(snapshot.data), Page)}
    return machine.unit_tasks(units, pages, retries, read[0].read_time)


# --- retries ---


def retry_next(ports: Ports, run: BatchRun, chain: Retries, looks: int = 0) -> None:
    """Enqueue the next retry of a chain, if it still contains a unit that failed before the retry was requested.

    If the retry's task or its sub-batch exists already, it may belong to another call, whose arguments it has and whose
    chain alone it continues. So this chain looks again later; `looks` is the number of times that it has looked at the
    unit with which it begins.
    """
    for following, rest in _failed_units(ports, run, chain):
        unit = following.next_attempt(rest)
        page, child = ports.store.read(unit.page_path, header_path(unit.sub_batch_id()))
        has_begun = sub_batches.has_sub_batch(ports, unit, header_of(child.data))
        if has_begun or ports.queue.create(tasks_of([unit], [page], chain)):
            look_again(ports, unit, looks if machine.chain_from(unit) == chain else 0)
        return


def look_again(ports: Ports, unit: PlacedUnit, looks: int = 0) -> None:
    """Enqueue a task that looks again at a unit later, and continues the unit's chain if its retry has ended by then.

    Each pause is twice as long as the last, up to a limit, so a unit that waits for hours costs a few looks. Looks of
    one call at one unit that are due at about the same time share one task.
    """
    if not isinstance(unit.chain, Retries):
        return
    again = {"chain": machine.chain_from(unit).to_record()}
    enqueue_look(ports, unit.run, looks, unit.chain, unit.operation, **again)


def enqueue_look(ports: Ports, run: BatchRun, looks: int, retries: Retries, *parts: str, **payload: Any) -> None:
    """Enqueue a task that looks again at retries of a batch after a pause, unless they have become pointless."""
    header, now = storage.read_header_of_run_at(ports, run)
    if machine.may_start(header, attempt=1):
        due_at = now + timedelta(seconds=min(LIMITS.look_again_seconds * 2**looks, LIMITS.look_again_seconds_max))
        period = int(2 * due_at.timestamp() // LIMITS.look_again_seconds)
        look = machine.retry_task(run, retries, *parts, period, **payload, looks=looks + 1)
        ports.queue.create([replace(look, not_before=due_at)])


def _failed_units(ports: Ports, run: BatchRun, chain: Retries) -> Iterator[tuple[PlacedUnit, Retries]]:
    """Iterate over the units of a chain to retry, each with the part of the chain after it."""
    found = _units_in_range(ports, run, chain) if chain.rest is None else _named_units(ports, run, chain)
    for snapshot, rest in found:
        if (record := failure_to_retry(snapshot, chain)) is not None:
            yield record.unit, rest


def failure_to_retry(snapshot: Snapshot, retries: Retries) -> UnitRecord | None:
    """Return the record of the unit if it is to be retried: it had failed before the call, which has not retried it."""
    record = None if snapshot.data is None else UnitRecord.from_record(snapshot.data)
    if record is None or record.outcome.state != "failed" or retries.call in record.retried_by:
        return None
    return record if record.unit.attempt or retried_since(snapshot, retries) else None


def retried_since(snapshot: Snapshot, retries: Retries) -> bool:
    """Return whether a call that retries failures was made after a unit's first failure was recorded."""
    assert snapshot.data is not None, "a unit that failed has a record"
    assert snapshot.update_time is not None, "a record that exists has one"
    recorded_at = snapshot.update_time
    if snapshot.data.get(AHEAD) is False:  # its chain has reached it since, and updated the record
        recorded_at = snapshot.data.get(ENDED_AT, recorded_at)
    return machine.is_retried_by(retries, recorded_at)


def _named_units(ports: Ports, run: BatchRun, chain: Retries) -> Iterator[tuple[Snapshot, Retries]]:
    while chain.rest:
        first, chain = chain.rest[0], chain.shortened()
        yield ports.store.read(run.unit_path(first))[0], chain


def _units_in_range(ports: Ports, run: BatchRun, chain: Retries) -> Iterator[tuple[Snapshot, Retries]]:
    """Iterate over the failed units in a chain's range: query one unit, which usually must be retried, then pages."""
    failed, limit = (Condition(("state",), "==", "failed"),), 1
    while page := ports.store.query(Query(run.units_path, failed, limit=limit, after=(chain.after,))):
        for snapshot in page:
            if snapshot.id > chain.until:
                return
            chain = chain.behind(snapshot.id)
            yield snapshot, chain
        limit = LIMITS.units_listed_max
