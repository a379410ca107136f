"""The SQLite store does what the in-memory store does, whatever the calls: random programs of writes, queries, counts.

The first query that needs an index makes it, and later commits update it, so queries run between writes. `EXAMPLES`
sets the number of programs.
"""

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cmp_to_key
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from signalbox.adapters.sqlite import store as sqlite_store
from signalbox.adapters.sqlite.file import Clock
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.adapters.sqlite.values import decoded, encoded, order_preserving_key
from signalbox.core.ports import Data, Delete, Must, Put, Query, Store
from signalbox.core.problems import Problem
from signalbox.core.query_checks import full_order
from signalbox.core.records.queries import ID, Condition, Order
from signalbox.core.records.value_order import order_key
from signalbox.core.times import instant, microseconds
from signalbox.testing.memory_store import MemoryStore
from tests.contract.generated_values import records, storable
from tests.contract.test_contract_differential import TIME_OF_A_DELETION, Run, V, W, calls, comparable

EXAMPLES = int(os.environ.get("EXAMPLES", "40"))
BEGAN = microseconds(datetime.now(UTC))
STEP = 2_000

generated = settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    print_blob=True,
)

_folder = tempfile.TemporaryDirectory()
_numbers = itertools.count()


def clock() -> Callable[[], int]:
    """Return a clock that advances by more than a millisecond at each look: no two server times are equal."""
    looks = itertools.count(BEGAN, STEP)
    return lambda: next(looks)


@contextmanager
def stores() -> Iterator[tuple[MemoryStore, SqliteStore]]:
    """Open an empty store of each kind."""
    file = Path(_folder.name, f"{next(_numbers)}.sqlite")
    in_memory, in_file = clock(), clock()

    def now() -> datetime:
        return instant(in_memory())

    with closing(SqliteStore(file, synchronous="OFF", clock=Clock(in_file, in_file))) as opened:
        yield MemoryStore(now), opened
    for left in file.parent.glob(f"{file.name}*"):
        left.unlink()


@generated
@given(st.lists(storable, min_size=2, max_size=12))
def test_keys_have_the_order_of_values_and_none_is_a_prefix_of_another(values: list[Any]) -> None:
    def compared(one: Any, other: Any) -> int:
        return (order_key(one) > order_key(other)) - (order_key(one) < order_key(other))

    by_order = sorted(values, key=cmp_to_key(compared))
    by_key = sorted(values, key=order_preserving_key)
    assert [order_key(value) for value in by_order] == [order_key(value) for value in by_key]
    for one, other in itertools.product(values, repeat=2):
        key, other_key = order_preserving_key(one), order_preserving_key(other)
        assert (key == other_key) == (order_key(one) == order_key(other))
        assert key == other_key or not other_key.startswith(key)


@generated
@given(records)
def test_the_text_of_a_record_contains_all_of_it(data: Data) -> None:
    assert encoded(decoded(encoded(data))) == encoded(data)


@generated
@example(TIME_OF_A_DELETION)
@given(st.lists(calls, min_size=1, max_size=8))
def test_any_writes_have_the_outcomes_that_they_have_in_memory(sequence: list[Any]) -> None:
    with stores() as both:
        runs = [Run(store) for store in both]
        for call, writes in sequence:
            in_memory, in_file = (run.outcome(call, writes) for run in runs)
            assert in_memory == in_file
            in_memory, in_file = (run.states() for run in runs)
            assert in_memory == in_file


IDS = ("a", "b", "a\0", "é", "a!", "😀")
COLLECTIONS = ("d", "d", "d", "p/a/d", "p/b/d", "p/a!/d", "p/a\0/d", "p/a/e")  # most in one, so that queries find some
FIELDS = (V, W, ("x",))

small = st.sampled_from([0, 1, 2, 1.0, "a", None, float("nan")])
values = small | small | storable
shelves = st.fixed_dictionaries(
    {"x": small},
    optional={
        "v": values,
        "w": st.fixed_dictionaries({}, optional={"x.y": values | st.lists(st.integers(0, 3), max_size=3)}),
    },
)
conditions = st.one_of(
    st.builds(Condition, st.sampled_from(FIELDS), st.sampled_from(["==", "!="]), values),
    st.builds(
        Condition,
        st.sampled_from(FIELDS),
        st.sampled_from(["<", "<=", ">", ">=", "array_contains"]),
        comparable | st.integers(0, 3),
    ),
    st.builds(Condition, st.sampled_from(FIELDS), st.just("in"), st.lists(values, min_size=1, max_size=3)),
    st.builds(Condition, st.just(ID), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), st.sampled_from(IDS)),
    st.builds(Condition, st.just(ID), st.just("in"), st.lists(st.sampled_from(IDS), min_size=1, max_size=3)),
)
orders = st.lists(st.builds(Order, st.sampled_from(FIELDS), st.booleans()), max_size=3, unique_by=lambda o: o.field)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Draw a query, valid or not, with or without a cursor, of a collection or of a group."""
    group = draw(st.booleans())
    where, order_by = tuple(draw(st.lists(conditions, max_size=2))), tuple(draw(orders))
    if group and draw(st.integers(0, 9)):
        where = tuple(condition for condition in where if condition.field != ID)
    query = Query(
        "d" if group else draw(st.sampled_from(COLLECTIONS)),
        where,
        order_by,
        draw(st.integers(1, 6)),
        bytes_max=draw(st.none() | st.integers(0, 60)),
        group=group,
    )
    if group or draw(st.integers(0, 3)):
        return query
    after = tuple(draw(values) for _ in full_order(query))
    return replace(query, after=(*after, draw(st.sampled_from(IDS))))


paths = st.builds(lambda collection, id_: f"{collection}/{id_}", st.sampled_from(COLLECTIONS), st.sampled_from(IDS))
changes = st.lists(
    st.builds(Put, paths, shelves) | st.builds(Delete, paths), min_size=3, max_size=8, unique_by=lambda w: w.path
)
programs = st.lists(changes | st.lists(queries(), min_size=1, max_size=3), min_size=2, max_size=8)


def answer(store: Store, query: Query) -> object:
    try:
        found = [(snapshot.path, repr(snapshot.data)) for snapshot in store.query(query)]
        return found, store.count(query)
    except Problem as refusal:
        return type(refusal), refusal.detail


@generated
@given(st.lists(shelves, min_size=len(IDS), max_size=len(IDS)), programs, st.sampled_from([1, 3, 1_000]))
def test_any_query_between_any_writes_has_the_answer_that_it_has_in_memory(
    shelf: list[Data], program: list[Any], records_a_piece: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, stores() as (memory, sqlite):
        patch.setattr(sqlite_store, "RECORDS_A_PIECE", records_a_piece)
        for store in (memory, sqlite):
            store.commit([Put(f"d/{id_}", data) for id_, data in zip(IDS, shelf, strict=True)])
        for step in program:
            if isinstance(step[0], Query):
                for query in step:
                    assert answer(memory, query) == answer(sqlite, query), query
            else:
                for store in (memory, sqlite):
                    store.commit(step)


@generated
@given(
    st.lists(st.builds(Put, paths, shelves, st.just(Must.NOT_EXIST)), max_size=6, unique_by=lambda w: w.path),
    st.lists(paths, max_size=4),
    st.lists(paths, max_size=6),
    st.integers(0, 80),
)
def test_reading_some_ends_where_it_ends_in_memory(
    written: list[Put], needed: list[str], others: list[str], bytes_max: int
) -> None:
    with stores() as both:
        read = []
        for store in both:
            if written:
                store.commit(written)
            read.append([(each.path, repr(each.data)) for each in store.read_some(needed, others, bytes_max)])
        assert read[0] == read[1]
