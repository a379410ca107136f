"""What a record can hold, to the byte, and what is refused: alike in both stores, where the emulator draws the line."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from signalbox.adapters.firestore import store as adapters_store
from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.core.keys import NAME_BYTES_MAX
from signalbox.core.ports import Change, Increment, Put, Query, Store
from signalbox.core.problems import BadKey, BadValue, Problem, TooLarge
from signalbox.core.records.queries import Field
from signalbox.core.records.record_values import RECORD_BYTES_MAX, TEXT_BYTES_MAX


class Own(str):
    """A text that would come back as a plain one."""

    __slots__ = ()


def nested(levels: int, kinds: str, leaf: object = 1) -> Any:
    """Wrap a leaf in maps (m) and lists (l), the first kind innermost."""
    value = leaf
    for level in range(levels):
        value = {"m": value} if kinds[level % len(kinds)] == "m" else [value]
    return value


PLAIN_RECORD_BYTES = 2 + 2 + 16 + 32
"""Of a record at d/a without fields."""

HELD: dict[str, Any] = {
    "20 maps": {"f": nested(20, "m")},
    "20 maps, the last one empty": {"f": nested(19, "m", {})},
    "20 maps and lists": {"f": nested(20, "ml")},
    "20 lists and maps": {"f": nested(20, "lm")},
    "the largest integer": {"f": 2**63 - 1},
    "the smallest integer": {"f": -(2**63)},
    "a key of underscores": {"__": 1, "___": 1, "_____x": 1, "__x": 1, "x__": 1},
    "a long key": {"k" * NAME_BYTES_MAX: 1},
    "a long key of two-byte characters": {"é" * (NAME_BYTES_MAX // 2): 1},
    "a long key in a map": {"ab": {"k" * (NAME_BYTES_MAX - 3): 1}},
    "a long key in a map in a list": {"ab": [{"k" * (NAME_BYTES_MAX - 3): 1}]},
    "a long text": {"f": "x" * TEXT_BYTES_MAX},
    "a full record": {"f": "x" * 600_000, "g": "x" * (RECORD_BYTES_MAX - PLAIN_RECORD_BYTES - 6 - 600_000)},
    "a record full of small values": {
        "f": [1, None, True, 1.5, {"a": 1, "bb": {}}] * 1_000,
        "g": "é" * ((RECORD_BYTES_MAX - PLAIN_RECORD_BYTES - 5 - 1_000 * (8 + 1 + 1 + 8 + (2 + 8) + (3 + 1))) // 2),
    },
    "the first and the last instant": {"f": [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]},
    "empty values": {"f": {}, "g": [], "h": "", "i": [{}], "j": {"x": []}},
    "control characters": {"f": "\0\x01\n\u2028", "\0": 1},
    "infinities and extremes": {"f": [float("inf"), float("-inf"), float("nan"), -0.0, 5e-324]},
}

REFUSED_BY_BOTH: dict[str, tuple[Any, type[Problem], str]] = {
    "21 maps": ({"f": nested(21, "m")}, BadValue, "f" + ".m" * 20),
    "21 maps, the last one empty": ({"f": nested(20, "m", {})}, BadValue, "f" + ".m" * 20),
    "21 maps and lists": ({"f": nested(21, "ml")}, BadValue, "f" + ".m[0]" * 10),
    "a list in a list": ({"f": {"x": [1, [1]]}}, BadValue, "f.x[1]"),
    "an empty list in a list": ({"f": [[]]}, BadValue, "f[0]"),
    "a reserved key": ({"__x__": 1}, BadValue, "__x__"),
    "a reserved key in a map": ({"f": [{"__x__": 1}]}, BadValue, "f[0].__x__"),
    "an empty key": ({"": 1}, BadValue, ""),
    "an empty key in a map": ({"f": {"": 1}}, BadValue, "f."),
    "a key too long": ({"k" * (NAME_BYTES_MAX + 1): 1}, BadValue, "k" * (NAME_BYTES_MAX + 1)),
    "a key too long in a map": ({"ab": {"k" * (NAME_BYTES_MAX - 2): 1}}, BadValue, "ab." + "k" * (NAME_BYTES_MAX - 2)),
    "a key too long in a map in a list": (
        {"a": [{"k" * (NAME_BYTES_MAX - 1): 1}]},
        BadValue,
        "a[0]." + "k" * (NAME_BYTES_MAX - 1),
    ),
    "a text too long": ({"f": "x" * (TEXT_BYTES_MAX + 1)}, TooLarge, "f"),
    "a record too large": ({**HELD["a full record"], "f": "x" * 600_001}, TooLarge, ""),
    "a record of small values too large": ({**HELD["a record full of small values"], "hh": ""}, TooLarge, ""),
}

REFUSED_HERE: dict[str, tuple[Any, str]] = {
    "an integer too large": ({"f": [2**63]}, "f[0]"),
    "an integer too small": ({"f": -(2**63) - 1}, "f"),
    "a lone surrogate": ({"f": {"x": "\ud800"}}, "f.x"),
    "a lone surrogate in a key": ({"f": {"\udfff": 1}}, "f.\\udfff"),
    "a key that is no text": ({"f": {1: 2}}, "f[1]"),
    "a reserved key of underscores": ({"____": 1}, "____"),
    "a tuple": ({"f": (1,)}, "f"),
    "a set": ({"f": {"x": {1}}}, "f.x"),
    "bytes": ({"f": b""}, "f"),
    "an object": ({"f": object()}, "f"),
    "a text of a type of its own": ({"f": Own("own")}, "f"),
    "a naive time": ({"f": datetime(2020, 1, 1)}, "f"),  # noqa: DTZ001 - what is refused
    "a time before the year 1 in UTC": ({"f": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))}, "f"),
    "a time after the year 9999 in UTC": ({"f": datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))}, "f"),
}


@pytest.mark.parametrize("data", HELD.values(), ids=HELD)
def test_a_record_holds_it_and_returns_it(store: Store, data: Any) -> None:
    store.commit([Put("d/a", data)])
    assert repr(store.read("d/a")[0].data) == repr(dict(sorted(data.items())))


@pytest.mark.parametrize(("data", "problem", "field"), REFUSED_BY_BOTH.values(), ids=REFUSED_BY_BOTH)
def test_a_record_refuses_it_and_names_the_place(store: Store, data: Any, problem: type[Problem], field: str) -> None:
    with pytest.raises(problem) as refusal:
        store.commit([Put("d/b", {"n": 1}), Put("d/a", data)])
    assert (refusal.value.field or "") == field
    assert [snapshot.data for snapshot in store.read("d/a", "d/b")] == [None, None]


@pytest.mark.parametrize(("data", "problem", "_field"), REFUSED_BY_BOTH.values(), ids=REFUSED_BY_BOTH)
def test_the_emulator_refuses_it_too(
    firestore: FirestoreStore, monkeypatch: pytest.MonkeyPatch, data: Any, problem: type[Problem], _field: str
) -> None:
    monkeypatch.setattr(adapters_store, "check_commit", list)
    with pytest.raises(problem if data != REFUSED_BY_BOTH["a text too long"][0] else Problem):
        firestore.commit([Put("d/a", data)])


@pytest.mark.parametrize(("data", "field"), REFUSED_HERE.values(), ids=REFUSED_HERE)
def test_a_record_refuses_what_the_documentation_rules_out_or_no_message_can_hold(
    store: Store, data: Any, field: str
) -> None:
    with pytest.raises(BadValue) as refusal:
        store.commit([Put("d/a", data)])
    assert refusal.value.field == field


def test_a_field_has_at_most_twenty_keys_and_its_value_the_rest(store: Store) -> None:
    store.commit([Put("d/a", {})])
    store.commit([Change("d/a", {("m",) * 20: {}})])
    store.commit([Change("d/a", {("n", *("m",) * 19): Increment(1)})])
    refused: list[dict[Field, Any]] = [
        {("m",) * 21: 1},
        {("m",) * 20: {"m": {}}},
        {("m",) * 21: Increment(1)},
        {(): 1},
    ]
    for fields in refused:
        with pytest.raises(BadValue):
            store.commit([Change("d/a", fields)])
    assert store.read("d/a")[0].data == {"m": nested(19, "m", {}), "n": nested(19, "m", 1)}


@pytest.mark.parametrize("value", [Increment(2**63), Increment(True)], ids=repr)
def test_server_values_are_checked_too(store: Store, value: object) -> None:
    store.commit([Put("d/a", {})])
    for write in (Change("d/a", {("m", "x"): value}), Put("d/a", {"x": value})):
        with pytest.raises(BadValue):
            store.commit([write])


def test_a_change_that_fills_a_record_lands_and_one_byte_more_does_not(store: Store) -> None:
    room = RECORD_BYTES_MAX - PLAIN_RECORD_BYTES - (2 + 600_001) - 3
    store.commit([Put("d/a", {"f": "x" * 600_000})])
    store.commit([Change("d/a", {("g",): "y" * room})])
    store.commit([Put("d/a", {"f": "x" * 600_000})])
    with pytest.raises(TooLarge):
        store.commit([Change("d/a", {("g",): "y" * (room + 1)})])
    assert isinstance(store.write_each([Change("d/a", {("g",): "y" * (room + 1)})])[0], TooLarge)
    assert set(store.read("d/a")[0].data or {}) == {"f"}


def test_a_record_that_shrinks_as_it_changes_never_becomes_too_large(store: Store) -> None:
    store.commit([Put("d/a", {"f": ""})])
    for letter in "abcd":
        store.commit([Change("d/a", {("f",): letter * 600_000})])
    assert store.read("d/a")[0].data == {"f": "d" * 600_000}


def test_a_commit_of_many_megabytes_is_too_large(store: Store) -> None:
    with pytest.raises(TooLarge):
        store.commit([Put(f"d/{n}", {"x": "x" * 900_000}) for n in range(5)])
    assert store.count(Query("d")) == 0


@pytest.mark.parametrize(
    "path", ["", "d", "d/", "/a", "d/a/e", "d/.", "d/..", "d/__x__", "d/____", "d//a/b", "d/" + "é" * 751, "d/\ud800"]
)
def test_a_path_that_cannot_be_is_refused(store: Store, path: str) -> None:
    with pytest.raises(BadKey):
        store.read(path)
    with pytest.raises(BadKey):
        store.commit([Put(path, {})])


@pytest.mark.parametrize(
    "path", ["d/...", "d/__", "d/__x", "d/ ", "d/" + "é" * 750, "d/a.b`c\\", "d/a/e/b/f/c", "ü/😀"]
)
def test_a_path_that_can_be_is_taken(store: Store, path: str) -> None:
    store.commit([Put(path, {"n": 1})])
    assert [s.path for s in (*store.read(path), *store.query(Query(path.rpartition("/")[0])))] == [path] * 2
