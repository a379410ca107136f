"""Records that are due, in the order of the sweeper's visits: by time, with those that it cannot read last."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from signalbox.core.limits import LIMITS
from signalbox.core.ports import Change, Conflict, OutOfTime, Ports, Query, Snapshot, Store
from signalbox.core.problems import Unavailable
from signalbox.core.records.queries import Order


def due_records(
    store: Store,
    collection: str,
    due_at: str,
    page_max: int,
    out_of_time: OutOfTime,
    delay: timedelta = timedelta(0),
) -> Iterator[Snapshot]:
    """Iterate over the records that are due when this starts, the longest due first.

    A record is due when `delay` has passed since the time in its field `due_at`.

    Every visit must move the record's time past now, so that the record comes after all records that are due. Then no
    record starves: each waits only for the records that were due before it. If no record is due, this costs one read.
    """
    order = (Order((due_at,)),)
    first = store.query(Query(collection, order_by=order, limit=1))
    if not first or not _is_due(first[0], due_at, first[0].read_time - delay):
        return
    began_at, after = first[0].read_time - delay, tuple[Any, ...]()
    while True:
        page = store.query(Query(collection, order_by=order, limit=page_max, after=after))
        for snapshot in page:
            if out_of_time() or not _is_due(snapshot, due_at, began_at):
                return
            yield snapshot
        if len(page) < page_max:
            return
        after = (_time(page[-1], due_at), page[-1].id)


def postpone(ports: Ports, snapshot: Snapshot, due_at: str) -> None:
    """Postpone an unreadable record by a few minutes. If another commit of the record wins the race, do nothing."""
    time = snapshot.read_time + timedelta(seconds=LIMITS.unreadable_pause_seconds)
    with suppress(Conflict, Unavailable):
        ports.store.commit([Change(snapshot.path, {(due_at,): time}, snapshot.guard)])


def _is_due(snapshot: Snapshot, due_at: str, now: datetime) -> bool:
    """Return whether a record is due. A record whose field is not a time is due, so that a visit sets a time."""
    time = _time(snapshot, due_at)
    return not isinstance(time, datetime) or time <= now


def _time(snapshot: Snapshot, due_at: str) -> Any:
    assert snapshot.data is not None, "a query finds only records that exist"
    return snapshot.data[due_at]
