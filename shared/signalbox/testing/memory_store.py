"""An in-memory store that behaves like Firestore, for simulation and tests.

One lock makes every call atomic. Commit times are distinct and later than the times of earlier reads, however coarse
the clock is. A write that changes nothing keeps the update time, as in Firestore. `SERVER_TIME` is in whole
milliseconds, and it is the time when the server processed the request, not the commit time: `stray` is the difference.

`observe` is called for every record that changed, in commit order, inside the lock. It may read the store, should be
quick, and must not write.

The first part evaluates queries over records and is pure. Values are copied when they are written and when they are
read, so callers never hold references into the store.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from operator import ge, gt, itemgetter, le, lt
from threading import RLock
from typing import Any

from signalbox.adapters.system_clock import random_id
from signalbox.core.keys import check_path
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import (
    Committed,
    Conflict,
    Data,
    Delete,
    Outcome,
    Query,
    Snapshot,
    Write,
    WriteResult,
    count_fitting,
)
from signalbox.core.problems import Problem
from signalbox.core.query_checks import check_query, full_order, is_descending, operands
from signalbox.core.records.formats import check_record
from signalbox.core.records.queries import ID, Condition, Field
from signalbox.core.records.record_values import same
from signalbox.core.records.value_order import NAN_RANK, NULL_RANK, Key, order_key
from signalbox.core.times import instant, microseconds
from signalbox.core.write_checks import check_commit, check_each
from signalbox.core.write_effects import (
    MISSING,
    Stored,
    after_write,
    check_guard,
    copied_map,
    masked,
    server_time_at,
    value_at,
)

RANGES: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def found(query: Query, records: Iterable[tuple[str, Data]]) -> list[str]:
    """Return the ids of all matching records, in order, after the cursor. A record is passed as id and data."""
    tests = [_test(condition) for condition in query.where]
    fields = [order.field for order in full_order(query)]
    ranked = []
    for id_, data in records:
        keys = [_key_at(data, field) for field in fields]
        if None not in keys and all(test(id_, data) for test in tests):
            ranked.append((*keys, id_.split("/")))
    return ["/".join(rank[-1]) for rank in _behind(query, _sorted(query, ranked))]


def _key_at(data: Data, field: Field) -> Key | None:
    value = value_at(data, field)
    return None if value is MISSING else order_key(value)


def _test(condition: Condition) -> Callable[[str, Data], bool]:
    holds = _comparison(condition)
    field = condition.field
    if field == ID:
        return lambda id_, _: holds(id_)

    def test(_: str, data: Data) -> bool:
        value = value_at(data, field)
        return value is not MISSING and holds(value)

    return test


def _comparison(condition: Condition) -> Callable[[Any], bool]:
    keys = [order_key(value) for value in operands(condition)]
    wanted = keys[0]
    match condition.operator:
        case "==":
            return lambda value: order_key(value) == wanted
        case "!=":
            return lambda value: value is not None and order_key(value) != wanted
        case "in":
            comparable = [key for key in keys if key[0] not in {NULL_RANK, NAN_RANK}]
            return lambda value: order_key(value) in comparable
        case "array_contains":
            return lambda value: isinstance(value, list) and any(order_key(item) == wanted for item in value)
        case operator:
            return _range(RANGES[operator], wanted)


def _range(compare: Callable[[Any, Any], bool], wanted: Key) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        key = order_key(value)
        return bool(key[0] == wanted[0] and compare(key, wanted))

    return holds


def _directions(query: Query) -> list[bool]:
    return [*(order.descending for order in full_order(query)), is_descending(query)]


def _sorted(query: Query, ranked: list[Key]) -> list[Key]:
    """Sort by each column in its own direction, the last column first, since sorting is stable."""
    for column, descending in reversed(list(enumerate(_directions(query)))):
        ranked.sort(key=itemgetter(column), reverse=descending)
    return ranked


def _behind(query: Query, ranked: list[Key]) -> Iterable[Key]:
    if not query.after:
        return ranked
    cursor = (*(order_key(value) for value in query.after[:-1]), [query.after[-1]])
    directions = _directions(query)
    return (rank for rank in ranked if _is_behind(rank, cursor, directions))


def _is_behind(rank: Key, cursor: Key, directions: list[bool]) -> bool:
    for one, other, descending in zip(rank, cursor, directions, strict=True):
        if one != other:
            return bool(one < other if descending else one > other)
    return False


Observer = Callable[[str, Snapshot, Snapshot], None]
"""Called with the path, the record before and the record after. Both snapshots are copies."""


@dataclass(frozen=True, slots=True)
class Record:
    """A stored record. `bytes_bound` is at least its size."""

    data: Stored
    bytes_bound: int
    create_time: datetime
    update_time: datetime


@dataclass(frozen=True, slots=True)
class _Step:
    """One write of a commit, computed and not yet applied."""

    path: str
    before: Record | None
    after: Record | None
    result: WriteResult


class MemoryStore:
    """A `Store` in this process. `now` returns aware datetimes; `new_id` returns record ids.

    `stray` returns how far the `SERVER_TIME` of the next commit is ahead of its commit time, or behind it if negative.
    """

    def __init__(
        self,
        now: Callable[[], datetime],
        observe: Observer | None = None,
        new_id: Callable[[], str] = random_id,
        stray: Callable[[], timedelta] = timedelta,
    ) -> None:
        self._now = now
        self._stray = stray
        self._observe = observe
        self._new_id = new_id
        self._lock = RLock()
        self._time = 0
        self._collections: dict[str, dict[str, Record]] = {}

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        for path in paths:
            check_path(path)
        with self._lock:
            at = self._read_time()
            return tuple(_checked(_snapshot(path, self._record(path), at, fields)) for path in paths)

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        once = self.read(*dict.fromkeys((*needed, *others)))
        needed_count = len(set(needed))
        count = max(needed_count + min(1, len(once) - needed_count), count_fitting(once, bytes_max))
        read = {snapshot.path: snapshot for snapshot in once[:count]}
        return tuple(read[path] for path in (*needed, *others) if path in read)

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        check_query(query)
        with self._lock:
            at = self._read_time()
            paths = [*islice(self._found(query), query.limit)]
            page = tuple(_checked(_snapshot(path, self._record(path), at)) for path in paths)
        return page if query.bytes_max is None else page[: count_fitting(page, query.bytes_max)]

    def count(self, query: Query) -> int:
        check_query(query)
        with self._lock:
            return sum(1 for _ in self._found(replace(query, limit=1, after=(), bytes_max=None)))

    def commit(self, writes: Sequence[Write]) -> Committed:
        added_bytes = check_commit(writes)
        with self._lock:
            return self._commit(writes, added_bytes)

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        check_each(writes)
        return tuple(self._outcome(write) for write in writes)

    def new_id(self) -> str:
        return self._new_id()

    def _outcome(self, write: Write) -> Outcome:
        try:
            return self.commit((write,)).results[0]
        except (Conflict, Problem) as refusal:
            return refusal

    def _commit(self, writes: Sequence[Write], added_bytes: Sequence[int]) -> Committed:
        records = [self._record(write.path) for write in writes]
        for write, record in zip(writes, records, strict=True):
            check_guard(write.path, write.guard, record.update_time if record else None)
        at = self._commit_time()
        server_time = server_time_at(at + self._stray())
        steps = [_step(*planned, at, server_time) for planned in zip(writes, records, added_bytes, strict=True)]
        for step in steps:
            self._do(step, at)
        return Committed(at, tuple(step.result for step in steps))

    def _do(self, step: _Step, at: datetime) -> None:
        if step.after is step.before:
            return
        collection, _, id_ = step.path.rpartition("/")
        if step.after is None:
            del self._collections[collection][id_]
        else:
            self._collections.setdefault(collection, {})[id_] = step.after
        if self._observe:
            self._observe(step.path, _snapshot(step.path, step.before, at), _snapshot(step.path, step.after, at))

    def _record(self, path: str) -> Record | None:
        collection, _, id_ = path.rpartition("/")
        return self._collections.get(collection, {}).get(id_)

    def _found(self, query: Query) -> Iterator[str]:
        """Iterate over the paths of all matching records, in order, after the cursor."""
        if not query.group:
            collection = self._collections.get(query.collection, {})
            ids = found(query, ((id_, record.data) for id_, record in collection.items()))
            return (f"{query.collection}/{id_}" for id_ in ids)
        inside = ((name, each) for name, each in self._collections.items() if name.split("/")[-1] == query.collection)
        records = ((f"{name}/{id_}", record.data) for name, each in inside for id_, record in each.items())
        return iter(found(query, records))

    def _read_time(self) -> datetime:
        self._time = max(self._time, microseconds(self._now()))
        return instant(self._time)

    def _commit_time(self) -> datetime:
        self._time = max(self._time + 1, microseconds(self._now()))
        return instant(self._time)


def _snapshot(path: str, record: Record | None, at: datetime, fields: Sequence[Field] | None = None) -> Snapshot:
    if record is None:
        return Snapshot(path, None, at)
    return Snapshot(path, copied_map(masked(record.data, fields)), at, record.update_time, record.create_time)


def _checked(snapshot: Snapshot) -> Snapshot:
    """Return the record if a reader may see it. Raises `NewerFormat`."""
    if snapshot.data is not None:
        check_record(snapshot.path, snapshot.data)
    return snapshot


def _step(write: Write, before: Record | None, added_bytes: int, at: datetime, server_time: datetime) -> _Step:
    if isinstance(write, Delete):
        return _Step(write.path, before, None, WriteResult(None))
    stored, size = (before.data, before.bytes_bound) if before else ({}, 0)
    data, bytes_bound, values = after_write(write, stored, size, added_bytes, server_time)
    after = _kept_or_new(before, data, bytes_bound, at)
    return _Step(write.path, before, after, WriteResult(after.update_time, values))


def _kept_or_new(before: Record | None, data: Stored, bytes_bound: int, at: datetime) -> Record:
    if before is None:
        return Record(data, bytes_bound, at, at)
    return before if same(before.data, data) else Record(data, bytes_bound, before.create_time, at)
