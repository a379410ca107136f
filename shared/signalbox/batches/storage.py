"""Reads of a batch's records: its header, its pages and counts, its units' outcomes, and the news for a watcher.

The tasks that follow a batch's end also have records, until they have run: the sweeper enqueues those that may be lost.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from signalbox.batches.limits import LIMITS
from signalbox.batches.machine import watch
from signalbox.batches.machine.watch import ENDED_AT, Ended, News, Position
from signalbox.batches.model.headers import REPLACED, Counts, Header, header_of, header_of_run
from signalbox.batches.model.tree import COMPLETIONS, BatchRun, PageNode, header_path
from signalbox.batches.model.units import PlacedUnit, UnitRecord, UnitState
from signalbox.core.effects import Effect
from signalbox.core.error_notes import ATTEMPTS, BATCH, retried_task
from signalbox.core.keys import valid_id
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Change, Delete, Must, Ports, Put, Query, Snapshot, is_full
from signalbox.core.problems import NotFound, Unavailable
from signalbox.core.records.queries import Condition, Order
from signalbox.core.surface.shown import RetriedTaskShown

LAST_PAGE_FIRST = Order(("first",), descending=True)
"""The order of a query for the last page. In the collection of counters only pages' nodes have a `first` index, so the
query finds no other record."""

WHEN_ENDED = (ENDED_AT,)


# --- headers ---


def read_header(ports: Ports, batch: str) -> tuple[BatchRun, Header]:
    """Return a batch's present run and its header. Raises `NotFound`."""
    run, header, _ = read_header_at(ports, batch)
    return run, header


def read_header_at(ports: Ports, batch: str) -> tuple[BatchRun, Header, datetime]:
    """Return a batch's present run, its header, and the server's time. Raises `NotFound`.

    The id may be any text of an address: with slashes, it would name another record of a batch.
    """
    if not valid_id(batch):
        raise no_such_batch(batch)
    [read] = ports.store.read(header_path(batch))
    header = header_of(read.data)
    if header is None:
        raise no_such_batch(batch)
    return BatchRun(batch, header.incarnation), header, read.read_time


def read_header_of_run(ports: Ports, run: BatchRun) -> Header | None:
    """Return the header of a run, or None if the run has been removed."""
    return read_header_of_run_at(ports, run)[0]


def read_header_of_run_at(ports: Ports, run: BatchRun) -> tuple[Header | None, datetime]:
    """Return the header of a run (None if the run has been removed) and the server's time."""
    [read] = ports.store.read(run.header_path)
    return header_of_run(read.data, run), read.read_time


def no_such_batch(batch: str) -> NotFound:
    return NotFound(f"There is no batch {batch!r}.", field="id")


def last_sub_batch(ports: Ports, unit: PlacedUnit, first: Header | None) -> tuple[str, Header | None]:
    """Return the id and the header of a unit's sub-batch that no other has replaced.

    `first` is the header of the unit's first sub-batch.
    """
    header, number = first, 0
    while header is not None and header.reason == REPLACED:
        number += 1
        [read] = ports.store.read(header_path(unit.sub_batch_id(number)))
        header = header_of(read.data)
    return unit.sub_batch_id(number), header


# --- pages and counts ---


def count_units(ports: Ports, run: BatchRun, state: UnitState) -> int:
    """Count the units in a state."""
    return ports.store.count(Query(run.units_path, (Condition(("state",), "==", state),)))


def count_loaded(ports: Ports, run: BatchRun) -> tuple[int, int]:
    """Count the pages and the units that are loaded."""
    for last in ports.store.query(Query(run.counters_path, order_by=(LAST_PAGE_FIRST,), limit=1)):
        assert last.data is not None, "a query finds only records that exist"
        node = PageNode.from_record(last.data)
        return node.page + 1, node.end
    return 0, 0


def find_page_node(ports: Ports, run: BatchRun, index: int) -> PageNode | None:
    """Return the node of the page that has the unit with this index, or None if no page has it."""
    up_to = Condition(("first",), "<=", index)
    for found in ports.store.query(Query(run.counters_path, (up_to,), (LAST_PAGE_FIRST,), limit=1)):
        assert found.data is not None, "a query finds only records that exist"
        node = PageNode.from_record(found.data)
        return node if index < node.end else None
    return None


def read_counts(ports: Ports, run: BatchRun) -> Counts:
    """Count all units of a batch, and those with an outcome.

    Pages may be loaded and failures retried meanwhile. In this order the counts are disjoint: a unit that succeeded
    stays so, and a unit with an outcome is loaded.
    """
    succeeded = count_units(ports, run, "succeeded")
    failed = count_units(ports, run, "failed")
    return Counts(count_loaded(ports, run)[1], succeeded, failed)


def read_counts_of(ports: Ports, run: BatchRun, size: int) -> Counts:
    """Count the units with an outcome in a batch of at least `size` units. More may have been loaded meanwhile."""
    succeeded = count_units(ports, run, "succeeded")
    failed = count_units(ports, run, "failed")
    return Counts(max(size, succeeded + failed), succeeded, failed)


# --- outcomes ---


def iterate_outcomes(ports: Ports, run: BatchRun, state: str = "", after: int | None = None) -> Iterator[UnitRecord]:
    """Iterate over units with an outcome, in the order of their records' ids, with one page of them in memory.

    These are the units in `state`, or all, after the unit with the index `after`, or from the first.
    """
    query = _outcomes_query(run, state, after)
    while page := ports.store.query(query):
        records = [UnitRecord.from_record(found.data) for found in page if found.data is not None]
        yield from records
        if not is_full(query, page):
            return
        query = replace(query, after=(run.unit_id(records[-1].unit.index),))


def read_outcomes(ports: Ports, run: BatchRun, state: str = "", after: int | None = None) -> Sequence[Snapshot]:
    """Query one page of units with an outcome, in the order of their records' ids: by `spread`, not by index."""
    return ports.store.query(replace(_outcomes_query(run, state, after), bytes_max=None))


def _outcomes_query(run: BatchRun, state: str, after: int | None) -> Query:
    where = (Condition(("state",), "==", state),) if state else ()
    cursor = () if after is None else (run.unit_id(after),)
    limit, bytes_max = LIMITS.units_listed_max, CORE_LIMITS.read_bytes_max
    return Query(run.units_path, where, limit=limit, after=cursor, bytes_max=bytes_max)


# --- news ---


def read_news(ports: Ports, run: BatchRun, start: Position) -> News:
    """Read the outcomes committed after a position, at most a page of them. Raises `NotFound`.

    The header is read before the outcomes. So if the batch had ended by then, every outcome of its end is found.
    """
    header, read = _read_header_first(ports, run)
    found: list[Ended] = []
    query = _news_query(run, start)
    while True:
        page = ports.store.query(query)
        found += [ended for record in page if (ended := ended_unit(record)).position > start]
        full = is_full(query, page)
        end = watch.end_of(read.read_time, _ended_at(page[-1]) if full else None)
        outcomes = watch.between(start, end, found)
        if outcomes or not full:
            return News(start, max(start, end), header, outcomes, caught_up=not (full or watch.any_after(end, found)))
        query = _news_query(run, start, after=page[-1])


def _read_header_first(ports: Ports, run: BatchRun) -> tuple[Header, Snapshot]:
    [read] = ports.store.read(run.header_path)
    header = header_of_run(read.data, run)
    if header is None:
        raise no_such_batch(run.batch)
    return header, read


def _news_query(run: BatchRun, start: Position, after: Snapshot | None = None) -> Query:
    where = () if start.since is None else (Condition(WHEN_ENDED, ">=", start.since),)
    return Query(
        run.units_path,
        where,
        (Order(WHEN_ENDED),),
        LIMITS.watch_page,
        () if after is None else (_ended_at(after), after.id),
        CORE_LIMITS.read_bytes_max,
    )


def ended_unit(found: Snapshot) -> Ended:
    """Parse the record of a unit that has ended."""
    assert found.data is not None, "a query finds only records that exist"
    assert found.update_time is not None, "a record that exists has one"
    record = UnitRecord.from_record(found.data)
    return Ended(Position(found.update_time, record.unit.index), _ended_at(found), record)


def _ended_at(found: Snapshot) -> datetime:
    assert found.data is not None, "a query finds only records that exist"
    ended_at: datetime = found.data[ENDED_AT]
    return ended_at


# --- completions ---


def completion_writes(effects: Sequence[Effect], now: datetime) -> tuple[Put, ...]:
    """Return the records of the tasks of a batch's end that the sweeper enqueues again unless they have run.

    They are the batch's calls, and the task that creates the batch which follows.
    """
    due_at = now + timedelta(seconds=LIMITS.end_silent_seconds)
    ends = [effect for effect in effects if "batch" in effect.context or effect.task == "then"]
    return tuple(Put(completion_path(effect.name), {"due_at": due_at, "task": effect.to_record()}) for effect in ends)


def completion_path(name: str) -> str:
    return f"{COMPLETIONS}/{name}"


def forget_completion(ports: Ports, name: str) -> None:
    """Delete the record of a task that has run, or was given up. If that fails, the sweeper may enqueue it again."""
    with suppress(Unavailable):
        ports.store.commit([Delete(completion_path(name))])


def repeat_completion(ports: Ports, record: Snapshot) -> None:
    """Enqueue again a task that may be lost, or delete the task's record if the batch ended long ago."""
    assert record.data is not None, "a query finds only records that exist"
    assert record.create_time is not None, "a record that exists has a create time"
    if record.read_time - record.create_time >= timedelta(seconds=LIMITS.batch_keep_seconds):
        ports.store.commit([Delete(record.path, record.guard)])
        return
    due_at = record.read_time + timedelta(seconds=LIMITS.end_silent_seconds)
    ports.store.commit([Change(record.path, {("due_at",): due_at}, record.guard or Must.EXIST)])
    ports.queue.create([Effect.from_record(record.data["task"])])


def last_error_of_batch(ports: Ports, batch: str) -> RetriedTaskShown | None:
    """Return the last error of a unit of a batch that is being retried, or None."""
    counted = ports.store.query(Query(ATTEMPTS, (Condition((BATCH,), "==", batch),), limit=1))
    return next((error for one in counted if (error := retried_task(one.id, one.data))), None)
