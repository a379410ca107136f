"""The same calls, made to both stores, have the same outcomes, whatever the calls.

Times differ between the two and so are compared by what they mean: whether a record's update time moved, and which of
the writes so far it is the time of.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.core.ports import (
    REMOVE,
    SERVER_TIME,
    Change,
    Conflict,
    Data,
    Delete,
    Increment,
    Must,
    Put,
    Query,
    RecordMissing,
    Snapshot,
    Stale,
    Store,
    Write,
    WriteResult,
)
from signalbox.core.problems import Problem
from signalbox.core.query_checks import full_order
from signalbox.core.records.queries import Condition, Field, Order
from signalbox.core.write_effects import value_at
from signalbox.testing.memory_store import MemoryStore
from tests.contract.generated_values import json_values, records, storable

IDS = ("a", "b", "c")
PATHS = tuple(f"d/{id_}" for id_ in IDS)
NAMES = ("x", "y.z", "m")

emulated = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    print_blob=True,
)


@dataclass(frozen=True)
class Seen:
    """A guard by the update time that the n-th write of this run (of those that had one) left on its record."""

    write: int


guards = st.sampled_from([None, Must.EXIST, Must.NOT_EXIST]) | st.integers(0, 8).map(Seen)
server_values = st.one_of(
    st.just(SERVER_TIME),
    st.integers(-3, 3).map(Increment),
)
small = st.sampled_from([1, 1.0, 2, "a", [1], {"m": 1}, {}, None])
fields = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple)
puts = st.builds(
    Put,
    st.sampled_from(PATHS),
    st.dictionaries(st.sampled_from(NAMES), small | server_values, max_size=3) | records,
    guards,
)
changes = st.builds(
    Change,
    st.sampled_from(PATHS),
    st.dictionaries(fields, small | server_values | st.just(REMOVE) | storable, max_size=3),
    guards.filter(lambda guard: guard not in {None, Must.NOT_EXIST}),
)
counts = st.builds(
    Change, st.sampled_from(PATHS), st.dictionaries(fields, server_values, min_size=1, max_size=3), st.none()
)
deletes = st.builds(Delete, st.sampled_from(PATHS), guards)
write_lists = st.lists(puts | changes | counts | deletes, min_size=1, max_size=3, unique_by=lambda write: write.path)
calls = st.tuples(st.sampled_from(["commit", "write_each"]), write_lists)


class Run:
    """Calls made to one store, and their outcomes with times made comparable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._times: list[datetime] = []

    def outcome(self, call: str, writes: list[Write]) -> object:
        writes = [replace(write, guard=self._guard(write.guard)) for write in writes]
        try:
            if call == "commit":
                return [self._told(result) for result in self._store.commit(writes).results]
            outcomes = self._store.write_each(writes)
            return [self._told(outcome, write) for outcome, write in zip(outcomes, writes, strict=True)]
        except (Conflict, Problem) as refusal:
            return kind_of(refusal, *writes)

    def _guard(self, guard: Any) -> Any:
        if not isinstance(guard, Seen):
            return guard
        return self._times[guard.write % len(self._times)] if self._times else datetime(2001, 1, 1, tzinfo=UTC)

    def _told(self, outcome: object, *writes: Write) -> object:
        if not isinstance(outcome, WriteResult):
            return kind_of(outcome, *writes)
        return self._which(outcome.update_time), {field: repr(value) for field, value in outcome.values.items()}

    def _which(self, moment: datetime | None) -> int | None:
        """Number the times in the order of their first appearance."""
        if moment is not None and moment not in self._times:
            self._times.append(moment)
        return None if moment is None else self._times.index(moment)

    def states(self) -> list[object]:
        return [self._state(snapshot) for snapshot in self._store.read(*PATHS)]

    def _state(self, snapshot: Snapshot) -> object:
        created = snapshot.create_time == snapshot.update_time
        return without_server_time(snapshot.data), self._which(snapshot.update_time), created


def kind_of(refusal: object, *writes: Write) -> object:
    """Return the class of a refusal. If a guard is the time of a deletion, the emulator answers NOT_FOUND.

    With any other time it says, as the store in memory always does, that the record is of another version.
    """
    has_time = any(isinstance(write.guard, datetime) for write in writes)
    return Stale if isinstance(refusal, RecordMissing) and has_time else type(refusal)


def without_server_time(data: Data | None) -> str:
    """Print data, with times of this run (which are the server's) all alike."""
    return repr(_masked(data))


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _masked(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    recent = isinstance(value, datetime) and abs(value - datetime.now(UTC)).total_seconds() < 3_600
    return "server time" if recent else value


TIME_OF_A_DELETION = [
    ("commit", [Put("d/b", {})]),
    ("commit", [Delete("d/b"), Put("d/a", {})]),
    ("commit", [Put("d/b", {}, Seen(1))]),  # type: ignore[arg-type]  # the place of a time
]


@pytest.mark.slow
@emulated
@example(TIME_OF_A_DELETION)
@given(st.lists(calls, min_size=1, max_size=5))
def test_both_stores_make_the_same_of_any_writes(firestore: FirestoreStore, sequence: list[Any]) -> None:
    firestore.commit([Delete(path) for path in PATHS])
    runs = (Run(MemoryStore(lambda: datetime.now(UTC))), Run(firestore))
    for call, writes in sequence:
        in_memory, emulated_ = (run.outcome(call, writes) for run in runs)
        assert in_memory == emulated_
        in_memory, emulated_ = (run.states() for run in runs)
        assert in_memory == emulated_


@emulated
@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_any_json_object_is_stored_alike_or_refused_alike_by_both(
    firestore: FirestoreStore, memory: MemoryStore, data: dict[str, Any]
) -> None:
    assert stored(memory, data) == stored(firestore, data)


def stored(store: Store, data: Data) -> object:
    """Store it: either it comes back as it was, or there is a reason."""
    try:
        store.commit([Put("d/a", data)])
    except Problem as refusal:
        return type(refusal), refusal.detail, refusal.field
    back = store.read("d/a")[0].data
    assert repr(back) == repr(_sorted(data))
    return repr(back)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


V: Field = ("v",)
W: Field = ("w", "x.y")
comparable = storable.filter(lambda value: value is not None and value == value)
conditions = st.one_of(
    st.builds(Condition, st.sampled_from([V, W]), st.sampled_from(["==", "!="]), storable),
    st.builds(
        Condition, st.sampled_from([V, W]), st.sampled_from(["<", "<=", ">", ">=", "array_contains"]), comparable
    ),
    st.builds(Condition, st.sampled_from([V, W]), st.just("in"), st.lists(storable, min_size=1, max_size=3)),
)
orders = st.lists(st.builds(Order, st.sampled_from([V, W]), st.booleans()), max_size=2, unique_by=lambda o: o.field)
queries = st.builds(
    Query,
    st.just("d"),
    st.lists(conditions, max_size=2).map(tuple),
    orders.map(tuple),
    st.integers(1, 4),
)
shelves = st.lists(
    st.fixed_dictionaries({}, optional={"v": storable, "w": st.fixed_dictionaries({}, optional={"x.y": storable})}),
    min_size=8,
    max_size=8,
)


def paged(store: Store, query: Query) -> Iterator[list[str]]:
    """Follow the cursor to the end."""
    fields = [order.field for order in full_order(query)]
    while page := store.query(query):
        yield [snapshot.id for snapshot in page]
        last = page[-1]
        query = replace(query, after=(*(value_at(last.data or {}, field) for field in fields), last.id))


def answers(store: Store, query: Query) -> object:
    try:
        pages = list(paged(store, query))
        return pages, store.count(query)
    except Problem as refusal:
        return type(refusal)


@pytest.mark.slow
@emulated
@given(shelves, st.lists(queries, min_size=3, max_size=3))
def test_both_stores_answer_any_query_alike(
    firestore: FirestoreStore, memory: MemoryStore, shelf: list[Data], queries: list[Query]
) -> None:
    for store in (firestore, memory):
        store.commit([Put(f"d/{n}", data) for n, data in enumerate(shelf)])
    for query in queries:
        assert answers(memory, query) == answers(firestore, query)
