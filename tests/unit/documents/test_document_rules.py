"""A document as a value: keys, bodies, versions, and its record."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbox.core import json_values
from signalbox.core import keys as core_keys
from signalbox.core.problems import BadKey, BadValue, NotAnObject, Problem, TooLarge
from signalbox.documents.limits import LIMITS as DOCUMENT_LIMITS
from signalbox.documents.model import stamped_contents as model
from signalbox.documents.model.contents import Content, Surveyed, digest_of
from signalbox.documents.model.stamped_contents import RESERVED, Author, Document, Stamp
from signalbox.documents.problems import ReservedField

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_VERSION = 1_767_268_800_000_000

NAMES = st.sampled_from(["a", "b", "[]", "[][]", "a.b"])
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text("aé[]", max_size=3)
CONTENTS = st.dictionaries(
    NAMES,
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2)),
    max_size=2,
)


def stored(content: Content, author: Author = "put", *, linked: bool = False) -> dict[str, Any]:
    document = model.stamped(None, Surveyed(content), author, NOON, linked=linked)
    return document.to_record()


@pytest.mark.parametrize(
    "key", ["a", "é" * 500, "a" * 1_000, "...", "__", "__a", "a__", "a.b c%2F", "😀", "_signalbox"]
)
def test_a_key_of_1_to_1_000_bytes_is_taken(key: str) -> None:
    assert core_keys.check_key(key) == key


@pytest.mark.parametrize(
    "key",
    [
        "",
        ".",
        "..",
        "____",
        "__x__",
        "a/b",
        "/",
        "a" * 1_001,
        "é" * 501,
        "a" * 1_501,
        "\ud800",
        "a\nb",
        "\x7f",
        "__\n__",
    ],
)
def test_a_key_under_which_no_record_can_lie_is_refused(key: str) -> None:
    with pytest.raises(BadKey) as refused:
        core_keys.check_key(key)
    assert (refused.value.status, refused.value.field) == (400, "key")


@pytest.mark.parametrize("key", [None, 1, True, 1.5, ["a"], {"a": 1}])
def test_a_key_is_a_text(key: object) -> None:
    assert core_keys.valid_key(key) is False


def test_the_body_may_name_its_own_key_which_is_not_content() -> None:
    assert model.check_body("a", {"key": "a", "n": 1}).content == {"n": 1}
    assert model.check_body("a", {"n": 1}).content == {"n": 1}
    assert model.check_body("a", {}).content == {}


@pytest.mark.parametrize(
    ("body", "problem", "field"),
    [
        ([], NotAnObject, None),
        ("a", NotAnObject, None),
        (None, NotAnObject, None),
        ({"key": "b"}, BadKey, "key"),
        ({"key": None}, BadKey, "key"),
        ({"key": {"a": 1}}, BadKey, "key"),
        ({RESERVED: {}}, ReservedField, RESERVED),
        ({"n": {"m": 2**64}}, BadValue, "n.m"),
    ],
)
def test_a_body_that_is_not_a_document_is_refused(body: Any, problem: type[Problem], field: str | None) -> None:
    with pytest.raises(problem) as refused:
        model.check_body("a", body)
    assert refused.value.field == field


def test_the_reserved_name_is_free_further_inside() -> None:
    assert model.check_body("a", {"n": {RESERVED: 1}}).content == {"n": {RESERVED: 1}}


@given(CONTENTS)
def test_every_content_round_trips_through_its_record_and_matches_its_stamp(content: Content) -> None:
    document = model.stamped(None, Surveyed(content), "put", NOON, linked=True, hops=3)
    read = model.Document.from_record(document.to_record())
    assert read == document
    assert read.stamp_matches


def test_the_record_is_the_content_at_top_level_and_one_reserved_map() -> None:
    assert stored({"n": [[1]], "address": {"key": "t"}}, "refresh", linked=True) == {
        "n": [{"[]": [1]}],
        "address": {"key": "t"},
        RESERVED: {
            "version": NOON_VERSION,
            "author": "refresh",
            "digest": digest_of({"n": [[1]], "address": {"key": "t"}}),
            "hops": 0,
            "linked": True,
            "link_keys": ["t"],
            "link_fields": ["address"],
        },
    }


def test_equal_contents_share_a_digest_and_others_do_not() -> None:
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    contents: list[Content] = [{"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {}, {"b": 1}]
    assert len({digest_of(content) for content in contents}) == len(contents)


def test_a_document_of_the_largest_size_is_accepted_and_one_byte_more_is_not() -> None:
    room = DOCUMENT_LIMITS.document_bytes_max - len("n\0") - len("\0") - 2  # two empty lists of links take a byte each
    fitting = model.stamped(None, Surveyed({"n": "x" * room}), "put", NOON, linked=False)
    assert len(fitting.to_record()["n"]) == room
    with pytest.raises(TooLarge) as refused:
        model.stamped(None, Surveyed({"n": "x" * (room + 1)}), "put", NOON, linked=False).to_record()
    assert refused.value.status == 413


def test_the_keys_of_links_count_since_they_are_stored_once_more() -> None:
    content = {"n": "x" * 900_000, "l": [{"key": f"{number:02}" + "k" * 998} for number in range(50)]}
    assert json_values.size_bytes(content) < DOCUMENT_LIMITS.document_bytes_max
    with pytest.raises(TooLarge):
        model.stamped(None, Surveyed(content), "put", NOON, linked=False).to_record()


def test_a_version_is_the_time_in_microseconds_and_moves_on_by_one_at_least() -> None:
    first = model.stamped(None, Surveyed({}), "put", NOON, linked=False)
    again = model.stamped(first, Surveyed({}), "put", NOON, linked=False)
    later = model.stamped(again, Surveyed({}), "put", NOON + timedelta(seconds=1), linked=False)
    earlier = model.stamped(later, Surveyed({}), "put", NOON - timedelta(days=1), linked=False)
    versions = [one.stamp.version for one in (first, again, later, earlier) if one.stamp]
    assert versions == [NOON_VERSION, NOON_VERSION + 1, NOON_VERSION + 1_000_000, NOON_VERSION + 1_000_001]


def test_the_next_life_of_a_key_begins_above_the_last_version_of_the_one_before() -> None:
    last = model.stamped(None, Surveyed({}), "put", NOON, linked=False)
    reborn = model.stamped(None, Surveyed({}), "put", NOON + timedelta(microseconds=1), linked=False)
    assert last.stamp
    assert reborn.stamp
    assert reborn.stamp.version > last.stamp.version


@pytest.mark.parametrize(
    ("before", "linked"),
    [
        (None, False),
        (Document(Surveyed({}), linked=False), False),
        (Document(Surveyed({}), linked=True), True),
        (Document(Surveyed({}), linked=None), True),
    ],
)
def test_only_a_new_document_or_a_stored_false_counts_as_unlinked(before: Document | None, linked: bool) -> None:
    assert model.counts_as_linked(before) is linked


def test_without_a_record_there_is_no_document() -> None:
    assert model.Document.from_record(None) is None
    assert model.content_of(None) is None
    assert model.hops_of(None) == 0


@pytest.mark.parametrize("reserved", [None, 1, "x", [], {}, {"version": 1}, {"version": "1", "author": "put"}])
def test_a_record_without_the_reserved_map_has_content_and_no_metadata(reserved: Any) -> None:
    assert model.Document.from_record({"n": 1, RESERVED: reserved}) == Document(Surveyed({"n": 1}), None, None)
    assert model.Document.from_record({"n": 1}) == Document(Surveyed({"n": 1}), None, None)


@pytest.mark.parametrize(("name", "value"), [("author", "me"), ("version", None), ("digest", 1), ("hops", "0")])
def test_an_incomplete_stamp_is_none(name: str, value: object) -> None:
    record = stored({"n": 1})
    record[RESERVED][name] = value
    assert model.Document.from_record(record) == Document(Surveyed({"n": 1}), None, linked=False)


def test_linked_is_known_only_if_it_is_true_or_false() -> None:
    record = stored({}, linked=True)
    record[RESERVED]["linked"] = 1
    read = model.Document.from_record(record)
    assert read is not None
    assert (read.linked, read.stamp is None) == (None, False)


def test_content_that_another_client_changed_does_not_match_its_stamp() -> None:
    read = model.Document.from_record(stored({"n": 1}) | {"n": 2})
    assert read is not None
    assert (read.content, read.stamp_matches) == ({"n": 2}, False)
    assert Document(Surveyed({"n": 1})).stamp_matches is False


def test_a_key_that_another_client_stored_is_not_the_documents_key() -> None:
    assert model.content_of({"key": "other", "n": 1}) == {"n": 1}
    assert model.document_json("a", model.content_of({"key": "other", "n": 1}) or {}) == {
        "key": "a",
        "n": 1,
    }


def test_hops_are_those_of_the_last_write() -> None:
    assert model.hops_of(Document(Surveyed({}), Stamp(1, "refresh", "", hops=4))) == 4
    assert model.hops_of(Document(Surveyed({}))) == 0
