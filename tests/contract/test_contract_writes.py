"""What a write makes of a record: whole puts, changed fields, and values that the server fills in."""

from typing import Any

import pytest

from signalbox.core.ports import REMOVE, SERVER_TIME, AlreadyExists, Change, Data, Increment, Must, Put, Store, Write
from signalbox.core.problems import BadValue

ODD_KEYS = ("a.b", "", "x`y", "back\\slash", "ü", "1", "a b", "[0]", "~", "*", "/", "__", "`", "😀")


def data_of(store: Store, path: str) -> Data | None:
    return store.read(path)[0].data


def changed(store: Store, before: Data, fields: dict[tuple[str, ...], Any]) -> Data | None:
    store.commit([Put("d/a", before)])
    store.commit([Change("d/a", fields)])
    return data_of(store, "d/a")


def test_a_put_leaves_nothing_of_what_was_there(store: Store) -> None:
    store.commit([Put("d/a", {"old": 1, "both": {"x": 1}})])
    store.commit([Put("d/a", {"both": {"y": 2}})])
    assert data_of(store, "d/a") == {"both": {"y": 2}}


def test_an_empty_record_is_there(store: Store) -> None:
    store.commit([Put("d/a", {})])
    assert data_of(store, "d/a") == {}


def test_a_change_leaves_the_fields_it_does_not_name(store: Store) -> None:
    assert changed(store, {"a": 1, "b": 2, "m": {"x": 1, "y": 2}}, {("b",): 3, ("m", "y"): {"z": 4}}) == {
        "a": 1,
        "b": 3,
        "m": {"x": 1, "y": {"z": 4}},
    }


@pytest.mark.parametrize("key", [key for key in ODD_KEYS if key])
def test_a_change_takes_any_key_literally(store: Store, key: str) -> None:
    assert changed(store, {key: 1, "m": {key: 1, "b": 1}}, {("m", key): 2, (key,): 5}) == {
        key: 5,
        "m": {key: 2, "b": 1},
    }


@pytest.mark.parametrize("key", [key for key in ODD_KEYS if key])
def test_an_increment_takes_any_key_literally(store: Store, key: str) -> None:
    store.commit([Put("d/a", {key: Increment(1)})])
    result = store.commit([Change("d/a", {(key,): Increment(2)})]).results[0]
    assert (data_of(store, "d/a"), result.values) == ({key: 3}, {(key,): 3})


def test_a_write_of_a_field_inside_a_value_that_is_not_a_map_replaces_the_value(store: Store) -> None:
    assert changed(store, {"a": 5, "b": [1]}, {("a", "x", "y"): 1, ("b", "n"): Increment(1)}) == {
        "a": {"x": {"y": 1}},
        "b": {"n": 1},
    }


@pytest.mark.parametrize("native", [{"__bytes__": ""}, {"__geo_point__": [0.0, 0.0]}], ids=repr)
def test_a_write_of_a_field_inside_a_native_value_replaces_the_value(store: Store, native: Data) -> None:
    before = {"a": native, "b": {"c": native}}
    change = {("a", "x"): Increment(1), ("b", "c", "y"): 2}
    assert changed(store, before, change) == {"a": {"x": 1}, "b": {"c": {"y": 2}}}
    assert changed(store, before, {("a", "x"): REMOVE}) == before


def test_removing_takes_a_field_and_leaves_the_map_it_was_in(store: Store) -> None:
    assert changed(store, {"a": 1, "m": {"x": {"y": 1}}}, {("a",): REMOVE, ("m", "x", "y"): REMOVE}) == {"m": {"x": {}}}


def test_removing_what_is_not_there_changes_nothing(store: Store) -> None:
    before = {"a": 1, "l": [1]}
    assert (
        changed(store, before, {("q",): REMOVE, ("a", "b"): REMOVE, ("l", "x"): REMOVE, ("n", "m"): REMOVE}) == before
    )


def test_a_change_cannot_name_a_field_and_a_part_of_it(store: Store) -> None:
    store.commit([Put("d/a", {"a": 1})])
    with pytest.raises(BadValue):
        store.commit([Change("d/a", {("a",): 1, ("a", "b"): 2})])


def test_increments_answer_with_their_new_values_in_several_writes(store: Store) -> None:
    store.commit([Put("d/a", {"z": 5, "m": {"n": 1}}), Put("d/b", {"n": 10})])
    committed = store.commit(
        [
            Change("d/a", {("z",): Increment(1), ("m", "n"): Increment(2), ("a",): Increment(3)}),
            Put("d/c", {"b": Increment(7), "at": SERVER_TIME, "a": Increment(8)}, guard=Must.NOT_EXIST),
            Change("d/b", {("n",): Increment(-4), ("plain",): 1}),
        ]
    )
    assert [result.values for result in committed.results] == [
        {("z",): 6, ("m", "n"): 3, ("a",): 3},
        {("b",): 7, ("a",): 8},
        {("n",): 6},
    ]


def test_a_put_increments_from_nothing(store: Store) -> None:
    store.commit([Put("d/a", {"n": 5, "l": [1]})])
    result = store.commit([Put("d/a", {"n": Increment(1), "x": 1})]).results[0]
    assert (data_of(store, "d/a"), result.values) == ({"n": 1, "x": 1}, {("n",): 1})


@pytest.mark.parametrize(
    ("before", "by", "after"),
    [
        (1.5, 1, 2.5),
        ("text", 3, 3),
        (None, 3, 3),
        (True, 3, 3),
        (2**63 - 1, 1, 2**63 - 1),
        (-(2**63), -1, -(2**63)),
        (2**63 - 2, 1, 2**63 - 1),
        (-0.0, 0, 0.0),
    ],
)
def test_an_increment_adds_to_numbers_and_counts_from_zero_otherwise(
    store: Store, before: object, by: int, after: object
) -> None:
    store.commit([Put("d/a", {"n": before})])
    result = store.commit([Change("d/a", {("n",): Increment(by)})]).results[0]
    assert (result.values[("n",)], type(result.values[("n",)])) == (after, type(after))
    assert data_of(store, "d/a") == {"n": after}


def test_a_marker_that_exists_stops_the_increment_in_the_same_commit(store: Store) -> None:
    store.commit([Put("d/counter", {"n": 0})])
    once: list[Write] = [Put("d/marker", {}, guard=Must.NOT_EXIST), Change("d/counter", {("n",): Increment(1)})]
    store.commit(once)
    with pytest.raises(AlreadyExists):
        store.commit(once)
    assert data_of(store, "d/counter") == {"n": 1}


def test_a_server_value_inside_a_plain_value_is_refused(store: Store) -> None:
    for value in ({"x": SERVER_TIME}, [Increment(1)], {"x": REMOVE}, REMOVE):
        with pytest.raises(BadValue):
            store.commit([Put("d/a", {"v": value})])


def test_random_ids_are_twenty_letters_and_digits_and_do_not_repeat(store: Store) -> None:
    ids = {store.new_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(len(id_) == 20 and id_.isascii() and id_.isalnum() for id_ in ids)
