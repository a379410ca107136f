"""Values survive their encoding, kinds and all: in the API's messages and in those of events."""

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from google.cloud.firestore_v1.types import Value
from google.events.cloud.firestore import Value as EventValue
from hypothesis import example, given
from hypothesis import strategies as st

from signalbox.adapters.firestore.values import decode, field_path, fill
from signalbox.core.ports import Put, Query, Store
from signalbox.core.problems import BadValue
from signalbox.core.records.queries import Condition, Order
from signalbox.core.records.record_values import RECORD, same, size_bytes
from signalbox.core.records.value_order import order_key
from signalbox.core.times import instant, microseconds
from signalbox.core.write_effects import copied
from tests.contract.generated_values import anything, storable


def encoded(value: Any) -> Any:
    message = Value.pb()()
    fill(message, value)
    return message


@given(storable)
def test_a_value_survives_the_messages_of_the_api_and_of_events(value: Any) -> None:
    bytes_ = encoded(value).SerializeToString()
    for kind in (Value, EventValue):
        assert same(decode(kind.pb().FromString(bytes_)), value)


@given(storable)
def test_a_copy_is_alike_and_shares_nothing_that_can_change(value: Any) -> None:
    copy = copied(value)
    assert same(copy, value)
    if isinstance(value, dict | list) and value:
        copy.clear()
        assert len(value) > 0


@given(storable)
def test_nothing_storable_is_refused(value: Any) -> None:
    RECORD.check(value, ("f",))
    assert size_bytes(value) >= 1


@given(anything)
@example([[1]])
@example({"a": [{"b": ({},)}]})
def test_a_value_is_refused_or_survives(value: Any) -> None:
    try:
        RECORD.check(value, ("f",))
    except BadValue:
        return
    assert same(decode(encoded(value)), copied(value))


@given(storable, storable)
def test_values_that_are_stored_alike_are_equal_in_the_order(one: Any, other: Any) -> None:
    assert order_key(one) == order_key(copied(one))
    assert not same(one, other) or order_key(one) == order_key(other)


@given(st.datetimes(timezones=st.timezones()))
def test_an_instant_is_exact_to_the_microsecond(moment: datetime) -> None:
    try:
        in_utc = moment.astimezone(UTC)
    except OverflowError:
        return
    decoded = decode(encoded(moment))
    assert (decoded, decoded.tzinfo) == (in_utc, UTC)
    assert instant(microseconds(moment)) == in_utc


def test_an_instant_comes_back_in_utc() -> None:
    moment = datetime(2020, 1, 1, 1, 30, 0, 1, tzinfo=timezone(timedelta(hours=1)))
    assert repr(decode(encoded([moment]))) == repr([datetime(2020, 1, 1, 0, 30, 0, 1, tzinfo=UTC)])


def test_the_same_number_of_another_kind_is_another_value() -> None:
    values = [True, 1, 1.0, False, 0, 0.0, -0.0, None, "", "1"]
    assert repr(decode(encoded(values))) == repr(values)
    assert math.copysign(1, decode(encoded(-0.0))) == -1


FOREIGN = [
    {"__bytes__": ""},
    {"__bytes__": "AAE="},
    {"__reference__": "projects/p/databases/(default)/documents/d/a"},
    {"__reference__": "projects/p/databases/(default)/documents/d/b"},
    {"__geo_point__": [-0.5, 2.25]},
    {"__geo_point__": [0.0, 0.0]},
]
"""In Firestore's order."""


@pytest.mark.parametrize("value", FOREIGN, ids=repr)
def test_a_kind_that_only_other_clients_write_comes_back_as_it_went_in(value: dict[str, Any]) -> None:
    message = encoded(value)
    assert message.WhichOneof("value_type") in {"bytes_value", "reference_value", "geo_point_value"}
    assert decode(message) == value


def test_both_stores_hold_order_and_find_what_only_other_clients_write(store: Store) -> None:
    store.commit([Put(f"d/{index}", {"v": value}) for index, value in enumerate(FOREIGN)])
    store.commit([Put("d/text", {"v": "\uffff"}), Put("d/list", {"v": []})])
    found = store.query(Query("d", order_by=(Order(("v",)),)))
    assert [each.id for each in found] == ["text", "0", "1", "2", "3", "4", "5", "list"]
    assert [each.data for each in found[1:7]] == [{"v": value} for value in FOREIGN]
    for index, value in enumerate(FOREIGN):
        [one] = store.query(Query("d", (Condition(("v",), "==", value),)))
        assert one.id == str(index)


@pytest.mark.parametrize(
    "value",
    [
        {"__bytes__": 1},
        {"__bytes__": "é"},
        {"__bytes__": "AAE"},
        {"__geo_point__": [91, 0]},
        {"__geo_point__": [0]},
        {"__geo_point__": [True, 0]},
        {"__reference__": None},
        {"__bytes__": "", "a": 1},
    ],
    ids=repr,
)
def test_what_only_looks_like_another_clients_value_is_refused(store: Store, value: dict[str, Any]) -> None:
    with pytest.raises(BadValue):
        store.commit([Put("d/a", {"v": value})])


@pytest.mark.parametrize(
    ("field", "path"),
    [
        (("a", "_b1", "C"), "a._b1.C"),
        (("a.b", "c"), "`a.b`.c"),
        (("1a",), "`1a`"),
        (("x`y\\z",), "`x\\`y\\\\z`"),
        (("é",), "`é`"),
        (("a\n",), "`a\n`"),
    ],
)
def test_a_field_is_written_with_odd_keys_in_backticks(field: tuple[str, ...], path: str) -> None:
    assert field_path(field) == path
