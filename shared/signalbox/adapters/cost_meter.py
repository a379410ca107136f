"""The cost of a request: a store and a queue that count operations as Google bills them, and round trips.

They add to the `Cost` of the innermost `measure`, if any. Tests compare operations with these numbers, and the log line
of every request contains them.

- reads: records read, existing or not; for a query the records found, at least 1; for a count 1 per 1,000 counted.
- writes, deletes: one a record, including those of a failed commit.
- round_trips: calls that the caller waited for; tasks enqueued together are one.
- stored, opened, copied: payloads of large values. The log line has them only if there are any.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import fields

from signalbox.adapters import tracing
from signalbox.adapters.kept_payloads import KeptPayloads
from signalbox.core.bound_values import Bound
from signalbox.core.effects import Effect
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.ports import (
    Committed,
    Delete,
    Outcome,
    Ports,
    Query,
    Snapshot,
    Store,
    TaskQueue,
    Write,
    WriteResult,
)
from signalbox.core.records.queries import Field

COUNTED_A_READ = 1000
"""Index entries in a count that are billed as one read."""


@dataclass(slots=True)
class Cost:
    """Counts of one request. They only grow."""

    reads: int = 0
    writes: int = 0
    deletes: int = 0
    round_trips: int = 0
    tasks: int = 0
    stored: int = 0
    opened: int = 0
    copied: int = 0

    def to_json(self) -> dict[str, int]:
        return {name: count for name in COUNTS if (count := getattr(self, name)) or name not in OF_PAYLOADS}


COUNTS = [field.name for field in fields(Cost)]

OF_PAYLOADS = frozenset({"stored", "opened", "copied"})
"""Counts that most requests do not have."""

_cost: ContextVar[Cost | None] = ContextVar("signalbox.cost", default=None)


def measure() -> AbstractContextManager[Cost]:
    """Count the operations inside the context, in this thread. Those inside a nested measurement count only there."""
    return Bound(_cost, Cost())


def metered(ports: Ports) -> Ports:
    """Return these ports with a metered store, queue and payload store; metered ones are returned unchanged."""
    store = ports.store if isinstance(ports.store, MeteredStore) else MeteredStore(ports.store)
    queue = ports.queue if isinstance(ports.queue, MeteredQueue) else MeteredQueue(ports.queue)
    payloads = ports.payloads
    if payloads is not None and not isinstance(payloads, KeptPayloads):
        payloads = KeptPayloads(payloads, _add_payload)
    return replace(ports, store=store, queue=queue, payloads=payloads)


def _add_payload(kind: str) -> None:
    if (cost := _cost.get()) is not None:
        cost.round_trips += 1
        if kind in OF_PAYLOADS:
            setattr(cost, kind, getattr(cost, kind) + 1)


def _add(*, reads: int = 0, writes: int = 0, deletes: int = 0, round_trips: int = 0, tasks: int = 0) -> None:
    cost = _cost.get()
    if cost is not None:
        cost.reads += reads
        cost.writes += writes
        cost.deletes += deletes
        cost.round_trips += round_trips
        cost.tasks += tasks


class MeteredStore:
    """A store that counts the calls of another."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        _add(reads=len(set(paths)), round_trips=1)
        return self._store.read(*paths, fields=fields)

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        _add(round_trips=1)
        read = self._store.read_some(needed, others, bytes_max)
        _add(reads=len(read))
        return read

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        _add(round_trips=1)
        found = self._store.query(query)
        _add(reads=max(1, len(found)))
        return found

    def count(self, query: Query) -> int:
        _add(round_trips=1)
        counted = self._store.count(query)
        _add(reads=max(1, -(-counted // COUNTED_A_READ)))
        return counted

    def commit(self, writes: Sequence[Write]) -> Committed:
        _add_writes(writes)
        with tracing.span("commit", writes=len(writes)) as span:
            committed = self._store.commit(writes)
            span.set(committed_at=committed.commit_time)
            return committed

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        _add_writes(writes)
        with tracing.span("write each", writes=len(writes)) as span:
            outcomes = self._store.write_each(writes)
            span.set(committed_at=[each.update_time for each in outcomes if isinstance(each, WriteResult)])
            return outcomes

    def new_id(self) -> str:
        return self._store.new_id()


class MeteredQueue:
    """A queue that counts the calls of another."""

    def __init__(self, queue: TaskQueue) -> None:
        self._queue = queue

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        _add(tasks=len(effects), round_trips=1 if effects else 0)
        return self._queue.create(effects)


def _add_writes(writes: Sequence[Write]) -> None:
    deletes = sum(isinstance(write, Delete) for write in writes)
    _add(writes=len(writes) - deletes, deletes=deletes, round_trips=1)
