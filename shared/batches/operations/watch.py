"""Read what has happened to a batch since a position: its outcomes in the order of their commits, and its end.

The header is read before the outcomes. So a batch that had ended then has no outcome of its end behind them.
"""

from datetime import datetime

from shared.batches.operations.headers import no_such_batch
from shared.batches.rules import watch as rules
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.header import Header, header_of_run
from shared.batches.rules.outcomes import UnitRecord
from shared.batches.rules.watch import ENDED_AT, Ended, News, Position
from shared.core.operations.ports import Condition, Order, Ports, Query, Snapshot
from shared.core.operations.record_sizes import is_full
from shared.core.rules.limits import LIMITS

FIELD = (ENDED_AT,)


def read_on(ports: Ports, run: BatchRun, start: Position) -> News:
    """Read the outcomes committed after a position, at most a page of them. Raises `NotFound`."""
    header, read = _header(ports, run)
    found: list[Ended] = []
    query = _query(run, start)
    while True:
        page = ports.store.query(query)
        found += _behind(start, page)
        full = is_full(query, page)
        end = rules.end_of(read.read_time, _ended_at(page[-1]) if full else None)
        outcomes = rules.between(start, end, found)
        if outcomes or not full:
            return News(start, max(start, end), header, outcomes, caught_up=not (full or rules.any_behind(end, found)))
        query = _query(run, start, after=page[-1])


def _header(ports: Ports, run: BatchRun) -> tuple[Header, Snapshot]:
    [read] = ports.store.read(run.header_path)
    header = header_of_run(read.data, run)
    if header is None:
        raise no_such_batch(run.batch)
    return header, read


def _query(run: BatchRun, start: Position, after: Snapshot | None = None) -> Query:
    where = () if start.since is None else (Condition(FIELD, ">=", start.since),)
    return Query(
        run.units_path,
        where,
        (Order(FIELD),),
        LIMITS.watch_page,
        () if after is None else (_ended_at(after), after.id),
        LIMITS.read_bytes_max,
    )


def _behind(start: Position, page: tuple[Snapshot, ...]) -> list[Ended]:
    """Return the outcomes of a page that were committed after a position: the others need not be held."""
    return [ended for one in page if (ended := _read(one)).position > start]


def _read(one: Snapshot) -> Ended:
    assert one.data is not None, "a query finds only records that exist"
    assert one.update_time is not None, "a record that exists has one"
    record = UnitRecord.from_record(one.data)
    return Ended(Position(one.update_time, record.unit.index), _ended_at(one), record)


def _ended_at(one: Snapshot) -> datetime:
    assert one.data is not None, "a query finds only records that exist"
    ended_at: datetime = one.data[ENDED_AT]
    return ended_at
