"""Iterate over the records of a collection that are due, the longest due first.

Whoever visits a record moves its time past now, whatever the visit did, so it comes behind all that are due. Then no
record starves: it waits for those that were due before it, and for no others.
"""

from collections.abc import Iterator
from typing import Any

from shared.core.operations.ports import Order, Query, Snapshot, Store
from shared.core.operations.time_budgets import OutOfTime


def due_records(
    store: Store, collection: str, due_at: str, page_max: int, out_of_time: OutOfTime
) -> Iterator[Snapshot]:
    """Iterate over the records due when this begins, by their field `due_at`. If none is due, it costs one read."""
    order = (Order((due_at,)),)
    first = store.query(Query(collection, order_by=order, limit=1))
    if not first or _time(first[0], due_at) > first[0].read_time:
        return
    began_at, after = first[0].read_time, tuple[Any, ...]()
    while True:
        page = store.query(Query(collection, order_by=order, limit=page_max, after=after))
        for snapshot in page:
            if out_of_time() or _time(snapshot, due_at) > began_at:
                return
            yield snapshot
        if len(page) < page_max:
            return
        after = (_time(page[-1], due_at), page[-1].id)


def _time(snapshot: Snapshot, due_at: str) -> Any:
    assert snapshot.data is not None, "a query finds only records that exist"
    return snapshot.data[due_at]
