"""The ports of an operation: a store, a task queue, a clock, a log, a payload store. Interfaces and values only.

The words are Firestore's. A *record* has a path of alternating collections and ids (``documents/x``,
``batches/b/units/7``). Its data is JSON plus aware ``datetime`` values. A *field* is a tuple of map keys, so a dot in a
key has no meaning. A *guard* is the precondition of a write. Every call takes one round trip.

`signalbox/adapters/firestore/`, `signalbox/adapters/sqlite/` and `signalbox/testing/memory_store.py` implement the
store; `tests/contract/` holds all three to the same behaviour.

Each part of the sweeper has a separate time budget, so that no part displaces the others. An adapter measures it by the
machine's clock: a budget limits the number of records that a run handles, never the decisions about them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import Enum
from typing import Any, Protocol

from signalbox.core.document_patterns import UPDATED
from signalbox.core.effects import Effect, RecordedSpan
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.records.queries import Condition, Field, Order
from signalbox.core.records.record_values import map_bytes

Data = Mapping[str, Any]


class Must(Enum):
    """A guard on existence. The other kind of guard is a record's `update_time`."""

    EXIST = "exist"
    NOT_EXIST = "not exist"


Guard = datetime | Must | None
"""The precondition of a write. A datetime: the record was last updated exactly then. None: a blind write."""


@dataclass(frozen=True, slots=True)
class Increment:
    """Add to a number (a missing field counts as 0). The commit's result has the new value."""

    by: int


class Marker(Enum):
    """Values that the server computes at the commit."""

    SERVER_TIME = "when the server processed the request, in whole milliseconds: near the commit's time, seldom equal"
    REMOVE = "this field is removed"


SERVER_TIME = Marker.SERVER_TIME

REMOVE = Marker.REMOVE


@dataclass(frozen=True, slots=True)
class Put:
    """Replace the whole record. With `Must.NOT_EXIST`: create it.

    Top-level values may be `Increment` or `SERVER_TIME`.
    """

    path: str
    data: Data
    guard: Guard = None


@dataclass(frozen=True, slots=True)
class Change:
    """Write the named fields of a record and leave the others.

    A value may be a `Marker` or an `Increment`. ``fields`` maps a field (a tuple of keys) to its value.
    The guard is `Must.EXIST` or an update time. A blind change creates the record if there is none; all its values are
    `Increment` or `SERVER_TIME`, so that it counts and overwrites nothing.
    """

    path: str
    fields: Mapping[Field, Any]
    guard: Guard = Must.EXIST


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the record. Without a guard, deleting a missing record succeeds.

    With `Must.NOT_EXIST` nothing is deleted: the commit requires that the record does not exist, without reading it.
    """

    path: str
    guard: Guard = None


Write = Put | Change | Delete


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A record as it was at `read_time`. The other fields are None if the record did not exist."""

    path: str
    data: Data | None
    read_time: datetime
    update_time: datetime | None = None
    create_time: datetime | None = None

    @property
    def id(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def guard(self) -> Guard:
        """The precondition of a commit whose decision rests on this snapshot."""
        return self.update_time if self.update_time is not None else Must.NOT_EXIST


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of one write: its server time, and the new values of its `Increment`s by field."""

    update_time: datetime | None
    values: Mapping[Field, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that landed. `results` are in the order of the writes."""

    commit_time: datetime
    results: tuple[WriteResult, ...]


class Conflict(Exception):
    """A precondition did not hold, so nothing was committed. Read again and decide again."""


class AlreadyExists(Conflict):
    """A record exists that must not exist."""


class RecordMissing(Conflict):
    """A record does not exist that must exist."""


class Stale(Conflict):
    """A record was written after it was read."""


Outcome = WriteResult | Exception
"""The outcome of one write of `write_each`: its result, or a `Conflict`, `Unavailable` or `Problem`, which is returned,
not raised."""


@dataclass(frozen=True, slots=True)
class Query:
    """Records of one collection, ordered by `order_by`, then by id (in the direction of the last order).

    Records without one of the `order_by` fields are not found (as in Firestore). A condition on the field `ID` compares
    records' ids.

    - ``after``: continue after a record, given by the values of its `order_by` fields and then its id.
    - ``bytes_max``: end a page early, at the record with which the fields of the page's records reach that many bytes
      (`is_full`).
    - ``group``: query all collections whose last name is `collection`, in the order of paths instead of ids. Such a
      query has no cursor and no condition on `ID`.
    """

    collection: str
    where: tuple[Condition, ...] = ()
    order_by: tuple[Order, ...] = ()
    limit: int = 100
    after: tuple[Any, ...] = ()
    bytes_max: int | None = None
    group: bool = False


def snapshot_bytes(snapshot: Snapshot) -> int:
    """Return the size of a record's fields; 0 if the record does not exist."""
    return map_bytes(snapshot.data) if snapshot.data else 0


def is_full(query: Query, page: Sequence[Snapshot]) -> bool:
    """Return whether a page may have ended before the last matching record: at `limit` records, or at `bytes_max`."""
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


class Store(Protocol):
    """A store of records with atomic, guarded commits.

    Every method raises `Unavailable` if the outcome is not known (timeout, aborted, server unavailable): a commit may
    have landed or not. A record that the store cannot hold raises `BadValue` or `TooLarge`, before anything is written.
    """

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        """Read records at one instant, in the order of `paths`. All snapshots have the same `read_time`.

        A snapshot has only the `fields` that exist in its record. None returns all fields.
        """
        ...

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        """Read all `needed` records and some of the others at one instant; return those read, in this order.

        Reading ends with the record at which the fields of all records read take `bytes_max`, so at least one of the
        others is returned, if there are any. Which of the others are left out is not defined. A path that occurs twice,
        even once in each argument, is read once and returned at each of its places.
        """
        ...

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        """Return the matching records, all at one instant."""
        ...

    def count(self, query: Query) -> int:
        """Return the number of matching records (limit and cursor are ignored)."""
        ...

    def commit(self, writes: Sequence[Write]) -> Committed:
        """Commit atomically. Raises `Conflict` if a guard did not hold. The request is sent once and never retried."""
        ...

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        """Commit up to 500 writes to different records, each separately. Outcomes are in the order of the writes."""
        ...

    def new_id(self) -> str:
        """Return a random record id."""
        ...


class TaskQueue(Protocol):
    """A queue like Cloud Tasks."""

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        """Enqueue tasks. Return the names that were already taken; their tasks count as enqueued.

        Raises `Unavailable` if it is not known whether all tasks are enqueued, or the `Problem` of a task that can
        never be enqueued. If the error is also a `PartlyEnqueued`, it names the tasks that are enqueued.
        """
        ...


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """A payload in its store. `owner` is the path of the records that name it, and empty if only a task does."""

    key: str
    owner: str
    created_at: datetime


class PayloadStore(Protocol):
    """A store of the contents of large values, such as a bucket of Cloud Storage. A key determines the content.

    Every method raises `Unavailable` if the outcome is not known.
    """

    def create(self, key: str, content: bytes, owner: str) -> None:
        """Store a content, unless the key exists."""
        ...

    def read(self, key: str) -> bytes | None:
        """Return a content, or None if the key does not exist."""
        ...

    def copy(self, source: str, target: str, owner: str) -> bool:
        """Store the content of a key under another one. Return False if there is no such key."""
        ...

    def list(self, prefix: str, after: str, limit: int) -> Sequence[StoredPayload]:
        """Return the first payloads whose keys begin with `prefix` and come after the key `after`, in order."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Delete payloads, as far as they exist."""
        ...


class Clock(Protocol):
    """Sleeping, and what determines how long. The `now` of a decision is a load's read time, never a clock's."""

    def sleep(self, seconds: float) -> None: ...

    def jitter(self) -> float:
        """Return a random number from 0 to 1, to spread retries."""
        ...

    def steady(self) -> float:
        """Return seconds of a clock that is never set, to measure how long an attempt takes."""
        ...


class Log(Protocol):
    """Structured log lines: a constant message, and values."""

    def note(self, **seconds: float) -> None:
        """Add durations to the current request's log line. If a name occurs again, the longer duration is kept."""

    def info(self, message: str, /, **values: object) -> None: ...

    def warning(self, message: str, /, **values: object) -> None: ...

    def error(self, message: str, /, **values: object) -> None: ...

    def span(self, recorded: RecordedSpan) -> None:
        """Export a span, if this process exports any."""


@dataclass(frozen=True, slots=True)
class DocumentEvent:
    """One write of a record, as Firestore delivers it: at least once, in any order, and late.

    Eventarc delivers it for up to three days, and after that only if an operator requests it.

    - ``id``: the same in every delivery of one event.
    - ``collection``, ``key``: the two parts of ``path``.
    - ``before``, ``after``: the record's data, or None where it did not exist. One or both are also None if the event
      was delivered without that data (`partial`): then the record must be read, and anything may have changed.
    - ``before_update_time``, ``update_time``, ``create_time``: the record's own times.
    - ``kind``: ``created``, ``updated`` or ``deleted``; empty if it cannot be derived from a partial event.
    """

    id: str
    collection: str
    key: str
    path: str
    before: Data | None
    after: Data | None
    before_update_time: datetime | None = None
    update_time: datetime | None = None
    create_time: datetime | None = None
    kind: str = ""

    @property
    def partial(self) -> bool:
        """Whether the event was delivered without data that its kind has, as large events may be."""
        if self.before is None and self.after is None:
            return True
        return self.kind == UPDATED and (self.before is None or self.after is None)


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one function, bound once. `payloads` is None if the deployment stores no payloads."""

    store: Store
    queue: TaskQueue
    clock: Clock
    log: Log
    payloads: PayloadStore | None = None


OutOfTime = Callable[[], bool]
"""Returns whether the budget is used up. A part of a sweep calls this function before each record."""


Budget = Callable[[], OutOfTime]
"""Starts a budget."""


def unlimited() -> OutOfTime:
    """Start a budget without an end."""
    return lambda: False
