"""Reads beyond a single call: pages that end by their size in bytes, records that are due, polling.

Pages end early by the size of their records, so that the memory of one request is bounded in bytes.
"""

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import accumulate, repeat
from typing import Any, TypeVar

from signalbox.core.limits import LIMITS
from signalbox.core.ports import Change, Clock, Conflict, OutOfTime, Ports, Query, Snapshot, Store
from signalbox.core.problems import Unavailable
from signalbox.core.queries import Order
from signalbox.core.record_values import map_bytes


def snapshot_bytes(snapshot: Snapshot) -> int:
    """Return the size of a record's fields; 0 if it does not exist."""
    return map_bytes(snapshot.data) if snapshot.data else 0


def is_full(query: Query, page: Sequence[Snapshot]) -> bool:
    """Return whether a page may have ended before the last matching record: by its number, or by its bytes."""
    return len(page) >= query.limit or (
        query.bytes_max is not None and sum(map(snapshot_bytes, page)) >= query.bytes_max
    )


def count_fitting(snapshots: Sequence[Snapshot], bytes_max: int) -> int:
    """Return the number of records, from the first on, that are kept when reading ends at `bytes_max`."""
    total = 0
    for count, snapshot in enumerate(snapshots, 1):
        total += snapshot_bytes(snapshot)
        if total >= bytes_max:
            return count
    return len(snapshots)


def due_records(
    store: Store,
    collection: str,
    due_at: str,
    page_max: int,
    out_of_time: OutOfTime,
    delay: timedelta = timedelta(0),
) -> Iterator[Snapshot]:
    """Iterate over the records that are due when this starts, by their field `due_at` and a `delay` after it.

    The longest due is first.

    Every visit of a record must move its time past now, so the record is queued after all that are due. Then no record
    starves: it waits only for those that were due before it. If none is due, this costs one read.
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
    """Queue a record that cannot be read behind those that are due, for some minutes; another commit may be faster."""
    time = snapshot.read_time + timedelta(seconds=LIMITS.unreadable_pause_seconds)
    with suppress(Conflict, Unavailable):
        ports.store.commit([Change(snapshot.path, {(due_at,): time}, snapshot.guard)])


def _is_due(snapshot: Snapshot, due_at: str, now: datetime) -> bool:
    """Return whether a record is due. One whose field is not a time is: its visit has to set one."""
    time = _time(snapshot, due_at)
    return not isinstance(time, datetime) or time <= now


def _time(snapshot: Snapshot, due_at: str) -> Any:
    assert snapshot.data is not None, "a query finds only records that exist"
    return snapshot.data[due_at]


FIRST_PAUSES_SECONDS = (0.1, 0.2, 0.4)

PAUSE_SECONDS = 1.0

T = TypeVar("T")


def poll(clock: Clock, read: Callable[[], T], is_there: Callable[[T], bool], seconds: float) -> T:
    """Read until `is_there` holds, for at most `seconds`; return the last value read. Raises what `read` raises."""
    return poll_again(clock, read(), read, is_there, seconds)


def poll_again(
    clock: Clock,
    found: T,
    read: Callable[[], T],
    is_there: Callable[[T], bool],
    seconds: float,
    first_pauses: Sequence[float] = FIRST_PAUSES_SECONDS,
) -> T:
    """Poll as `poll` does, but start with the value `found`, which was just read."""
    for pause in _pauses(first_pauses, seconds):
        if is_there(found):
            break
        clock.sleep(pause)
        found = read()
    return found


def _pauses(first: Sequence[float], seconds: float) -> list[float]:
    """Return the pauses between reads, within `seconds` in all."""
    pauses = [*first, *repeat(PAUSE_SECONDS, round(seconds))]
    return pauses[: bisect(list(accumulate(pauses)), seconds)]
