"""An in-memory store that behaves like Firestore, for simulation, tests and machines without Java.

One lock makes every call atomic. Time is the server's: commit times are distinct and later than every read, however
coarse the clock. A write that changes nothing keeps the update time, as in Firestore. `SERVER_TIME` is in whole
milliseconds, and it is when the server processed the request, not the commit's: `stray` says by how much they differ.

`observe` is called for every record that changed, in commit order, inside the lock: it may read the store, should be
quick, and must not write.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import RLock

from shared.adapters.record_ids import random_id
from shared.core.operations.ports import (
    AlreadyExists,
    Change,
    Committed,
    Conflict,
    Delete,
    Field,
    Guard,
    Must,
    Outcome,
    Put,
    Query,
    RecordMissing,
    Snapshot,
    Stale,
    Write,
    WriteResult,
)
from shared.core.operations.query_validation import check_query
from shared.core.operations.record_sizes import fitting
from shared.core.operations.write_validation import check_commit, check_each
from shared.core.rules.keys import check_path
from shared.core.rules.ordering import same
from shared.core.rules.problems import Problem
from shared.core.rules.record_values import RECORD_BYTES_MAX, map_bytes, record_bytes
from shared.core.rules.times import instant, microseconds
from shared.testing.memory_writes import Stored, after_change, after_put, copied_map, masked
from shared.testing.query_evaluation import found

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

    `stray` returns how far the `SERVER_TIME` of the next commit lies ahead of its commit time; negative: behind it.
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
            return tuple(_snapshot(path, self._record(path), at, fields) for path in paths)

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        read = self.read(*needed, *others)
        return read[: max(len(needed) + min(1, len(others)), fitting(read, bytes_max))]

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        check_query(query)
        with self._lock:
            at = self._read_time()
            ids = self._found(query)[: query.limit]
            collection = self._collections.get(query.collection, {})
            page = tuple(_snapshot(f"{query.collection}/{id_}", collection[id_], at) for id_ in ids)
        return page if query.bytes_max is None else page[: fitting(page, query.bytes_max)]

    def count(self, query: Query) -> int:
        check_query(query)
        with self._lock:
            return len(self._found(Query(query.collection, query.where, query.order_by)))

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
            _check_guard(write.path, write.guard, record)
        at = self._commit_time()
        server_time = _whole_milliseconds(at + self._stray())
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

    def _found(self, query: Query) -> list[str]:
        collection = self._collections.get(query.collection, {})
        return found(query, ((id_, record.data) for id_, record in collection.items()))

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


def _check_guard(path: str, guard: Guard, record: Record | None) -> None:
    if isinstance(guard, datetime):
        if record is None or record.update_time != guard:
            raise Stale(f"{path} is no longer as it was on {guard.isoformat()}")
    elif guard is Must.EXIST and record is None:
        raise RecordMissing(f"{path} does not exist")
    elif guard is Must.NOT_EXIST and record is not None:
        raise AlreadyExists(f"{path} exists")


def _whole_milliseconds(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1_000 * 1_000)


def _step(write: Write, before: Record | None, added_bytes: int, at: datetime, server_time: datetime) -> _Step:
    if isinstance(write, Delete):
        return _Step(write.path, before, None, WriteResult(None))
    if isinstance(write, Put):
        data, values = after_put(write, server_time)
        after = _kept_or_new(before, data, added_bytes, at)
    else:
        after, values = _changed(write, before, added_bytes, at, server_time)
    return _Step(write.path, before, after, WriteResult(after.update_time, values))


def _changed(
    change: Change, before: Record | None, added_bytes: int, at: datetime, server_time: datetime
) -> tuple[Record, dict[tuple[str, ...], object]]:
    data, values = after_change(change, {} if before is None else before.data, server_time)
    bound = added_bytes if before is None else before.bytes_bound + added_bytes
    if bound > RECORD_BYTES_MAX:
        bound = record_bytes(change.path, map_bytes(data))
    return _kept_or_new(before, data, bound, at), values


def _kept_or_new(before: Record | None, data: Stored, bytes_bound: int, at: datetime) -> Record:
    if before is None:
        return Record(data, bytes_bound, at, at)
    return before if same(before.data, data) else Record(data, bytes_bound, before.create_time, at)
