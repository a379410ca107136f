"""Sizes of records as read, and pages that end early by them: what one request holds in memory is bounded in bytes."""

from collections.abc import Sequence

from shared.core.operations.ports import Query, Snapshot
from shared.core.rules.record_values import map_bytes


def size_bytes(snapshot: Snapshot) -> int:
    """Return the size of a record's fields; 0 where there is no record."""
    return map_bytes(snapshot.data) if snapshot.data else 0


def is_full(query: Query, page: Sequence[Snapshot]) -> bool:
    """Return whether a page may have ended before the last matching record."""
    return len(page) >= query.limit or (query.bytes_max is not None and sum(map(size_bytes, page)) >= query.bytes_max)


def fitting(snapshots: Sequence[Snapshot], bytes_max: int) -> int:
    """Return how many of these records, from the first on, are held when reading ends with `bytes_max`."""
    total = 0
    for count, snapshot in enumerate(snapshots, 1):
        total += size_bytes(snapshot)
        if total >= bytes_max:
            return count
    return len(snapshots)
