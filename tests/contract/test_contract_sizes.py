"""Reads and queries that end early, by the bytes of what they have read."""

from collections.abc import Sequence

import pytest

from signalbox.core.ports import Put, Query, Store, is_full, snapshot_bytes
from signalbox.core.records.queries import Order

TEN = [f"c/{number}" for number in range(10)]
KILOBYTE = {"text": "x" * 994}


@pytest.fixture(autouse=True)
def _stored(store: Store) -> None:
    store.write_each([Put(path, KILOBYTE) for path in TEN])


def read(store: Store, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[list[str], list[str]]:
    """Return the paths read of the needed and of the other ones."""
    found = store.read_some(needed, others, bytes_max)
    assert len({each.read_time for each in found}) == 1
    paths = [each.path for each in found]
    assert paths == [path for path in (*needed, *others) if path in paths], "in the order of the paths"
    return paths[: len(needed)], paths[len(needed) :]


def test_a_record_of_the_test_takes_a_kilobyte(store: Store) -> None:
    assert snapshot_bytes(store.read("c/0")[0]) == 1_000


@pytest.mark.parametrize(("bytes_max", "others"), [(1, 1), (2_000, 1), (2_001, 2), (4_000, 3), (10_001, 9)])
def test_reading_some_ends_with_the_record_that_reaches_the_bytes(store: Store, bytes_max: int, others: int) -> None:
    needed, rest = read(store, TEN[:1], TEN[1:], bytes_max)
    assert (needed, len(rest)) == (TEN[:1], others)


def test_all_needed_records_are_read_whatever_they_take_and_one_more(store: Store) -> None:
    needed, rest = read(store, TEN[:7], TEN[7:], 1)
    assert (needed, len(rest)) == (TEN[:7], 1)


def test_nothing_but_needed_records_can_be_asked_for(store: Store) -> None:
    assert read(store, TEN, [], 1) == (TEN, [])


@pytest.mark.parametrize("bytes_max", [1, 10_001])
def test_a_path_that_occurs_twice_is_read_once_and_returned_at_each_place(store: Store, bytes_max: int) -> None:
    found = store.read_some(["c/0", "c/1", "c/0"], ["c/1", "c/0"], bytes_max)
    assert [each.path for each in found] == ["c/0", "c/1", "c/0", "c/1", "c/0"]


def test_a_needed_path_among_the_others_does_not_count_as_one_of_them(store: Store) -> None:
    found = store.read_some(["c/0"], ["c/0", "c/1", "c/2"], 1)
    assert [each.path for each in found][:2] == ["c/0", "c/0"]
    assert len(found) == 3


def test_records_that_are_missing_are_read_and_take_nothing(store: Store) -> None:
    found = store.read_some(["c/none"], ["c/no", "c/9"], 1_001)
    assert [(each.path, each.data is None) for each in found] == [("c/none", True), ("c/no", True), ("c/9", False)]


@pytest.mark.parametrize(("bytes_max", "count"), [(1, 1), (1_000, 1), (1_001, 2), (10_000, 10), (None, 10)])
def test_a_page_ends_with_the_record_that_reaches_the_bytes(store: Store, bytes_max: int | None, count: int) -> None:
    query = Query("c", order_by=(Order(("text",)),), bytes_max=bytes_max)
    page = store.query(query)
    assert [each.path for each in page] == TEN[:count]
    assert is_full(query, page) == (bytes_max is not None)


def test_the_page_after_begins_behind_the_last_record(store: Store) -> None:
    query = Query("c", bytes_max=6_000, after=("3",))
    page = store.query(query)
    assert [each.path for each in page] == TEN[4:]
    assert is_full(query, page)
