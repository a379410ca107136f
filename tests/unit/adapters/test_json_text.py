"""JSON in and out: nothing that JSON cannot say, in either direction."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signalbox.adapters.http.json_bodies import parse, render
from signalbox.core.problems import NotJson

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
@settings(max_examples=150)
def test_every_json_value_comes_back_as_it_was(value: Any) -> None:
    assert repr(parse(render(value))) == repr(value)


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2, "a": 1}', '[{"x": {"a": 1, "a": 2}}]'])
def test_a_key_given_twice_is_refused_by_name(text: str) -> None:
    with pytest.raises(NotJson) as refusal:
        parse(text.encode())
    assert refusal.value.field == "a"


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", "-Infinity", "1e999", "-1e999", "1" * 101, "9" * 5000, "'a'", "01"]
)
def test_a_number_or_word_that_json_lacks_is_refused(text: str) -> None:
    with pytest.raises(NotJson):
        parse(text.encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
def test_another_encoding_than_utf_8_is_refused(encoding: str) -> None:
    with pytest.raises(NotJson):
        parse('["é"]'.encode(encoding))


def test_a_byte_order_mark_is_ignored() -> None:
    assert parse("[1]".encode("utf-8-sig")) == [1]


def test_times_are_written_in_utc() -> None:
    moment = datetime(2026, 1, 31, 13, 0, 0, 120, tzinfo=timezone(timedelta(hours=1)))
    assert render({"at": moment}) == b'{"at": "2026-01-31T12:00:00.000120Z"}'


def test_numbers_that_json_lacks_are_written_as_null() -> None:
    assert json.loads(render({"a": [float("nan"), 1.5, (float("inf"),)]})) == {"a": [None, 1.5, [None]]}


def test_a_lone_surrogate_is_rendered_as_its_escape() -> None:
    assert render(["\ud800é"]) == b'["\\ud800\xc3\xa9"]'


def test_what_json_cannot_render_raises_a_type_error() -> None:
    with pytest.raises(TypeError, match="set"):
        render({1})
