"""JSON values as they are compared, measured, stored and refused."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbox.core import json_values
from signalbox.core.limits import LIMITS
from signalbox.core.problems import BadValue, TooDeep
from signalbox.core.records import record_values
from signalbox.core.records.record_values import RECORD

NAMES = st.sampled_from(["a", "é", "a.b", "[]", "[][]", "[][][]", "[", "[]x", "__", "key"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=10
)


def nested(levels: int, inner: Any) -> Any:
    """Put a value under so many objects."""
    for _ in range(levels):
        inner = {"a": inner}
    return inner


def levels(stored: Any) -> int:
    """Count maps and lists inside each other, naively."""
    if not isinstance(stored, dict | list):
        return 0
    return 1 + max(map(levels, stored.values() if isinstance(stored, dict) else stored), default=0)


def lists_in_lists(stored: Any) -> int:
    if not isinstance(stored, dict | list):
        return 0
    inner = list(stored.values()) if isinstance(stored, dict) else stored
    return sum(map(lists_in_lists, inner)) + (isinstance(stored, list) and any(isinstance(one, list) for one in inner))


def documented_bytes(stored: Any) -> int:
    """Count bytes as Firestore's page on storage size does; the emulator charges empty maps and lists a byte."""
    if isinstance(stored, dict):
        return sum(documented_bytes(name) + documented_bytes(item) for name, item in stored.items()) or 1
    if isinstance(stored, list):
        return sum(map(documented_bytes, stored)) or 1
    if isinstance(stored, str):
        return len(stored.encode()) + 1
    return 1 if stored is None or isinstance(stored, bool) else 8


@given(JSON)
def test_every_value_comes_back_as_it_went_in(value: Any) -> None:
    assert json_values.canonical(json_values.decode(json_values.encode(value))) == json_values.canonical(value)


@given(JSON)
def test_what_is_stored_has_no_list_in_a_list(value: Any) -> None:
    assert lists_in_lists(json_values.encode(value)) == 0


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ([[1], [[]]], [{"[]": [1]}, {"[]": [{"[]": []}]}]),
        ({"[]": [1]}, {"[][]": [1]}),
        ({"[][]": 1}, {"[][][]": 1}),
        ({"[]": 1, "a": 2}, {"[]": 1, "a": 2}),
        ({"[]x": 1}, {"[]x": 1}),
        ([{"[]": 1}], [{"[][]": 1}]),
    ],
)
def test_a_list_in_a_list_is_a_map_and_a_map_that_looks_so_is_distinguished(value: Any, stored: Any) -> None:
    assert json_values.encode(value) == stored
    assert json_values.decode(stored) == value


@given(JSON)
def test_the_size_is_what_the_store_counts(value: Any) -> None:
    assert json_values.size_bytes(value) == documented_bytes(json_values.encode(value))


@pytest.mark.parametrize(
    ("value", "size_bytes"),
    [(None, 1), (True, 1), (0, 8), (0.5, 8), ("", 1), ("é", 3), ({"a": "bc"}, 5), ([1, "a"], 10), ([], 1), ([[]], 4)],
)
def test_sizes_follow_the_storage_formula(value: Any, size_bytes: int) -> None:
    assert json_values.size_bytes(value) == size_bytes


@given(JSON)
def test_the_depth_is_that_of_what_is_stored(value: Any) -> None:
    assert json_values.depth(value) == levels(json_values.encode(value))


@given(JSON, st.integers(LIMITS.depth_max - 6, LIMITS.depth_max))
def test_what_is_stored_deeper_than_the_limit_is_refused_and_nothing_else_is(value: Any, objects: int) -> None:
    content = nested(objects, value)
    if levels(json_values.encode(content)) > LIMITS.depth_max:
        with pytest.raises(TooDeep):
            json_values.check(content)
    else:
        json_values.check(content)
        RECORD.check_map(json_values.encode(content).items())  # raises if the store would not hold it


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (nested(21, 1), ".".join("a" * 20)),
        (nested(18, [[]]), ".".join("a" * 18) + "[0]"),
        ({"a": [{"b": [[[[[[[[[[]]]]]]]]]]}]}, "a[0].b" + "[0]" * 9),
    ],
)
def test_what_is_too_deep_is_named_at_the_place_where_it_goes_too_deep(content: Any, field: str) -> None:
    with pytest.raises(TooDeep) as refused:
        json_values.check(content)
    assert (refused.value.status, refused.value.field) == (400, field)


@pytest.mark.parametrize("value", [1, 1.0, True, "1", None, [], {}, "", 0, -0.0, 0.0, False, [1], {"a": 1}])
def test_a_value_is_the_same_as_itself_alone(value: Any) -> None:
    others = [1, 1.0, True, "1", None, [], {}, "", 0, -0.0, 0.0, False, [1], {"a": 1}]
    same = [other for other in others if json_values.canonical(other) == json_values.canonical(value)]
    assert [repr(one) for one in same] == [repr(value)]


def test_the_order_of_names_does_not_make_another_value() -> None:
    assert json_values.canonical({"b": 1, "a": {"d": 1, "c": 2}}) == '{"a":{"c":2,"d":1},"b":1}'
    assert json_values.canonical({"a": {"c": 2, "d": 1}, "b": 1}) == '{"a":{"c":2,"d":1},"b":1}'


def test_a_time_that_another_client_stored_has_a_text() -> None:
    assert json.loads(json_values.canonical([datetime(2026, 1, 1, tzinfo=UTC)])) == ["2026-01-01T00:00:00+00:00"]


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"a": {"": 1}}, "a."),
        ({"a": {"__b__": 1}}, "a.__b__"),
        ({"____": 1}, "____"),
        ({"__\n__": 1}, "__\n__"),
        ({"a": [1, {"é" * 751: 1}]}, "a[1]." + "é" * 751),
        ({"a": [2**63]}, "a[0]"),
        ({"a": {"b": -(2**63) - 1}}, "a.b"),
        ({"a": ["x", "\ud800"]}, "a[1]"),
        ({"a": {"\udfff": 1}}, "a.\\udfff"),
    ],
)
def test_what_firestore_cannot_hold_is_refused_with_the_fields_name(content: Any, field: str) -> None:
    with pytest.raises(BadValue) as refused:
        json_values.check(content)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "content",
    [
        {"__a": 1, "a__": 1, "__": 1, "___": 1},
        {"é" * 750: 1},
        {"n": [2**63 - 1, -(2**63), 2.0**63, 1e308]},
        {"t": "😀" * 700},
        {"a.b": {"c d": [[], {}, [[]]]}},
    ],
)
def test_what_firestore_can_hold_is_accepted(content: Any) -> None:
    json_values.check(content)
    RECORD.check_map(json_values.encode(content).items())


@pytest.mark.parametrize(
    ("at", "name"),
    [((), ""), (("a",), "a"), (("a", 0, "b", 12), "a[0].b[12]"), (("a", 0, 1), "a[0][1]"), (("\ud800",), "\\ud800")],
)
def test_a_field_is_named_as_people_write_it(at: record_values.Path, name: str) -> None:
    assert record_values.field_name(at) == name


@pytest.mark.parametrize("inner", [{"": 1}, [{"": 1}], [[{"": 1}]], [[[1, {"": 1}]]], {"[]": {"": 1}}])
@pytest.mark.parametrize("beyond", [0, 1])
def test_the_longest_path_that_fits_is_the_longest_that_a_store_takes(inner: Any, beyond: int) -> None:
    text = json.dumps({"o": inner, "n": 1})
    bare = json_values.path_bytes(json.loads(text))
    value = json.loads(text.replace('""', f'"{"é" + "m" * (1_501 - 2 - bare + beyond)}"'))
    assert json_values.fits(value) is not bool(beyond)
    if beyond:
        with pytest.raises(BadValue):
            RECORD.check_map(json_values.encode(value).items())
    else:
        RECORD.check_map(json_values.encode(value).items())
