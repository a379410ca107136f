"""A store in one SQLite file, which each process opens directly. No process serves it, and it keeps its data.

    store = SqliteStore(Path("store.sqlite"), triggers={"on-order": "orders/{id}"})

**Commits.** One commit at a time writes: among the threads of a process by a lock, among processes by that of the file.
A thread that has the lock also commits what other threads of its process have queued, each commit with its own guards
and time, in one transaction of SQLite. So they share one write to the disk, and one outcome if that fails.

**Time.** A commit's time is later than the times of all earlier commits, and than the read time of each read that does
not see it. A read chooses its time and begins its transaction under the shared lock. A commit chooses its time and ends
its transaction under the exclusive lock.

**Indexes.** An index is made when the first query needs it, in pieces. Every commit from then on updates it. A field
that no query names costs nothing.

Limits: Conditions on the second and later fields with an inequality are checked on the records. An index is never
removed, and its keys are whole values. Neither the write-ahead log nor `flock` works on network file systems.
"""

import sqlite3
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache, cached_property, lru_cache
from itertools import islice
from os import getpid
from pathlib import Path
from typing import Any

from signalbox.adapters.sqlite.events import Notices
from signalbox.adapters.sqlite.file import (
    AHEAD_MICROSECONDS_MAX,
    DELETED,
    MACHINE_CLOCK,
    Clock,
    Connection,
    Head,
    StoreFileError,
    Synchronous,
)
from signalbox.adapters.sqlite.plans import IndexKey, Plan, plan
from signalbox.adapters.sqlite.values import decoded, encoded
from signalbox.adapters.system_clock import random_id
from signalbox.core.document_patterns import matches
from signalbox.core.keys import check_path
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import (
    Change,
    Committed,
    Conflict,
    Data,
    Delete,
    Outcome,
    Put,
    Query,
    Snapshot,
    Write,
    WriteResult,
    snapshot_bytes,
)
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.query_checks import check_query
from signalbox.core.records.formats import check_record
from signalbox.core.records.queries import Field
from signalbox.core.records.record_values import map_bytes, record_bytes
from signalbox.core.times import instant, microseconds
from signalbox.core.write_checks import check_commit, check_each, server_values
from signalbox.core.write_effects import after_write, check_guard, copied_map, masked, server_time_at, value_at

SELECT_ALL = "SELECT collection, id, data, created_at, updated_at FROM records ORDER BY collection, id"
SELECT = "SELECT number, data, bytes_bound, created_at, updated_at FROM records WHERE collection = ? AND id = ?"
SELECT_EACH = """
WITH wanted (place, collection, id) AS (VALUES {})
SELECT place, number, data, bytes_bound, created_at, updated_at
FROM wanted CROSS JOIN records ON records.collection = wanted.collection AND records.id = wanted.id
"""
INSERT = """
INSERT INTO records (name, collection, id, data, bytes_bound, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
UPDATE = "UPDATE records SET data = ?, bytes_bound = ?, created_at = ?, updated_at = ? WHERE number = ?"
INSERT_EVENT = """
INSERT INTO events (
  trigger, path, committed_at,
  before, before_created_at, before_updated_at, after, after_created_at, after_updated_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
DELETE_ENTRY = "DELETE FROM entries WHERE index_number = ? AND place = ? AND key = ? AND id = ?"
INSERT_ENTRY = "INSERT OR IGNORE INTO entries (index_number, place, key, id, record) VALUES (?, ?, ?, ?, ?)"
SELECT_INDEX = "SELECT number, made_up_to FROM indexes WHERE collection = ? AND fields = ? AND of_a_group = ?"
DEFINE_INDEX = "INSERT INTO indexes (collection, fields, of_a_group, made_up_to) VALUES (?, ?, ?, ?)"
SELECT_END_OF_PIECE = """
SELECT max(number), count(*) FROM (SELECT number FROM records WHERE number > ? ORDER BY number LIMIT ?)
"""
SELECT_PIECE = "SELECT number, collection, id, data FROM records WHERE number > ? AND number <= ? AND name = ?"

FEW_ROWS = 3
"""Records that are looked up by a statement for each, which is as fast and needs no other statements."""

ROWS_A_SELECT = 64
"""Records that one statement looks up: SQLite keeps the statement of each number of records prepared."""

GROUP_MAX = 64
"""Commits in one transaction of SQLite. They become durable, and visible to other processes, together."""

RECORDS_A_PIECE = 1_000
"""Records that are read for a new index under one hold of the lock: some ten milliseconds."""


@dataclass()  # without slots: its text is decoded once
class _Row:
    """A stored record."""

    number: int
    text: str
    bytes_bound: int
    created_at: int
    updated_at: int

    @cached_property
    def data(self) -> dict[str, Any]:
        return decoded(self.text)


@dataclass(slots=True)
class _Pending:
    """A commit that waits for its turn, and then its outcome. `texts` are those of writes that need no server value."""

    writes: Sequence[Write]
    added_bytes: Sequence[int]
    texts: Sequence[str | None]
    outcome: Committed | Exception | None = None

    @classmethod
    def of(cls, writes: Sequence[Write]) -> "_Pending":
        """Check and encode a commit, before any lock is taken."""
        return cls(writes, check_commit(writes), [_text_of(write) for write in writes])


def _text_of(write: Write) -> str | None:
    return encoded(write.data) if isinstance(write, Put) and not server_values(write.data) else None


@dataclass(frozen=True, slots=True)
class _Step:
    """One write of a commit, computed and not applied.

    `after` is the new text and `data` what it encodes, both None if the record is deleted.
    """

    path: str
    before: _Row | None
    after: str | None
    data: Data | None
    bytes_bound: int
    result: WriteResult

    @property
    def is_change(self) -> bool:
        return self.after != (self.before.text if self.before else None)


@dataclass(frozen=True, slots=True)
class _Indexes:
    """The indexes of the file as of a number of changes; `complete` are those that queries may use."""

    changes: int
    complete: Mapping[IndexKey, int]
    by_name: "Mapping[str, _OfName]"


class _OfName:
    """The indexes of the collections with one name, by number; those with fields by the first one's map and name.

    A map may have an index for each of thousands of fields, of which a record has a few.
    """

    def __init__(self) -> None:
        self._without_fields: dict[int, IndexKey] = {}
        self._by_map: dict[Field, dict[str, dict[int, IndexKey]]] = {}

    def add(self, number: int, index: IndexKey) -> None:
        if index.fields:
            *above, name = index.fields[0].field
            self._by_map.setdefault(tuple(above), {}).setdefault(name, {})[number] = index
        else:
            self._without_fields[number] = index

    def of(self, *versions: Data | None) -> dict[int, IndexKey]:
        """Return the indexes without fields, and those whose first field is in a version of a record."""
        found = dict(self._without_fields)
        for above, by_name in self._by_map.items():
            for data in versions:
                held = data if not above else value_at(data, above) if data else None
                if type(held) is dict:
                    for name in by_name.keys() & held.keys():
                        found |= by_name[name]
        return found


class SqliteStore:
    """A `Store` in a SQLite file, for any number of threads and processes of one machine.

    - ``triggers``: the patterns of the paths whose changes become events, by trigger.
    - ``synchronous``: ``NORMAL``: a commit survives the death of all processes. ``FULL``: also a power cut.

    A process that forks must open it after the fork. Raises `StoreFileError` if the file cannot be used.
    """

    def __init__(
        self,
        file: Path,
        triggers: Mapping[str, str] | None = None,
        synchronous: Synchronous = "NORMAL",
        clock: Clock = MACHINE_CLOCK,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self._file, self._synchronous, self._clock, self._new_id = file, synchronous, clock, new_id
        self._process = getpid()
        self._triggers = lru_cache(maxsize=4_096)(lambda path: _triggered(triggers or {}, path))
        first = Connection(file, synchronous)
        self._file_id, self._idle = first.file_id, [first]
        self._notices = Notices(file)
        self._turn = threading.Lock()
        self._waiting: deque[_Pending] = deque()
        self._taken: list[_Pending] = []
        self._indexes = _Indexes(-1, {}, {})

    def close(self) -> None:
        """Close all connections. No thread may use the store any more."""
        while self._idle:
            self._idle.pop().close()
        self._notices.close()

    # --- reading ---

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        for path in paths:
            check_path(path)
        with self._reading() as (db, at):
            rows = _rows(db, paths)
        return tuple(_snapshot(path, row, at, fields) for path, row in zip(paths, rows, strict=True))

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        for path in (*needed, *others):
            check_path(path)
        read: dict[str, Snapshot] = {}
        size = 0
        with self._reading() as (db, at):
            for path in dict.fromkeys((*needed, *others)):
                if path not in needed and size >= bytes_max and any(other not in needed for other in read):
                    break
                read[path] = _snapshot(path, _row(db, path), at)
                size += snapshot_bytes(read[path])
        return tuple(read[path] for path in (*needed, *others) if path in read)

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        check_query(query)
        planned = plan(query)
        self._make_indexes(planned.needs)
        page: list[Snapshot] = []
        size = 0
        with self._reading() as (db, at):
            for snapshot in islice(self._found(db, planned, at), query.limit):
                page.append(snapshot)
                size += snapshot_bytes(snapshot) if query.bytes_max is not None else 0
                if query.bytes_max is not None and size >= query.bytes_max:
                    break
        for snapshot in page:
            check_record(snapshot.path, snapshot.data or {})
        return tuple(page)

    def count(self, query: Query) -> int:
        check_query(query)
        planned = plan(replace(query, limit=1, after=(), bytes_max=None), counted=True)
        self._make_indexes(planned.needs)
        with self._reading() as (db, at):
            if planned.checks:
                return sum(1 for _ in self._found(db, planned, at))
            [counted] = db.execute(planned.sql, self._values_of(planned)).fetchone()
            return int(counted)

    def new_id(self) -> str:
        return self._new_id()

    def _found(self, db: sqlite3.Connection, planned: Plan, at: int) -> Iterator[Snapshot]:
        read_time = instant(at)
        with closing(db.execute(planned.sql, self._values_of(planned))) as rows:
            for collection, id_, text, created_at, updated_at in rows:
                data = decoded(text)
                if all(check(id_, data) for check in planned.checks):
                    path = f"{collection}/{id_}"
                    yield Snapshot(path, data, read_time, instant(updated_at), instant(created_at))

    def _values_of(self, planned: Plan) -> list[object]:
        complete = self._indexes.complete
        return [complete[value] if isinstance(value, IndexKey) else value for value in planned.values]

    @contextmanager
    def _reading(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Read at one instant, given in microseconds: all that is committed up to it, and nothing later."""
        with self._connected() as connection:
            try:
                head, now = self._begin(connection)
                yield connection.db, max(head.time, now)
                connection.db.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise Unavailable(f"The store cannot be read: {error}.") from error

    def _begin(self, connection: Connection) -> tuple[Head, int]:
        """Begin a read; return the head and the store's time at this instant."""
        while True:
            with connection.shared():
                steady = self._clock.steady()
                connection.db.execute("BEGIN")
                head = connection.head()
            if self._offset(head, steady) == head.offset:
                return head, steady + head.offset
            connection.db.execute("ROLLBACK")
            with connection.writing() as db:
                db.execute("UPDATE head SET offset = ?", (self._offset(connection.head(), self._clock.steady()),))
                db.execute("COMMIT")

    def _offset(self, head: Head, steady: int) -> int:
        """Return the offset of the store's time: that of the file, or more if the machine's clock is ahead.

        It is also more if the last commit is ahead, after a boot: the store's time then continues from that commit.
        """
        ahead = max(self._clock.wall(), head.time) - steady
        return ahead if ahead > head.offset + AHEAD_MICROSECONDS_MAX else head.offset

    # --- committing ---

    def commit(self, writes: Sequence[Write]) -> Committed:
        [outcome] = self._outcomes([_Pending.of(writes)])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        check_each(writes)
        refused: dict[int, Exception] = {}
        pending: dict[int, _Pending] = {}
        for number, write in enumerate(writes):
            try:
                pending[number] = _Pending.of((write,))
            except Problem as problem:
                refused[number] = problem
        outcomes = dict(zip(pending, self._outcomes(list(pending.values())), strict=True))
        return tuple(refused.get(number) or _result(outcomes[number]) for number in range(len(writes)))

    def _outcomes(self, commits: Sequence[_Pending]) -> list[Committed | Exception]:
        """Commit, together with commits that other threads of this process have queued meanwhile."""
        self._waiting.extend(commits)
        while any(each.outcome is None for each in commits):
            with self._turn:
                if any(each.outcome is None for each in commits):
                    self._commit_group()
        return [each.outcome for each in commits if each.outcome is not None]

    def _commit_group(self) -> None:
        """Commit what waits. A thread that is ended by an exception here leaves no commit without an outcome."""
        self._fail_taken("the thread that committed it was ended")
        while self._waiting and len(self._taken) < GROUP_MAX:
            self._taken.append(self._waiting[0])
            self._waiting.popleft()
        group = [each for each in self._taken if each.outcome is None]
        try:
            outcomes = self._committed(group)
        except BaseException as error:
            self._fail_taken(str(error) or type(error).__name__)
            if not isinstance(error, sqlite3.Error | Unavailable):
                raise
        else:
            for each, outcome in zip(group, outcomes, strict=True):
                each.outcome = outcome
            self._taken.clear()

    def _fail_taken(self, reason: str) -> None:
        """End the commits that were begun. Their outcomes are unknown."""
        for each in self._taken:
            each.outcome = each.outcome or Unavailable(f"The store cannot be written: {reason}.")
        self._taken.clear()

    def _committed(self, group: Sequence[_Pending]) -> list[Committed | Exception]:
        """Commit in one transaction of SQLite; return the outcomes, which hold when this returns."""
        outcomes: list[Committed | Exception] = []
        with self._connected() as connection, connection.writing() as db:
            head = connection.head()
            if head.indexes != self._indexes.changes:
                self._read_indexes(db)
            time, offset, noticed = head.time, self._offset(head, self._clock.steady()), False
            for each in group:
                later = max(time, self._clock.steady() + offset) + 1
                try:
                    committed, has_events = self._commit(db, each, later)
                except (Conflict, Problem) as refusal:
                    outcomes.append(refusal)
                else:
                    outcomes.append(committed)
                    time, noticed = later, noticed or has_events
            db.execute("UPDATE head SET time = ?, offset = ?", (time, offset))
            db.execute("COMMIT")
        if noticed:
            self._notices.send()
        return outcomes

    def _commit(self, db: sqlite3.Connection, pending: _Pending, time: int) -> tuple[Committed, bool]:
        """Apply one commit in the open transaction; return its result, and whether it has caused events."""
        rows = _rows(db, [write.path for write in pending.writes])
        for write, row in zip(pending.writes, rows, strict=True):
            check_guard(write.path, write.guard, instant(row.updated_at) if row else None)
        planned = zip(pending.writes, rows, pending.added_bytes, pending.texts, strict=True)
        steps = [_step(*each, time) for each in planned]
        has_events = [self._apply(db, step, time) for step in steps if step.is_change]
        return Committed(instant(time), tuple(step.result for step in steps)), any(has_events)

    def _apply(self, db: sqlite3.Connection, step: _Step, time: int) -> bool:
        """Write a record, its index entries and its events; return whether there are events."""
        self._replace(db, step, step.before.created_at if step.before else time, time)
        return self._add_events(db, step, time)

    def _replace(self, db: sqlite3.Connection, step: _Step, created_at: int, updated_at: int) -> None:
        """Write a record and its index entries."""
        before = step.before
        collection, _, id_ = step.path.rpartition("/")
        name = collection.rpartition("/")[2]
        if before is None:
            row = (name, collection, id_, step.after, step.bytes_bound, created_at, updated_at)
            number = db.execute(INSERT, row).lastrowid or 0
        elif step.after is None:
            number = before.number
            db.execute("DELETE FROM records WHERE number = ?", (number,))
        else:
            number = before.number
            db.execute(UPDATE, (step.after, step.bytes_bound, created_at, updated_at, number))
        if indexes := self._indexes.by_name.get(name):
            _replace_entries(db, indexes, step, number)

    def _add_events(self, db: sqlite3.Connection, step: _Step, time: int) -> bool:
        triggers: Sequence[str] = self._triggers(step.path)
        if not triggers:
            return False
        before, created_at = step.before, step.before.created_at if step.before else time
        had = (before.text, before.created_at, before.updated_at) if before else (None, None, None)
        has = (None, None, None) if step.after is None else (step.after, created_at, time)
        db.executemany(INSERT_EVENT, [(trigger, step.path, time, *had, *has) for trigger in triggers])
        return True

    # --- copying ---

    @contextmanager
    def all_records(self) -> Iterator[tuple[datetime, Iterator[Snapshot]]]:
        """Read all records at one instant, which is also returned, in the order of collections and ids."""
        with self._reading() as (db, at), closing(db.execute(SELECT_ALL)) as rows:
            read_time = instant(at)
            yield (
                read_time,
                (
                    Snapshot(f"{collection}/{id_}", decoded(text), read_time, instant(updated_at), instant(created_at))
                    for collection, id_, text, created_at, updated_at in rows
                ),
            )

    def restore(self, records: Iterable[Snapshot]) -> None:
        """Write records with their times, without events, and whatever exists at their paths, in one transaction.

        No other process may use the store meanwhile: a record's update time may be earlier than before.
        """
        with self._connected() as connection, connection.writing() as db:
            head = connection.head()
            if head.indexes != self._indexes.changes:
                self._read_indexes(db)
            times = [self._restored(db, record) for record in records]
            db.execute("UPDATE head SET time = ?", (max([head.time, *times]),))
            db.execute("COMMIT")

    def _restored(self, db: sqlite3.Connection, record: Snapshot) -> int:
        """Write a record with its times; return its update time."""
        path, data = record.path, record.data or {}
        assert record.create_time is not None, "a record that exists has times"
        assert record.update_time is not None, "a record that exists has times"
        created_at, updated_at = microseconds(record.create_time), microseconds(record.update_time)
        size = record_bytes(path, map_bytes(data))
        self._replace(
            db, _Step(path, _row(db, path), encoded(data), data, size, WriteResult(None)), created_at, updated_at
        )
        return updated_at

    # --- indexes ---

    def _make_indexes(self, needed: Iterable[IndexKey]) -> None:
        """Make the indexes that do not exist, or that a process began to make and was killed."""
        try:
            for index in needed:
                while index not in self._indexes.complete:
                    self._make_a_piece(index)
        except sqlite3.Error as error:
            raise Unavailable(f"The store cannot make an index: {error}.") from error

    def _make_a_piece(self, index: IndexKey) -> None:
        """Define an index, or add the next records to it, unless another process has completed it."""
        with self._connected() as connection, connection.writing() as db:
            if connection.head().indexes == self._indexes.changes:
                made = _add_next_records(db, index)
                db.execute("COMMIT")
                if not made:
                    return
            self._read_indexes(db)

    def _read_indexes(self, db: sqlite3.Connection) -> None:
        """Read the definitions, under the lock."""
        [changes] = db.execute("SELECT indexes FROM head").fetchone()
        complete: dict[IndexKey, int] = {}
        by_name: defaultdict[str, _OfName] = defaultdict(_OfName)
        rows = db.execute("SELECT number, made_up_to, collection, fields, of_a_group FROM indexes")
        for number, made_up_to, *columns in rows:
            index = IndexKey.from_columns(*columns)
            by_name[index.collection].add(number, index)
            if made_up_to is None:
                complete[index] = number
        self._indexes = _Indexes(changes, complete, by_name)

    # --- connections ---

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Borrow a connection: the one that was used last, which has the most pages in memory.

        There are as many as calls at once, however many threads come and go. One in which anything fails is closed.
        """
        if getpid() != self._process:
            raise RuntimeError(f"{self._file} was opened before this process was forked: open it after the fork.")
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._opened()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    def _opened(self) -> Connection:
        try:
            connection = Connection(self._file, self._synchronous)
        except StoreFileError as error:
            raise Unavailable(str(error)) from error
        if connection.file_id != self._file_id:
            connection.close()
            raise Unavailable(f"The store cannot be used: {DELETED}.")
        return connection


def _row(db: sqlite3.Connection, path: str) -> _Row | None:
    collection, _, id_ = path.rpartition("/")
    found = db.execute(SELECT, (collection, id_)).fetchone()
    return None if found is None else _Row(*found)


def _rows(db: sqlite3.Connection, paths: Sequence[str]) -> list[_Row | None]:
    """Look up records. For many, one statement takes less time than one for each, above all if most do not exist."""
    if len(paths) <= FEW_ROWS:
        return [_row(db, path) for path in paths]
    found: list[_Row | None] = [None] * len(paths)
    for first in range(0, len(paths), ROWS_A_SELECT):
        wanted = paths[first : first + ROWS_A_SELECT]
        names = [name for path in wanted for name in path.rsplit("/", 1)]
        for place, *row in db.execute(_select_each(len(wanted)), names):
            found[first + place] = _Row(*row)
    return found


@cache
def _select_each(count: int) -> str:
    return SELECT_EACH.format(", ".join(f"({place}, ?, ?)" for place in range(count)))


def _snapshot(path: str, row: _Row | None, at: int, fields: Sequence[Field] | None = None) -> Snapshot:
    if row is None:
        return Snapshot(path, None, instant(at))
    data = decoded(row.text)
    check_record(path, data)
    shown = data if fields is None else copied_map(masked(data, fields))
    return Snapshot(path, shown, instant(at), instant(row.updated_at), instant(row.created_at))


def _step(write: Write, before: _Row | None, added_bytes: int, text: str | None, time: int) -> _Step:
    if isinstance(write, Delete):
        return _Step(write.path, before, None, None, 0, WriteResult(None))
    values: Mapping[Field, object] = {}
    data, bound = write.data if isinstance(write, Put) else {}, added_bytes
    if text is None:
        stored, size = (before.data, before.bytes_bound) if before and isinstance(write, Change) else ({}, 0)
        data, bound, values = after_write(write, stored, size, added_bytes, server_time_at(instant(time)))
        text = encoded(data)
    kept = before is not None and before.text == text
    updated_at = before.updated_at if before is not None and kept else time
    return _Step(write.path, before, text, data, bound, WriteResult(instant(updated_at), values))


def _replace_entries(db: sqlite3.Connection, indexes: _OfName, step: _Step, record: int) -> None:
    """Delete and insert the entries by which the keys of a record before and after a write differ."""
    before, after = step.before.data if step.before else None, step.data
    collection, _, id_ = step.path.rpartition("/")
    for number, index in indexes.of(before, after).items():
        old = set(index.keys(before)) if before is not None else set()
        new = set(index.keys(after)) if after is not None else set()
        if old != new:
            place, entry_id = index.place(collection), index.entry_id(collection, id_)
            db.executemany(DELETE_ENTRY, [(number, place, key, entry_id) for key in old - new])
            db.executemany(INSERT_ENTRY, [(number, place, key, entry_id, record) for key in new - old])


def _add_next_records(db: sqlite3.Connection, index: IndexKey) -> bool:
    """Add the next records to an index, which is defined first; return whether the definitions have changed.

    From the definition on, commits write entries. So a record's entries may exist already.
    """
    defined = db.execute(SELECT_INDEX, index.columns()).fetchone()
    number, begins_after = defined or (db.execute(DEFINE_INDEX, (*index.columns(), 0)).lastrowid, 0)
    ends_at, found = db.execute(SELECT_END_OF_PIECE, (begins_after, RECORDS_A_PIECE)).fetchone()
    made_up_to = ends_at if found == RECORDS_A_PIECE else None
    rows = db.execute(SELECT_PIECE, (begins_after, ends_at, index.collection))
    entries = (
        (number, index.place(collection), key, index.entry_id(collection, id_), record)
        for record, collection, id_, text in rows
        for key in index.keys(decoded(text))
    )
    db.executemany(INSERT_ENTRY, entries)
    db.execute("UPDATE indexes SET made_up_to = ? WHERE number = ?", (made_up_to, number))
    if defined is None or made_up_to is None:
        db.execute("UPDATE head SET indexes = indexes + 1")
        return True
    return False


def _result(outcome: Committed | Exception) -> Outcome:
    return outcome.results[0] if isinstance(outcome, Committed) else outcome


def _triggered(triggers: Mapping[str, str], path: str) -> tuple[str, ...]:
    return tuple(name for name, pattern in triggers.items() if matches(pattern, path))
