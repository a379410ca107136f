"""Independent writes: each has its own guard and its own outcome, in its own place."""

import pytest

from signalbox.core.ports import (
    AlreadyExists,
    Change,
    Delete,
    Increment,
    Must,
    Put,
    RecordMissing,
    Stale,
    Store,
    WriteResult,
)
from signalbox.core.problems import BadKey, BadValue, TooLarge


def test_outcomes_are_in_the_order_of_their_writes(store: Store) -> None:
    old = store.commit([Put("d/stale", {"n": 1}), Put("d/there", {"n": 1})]).commit_time
    store.commit([Put("d/stale", {"n": 2})])
    outcomes = store.write_each(
        [
            Put("d/new", {"n": 1}),
            Put("d/stale", {"n": 3}, guard=old),
            Put("d/bad", {"n": {1, 2}}),
            Change("d/there", {("n",): Increment(4)}, guard=old),
            Put("d/no/sub", {}),
            Change("d/missing", {("n",): 1}),
            Delete("d/nothing"),
            Put("d/full", {"x": "x" * 1_048_500}),
            Put("d/there2", {"n": 1}, guard=Must.NOT_EXIST),
        ]
    )
    assert [type(outcome) for outcome in outcomes] == [
        WriteResult,
        Stale,
        BadValue,
        WriteResult,
        BadKey,
        RecordMissing,
        WriteResult,
        TooLarge,
        WriteResult,
    ]
    assert isinstance(outcomes[3], WriteResult)
    assert outcomes[3].values == {("n",): 5}
    paths = ("d/new", "d/stale", "d/bad", "d/there", "d/missing", "d/full", "d/there2")
    assert [s.data for s in store.read(*paths)] == [{"n": 1}, {"n": 2}, None, {"n": 5}, None, None, {"n": 1}]


def test_creating_what_exists_fails_alone(store: Store) -> None:
    store.commit([Put("d/a", {"n": 1})])
    outcomes = store.write_each([Put("d/a", {}, guard=Must.NOT_EXIST), Put("d/b", {}, guard=Must.NOT_EXIST)])
    assert [type(outcome) for outcome in outcomes] == [AlreadyExists, WriteResult]


def test_a_result_carries_the_time_the_record_was_updated(store: Store) -> None:
    first = store.commit([Put("d/same", {"n": 1})]).commit_time
    outcomes = store.write_each([Put("d/same", {"n": 1}), Put("d/b", {"n": 1}), Delete("d/c")])
    assert [outcome.update_time for outcome in outcomes if isinstance(outcome, WriteResult)] == [
        first,
        store.read("d/b")[0].update_time,
        None,
    ]


def test_five_hundred_writes_are_one_call_and_one_more_is_a_mistake(store: Store) -> None:
    writes = [Put(f"d/{n:04}", {"n": n}) for n in range(501)]
    outcomes = store.write_each(writes[:500])
    assert {type(outcome) for outcome in outcomes} == {WriteResult}
    assert [s.data for s in store.read("d/0000", "d/0499")] == [{"n": 0}, {"n": 499}]
    with pytest.raises(ValueError, match="500"):
        store.write_each(writes)


def test_more_bytes_than_one_request_takes_are_written_all_the_same(store: Store) -> None:
    outcomes = store.write_each([Put(f"d/{n}", {"x": str(n) * 900_000}) for n in range(8)])
    assert {type(outcome) for outcome in outcomes} == {WriteResult}
    assert [len((s.data or {})["x"]) for s in store.read(*(f"d/{n}" for n in range(8)))] == [900_000] * 8


def test_a_record_named_twice_is_a_mistake(store: Store) -> None:
    with pytest.raises(ValueError, match="once"):
        store.write_each([Put("d/a", {}), Put("d/a", {})])


def test_no_writes_have_no_outcomes(store: Store) -> None:
    assert store.write_each([]) == ()


def test_an_empty_commit_lands(store: Store) -> None:
    assert store.commit([]).results == ()
