"""Patches: what merges into what, what null does, and that no patch reaches into a copy."""

from collections.abc import Iterator
from typing import Any

import pytest

from signalbox.documents.machine.patches import Null, merged_json, patched
from signalbox.documents.problems import EditsACopy
from tests.unit.documents.documents_front import Front, front, problem

MERGE_PATCH = "application/merge-patch+json"
COPY = {"key": "1", "city": "stuffville", "geo": {"key": "9", "x": 1}}

RFC_7396_APPENDIX_A: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.fixture
def at() -> Iterator[Front]:
    with front() as found:
        yield found


# --- the rule ---


@pytest.mark.parametrize(("target", "patch", "result"), RFC_7396_APPENDIX_A)
def test_every_case_of_the_rfcs_appendix(target: Any, patch: Any, result: Any) -> None:
    assert merged_json(target, patch, Null.REMOVES) == result
    if patch is not None:
        assert patched({"field": target}, {"field": patch}, Null.REMOVES) == {"field": result}


def test_null_removes_in_a_merge_patch_and_is_a_value_in_a_plain_merge() -> None:
    content, patch = {"a": 1, "b": {"c": 1, "d": 2}}, {"a": None, "b": {"c": None}}
    assert patched(content, patch, Null.REMOVES) == {"b": {"d": 2}}
    assert patched(content, patch, Null.IS_A_VALUE) == {"a": None, "b": {"c": None, "d": 2}}


def test_nulls_in_a_list_of_a_merge_patch_stay() -> None:
    assert patched({}, {"l": [None, {"a": None}]}, Null.REMOVES) == {"l": [None, {"a": None}]}


@pytest.mark.parametrize("null", Null)
@pytest.mark.parametrize("held", [COPY, {"city": "the user's own"}, [COPY], 5, None])
def test_a_link_without_a_copy_replaces_any_value(null: Null, held: Any) -> None:
    assert patched({"a": held, "b": 1}, {"a": {"key": "2"}}, null) == {"a": {"key": "2"}, "b": 1}


@pytest.mark.parametrize("null", Null)
@pytest.mark.parametrize(
    "patch",
    [{"a": {}}, {"a": {"city": "stuffville"}}, {"a": {"geo": {"x": 1}}}, {"a": COPY}, {"b": [COPY, COPY]}, {"c": COPY}],
)
def test_what_a_copy_shows_already_may_be_sent_with_it(null: Null, patch: Any) -> None:
    document = patched({"a": COPY, "b": 1}, patch, null)
    assert document["a"] in (COPY, {"key": "1"})
    assert document.get("c", {"key": "1"}) == {"key": "1"}


@pytest.mark.parametrize(
    ("patch", "null", "field"),
    [
        ({"a": {"city": "x"}}, Null.IS_A_VALUE, "a"),
        ({"a": {"new": 1}}, Null.REMOVES, "a"),
        ({"a": {"city": None}}, Null.REMOVES, "a"),
        ({"a": {"city": None}}, Null.IS_A_VALUE, "a"),
        ({"a": {"key": None}}, Null.REMOVES, "a"),
        ({"a": {"geo": {"key": "8"}}}, Null.IS_A_VALUE, "a"),
        ({"a": {"key": "1", "city": "x"}}, Null.IS_A_VALUE, "a"),
        ({"a": {"key": "2", "city": "x"}}, Null.IS_A_VALUE, "a"),
        ({"b": {"l": [0, {"key": "1", "city": "x"}]}}, Null.REMOVES, "b.l[1]"),
    ],
)
def test_what_would_change_inside_a_copy_is_refused_by_its_place(patch: Any, null: Null, field: str) -> None:
    with pytest.raises(EditsACopy) as refusal:
        patched({"a": COPY, "b": {}}, patch, null)
    assert refusal.value.field == field


def test_the_refusal_names_the_source() -> None:
    with pytest.raises(EditsACopy, match='a copy of the document "1"'):
        patched({"a": COPY}, {"a": {"city": "x"}}, Null.IS_A_VALUE)


def test_a_merge_patch_removes_the_key_of_an_object_that_is_not_a_link() -> None:
    assert patched({"a": {"b": 1}}, {"a": {"key": None}}, Null.REMOVES) == {"a": {"b": 1}}


# --- over HTTP ---


def test_a_merge_is_deep_and_keeps_what_it_does_not_name(at: Front) -> None:
    """At the top and further down."""
    at.ask("PUT", "/a", {"n": 1, "in": {"x": 1, "y": {"z": 1}}})
    answer = at.ask("PATCH", "/a", {"in": {"y": {"w": 2}}, "key": "a"})
    assert (answer.status_code, answer.json) == (200, {"key": "a", "n": 1, "in": {"x": 1, "y": {"z": 1, "w": 2}}})
    assert (at.seen("a"), at.client.get("/a").headers["ETag"]) == (answer.json, answer.headers["ETag"])


@pytest.mark.parametrize(("kind", "stored"), [("application/json", {"n": None}), (MERGE_PATCH, {})])
def test_a_merge_onto_nothing_creates_the_document(at: Front, kind: str, stored: Any) -> None:
    """Both kinds of patch do."""
    answer = at.ask("PATCH", "/a", {"n": None}, Content_Type=f"{kind}; charset=utf-8")
    assert (answer.status_code, answer.json, at.seen("a")) == (201, {"key": "a", **stored}, {"key": "a", **stored})


def test_a_merge_that_adds_a_link_keeps_all_others(at: Front) -> None:
    """Every copy follows its source after the merge, the old and the new."""
    for key in "tuv":
        at.ask("PUT", f"/{key}", {"n": 1})
    at.ask("PUT", "/p", {"t": {"key": "t"}, "in": {"u": {"key": "u"}}})
    at.ask("PATCH", "/p", {"in": {"v": {"key": "v"}}})
    at.world.settle()
    for key in "tuv":
        at.ask("PUT", f"/{key}", {"n": 2})
    at.world.settle()
    copies = {key: {"key": key, "n": 2} for key in "tuv"}
    assert at.seen("p") == {"key": "p", "t": copies["t"], "in": {"u": copies["u"], "v": copies["v"]}}


def test_a_merge_embeds_its_old_and_its_new_links_as_they_are_now(at: Front) -> None:
    at.ask("PUT", "/t", {"n": 1})
    at.ask("PUT", "/p", {"t": {"key": "t"}})
    at.ask("PUT", "/t", {"n": 2})
    assert at.ask("PATCH", "/p", {"m": 1}).json == {"key": "p", "t": {"key": "t", "n": 2}, "m": 1}


def test_a_link_over_a_copy_replaces_all_of_it(at: Front) -> None:
    at.ask("PUT", "/1", {"city": "a", "zip": 1})
    at.ask("PUT", "/2", {"city": "b"})
    at.ask("PUT", "/p", {"address": {"key": "1"}})
    assert at.ask("PATCH", "/p", {"address": {"key": "2"}}).json == {"key": "p", "address": {"key": "2", "city": "b"}}
    again = at.ask("PATCH", "/p", {"address": {"key": "2"}})
    assert (again.status_code, again.json) == (200, {"key": "p", "address": {"key": "2", "city": "b"}})


def test_a_merge_into_a_copy_is_409_and_changes_nothing(at: Front) -> None:
    at.ask("PUT", "/1", {"city": "a"})
    before = at.ask("PUT", "/p", {"address": {"key": "1"}})
    assert problem(at.ask("PATCH", "/p", {"n": 1, "address": {"city": "b"}})) == (409, "edits-a-copy", "address")
    assert at.client.get("/p").headers["ETag"] == before.headers["ETag"]


@pytest.mark.parametrize(
    ("body", "status", "slug", "field"),
    [
        ({"key": "b"}, 400, "key-mismatch", "key"),
        ({"key": None}, 400, "key-mismatch", "key"),
        ([1], 400, "not-an-object", None),
        (b"null", 400, "not-an-object", None),
        (b"{", 400, "not-json", None),
        ({"_signalbox": None}, 400, "reserved-field", "_signalbox"),
        ({"a": {"__x__": 1}}, 400, "bad-value", "a.__x__"),
    ],
)
@pytest.mark.parametrize("kind", ["application/json", MERGE_PATCH])
def test_an_invalid_patch_is_refused(
    at: Front, kind: str, body: Any, status: int, slug: str, field: str | None
) -> None:
    assert problem(at.ask("PATCH", "/a", body, Content_Type=kind)) == (status, slug, field)
    assert at.world.ids("documents") == []


@pytest.mark.parametrize("kind", ["text/plain", "application/json-patch+json", ""])
def test_a_patch_of_another_media_type_is_415_with_those_that_are_taken(at: Front, kind: str) -> None:
    answer = at.ask("PATCH", "/a", {"n": 1}, Content_Type=kind)
    assert problem(answer) == (415, "unsupported-media-type", None)
    assert answer.headers["Accept-Patch"] == "application/json, application/merge-patch+json"
    assert at.world.ids("documents") == []


def test_a_merge_that_outgrows_the_document_is_refused_with_the_number(at: Front) -> None:
    at.ask("PUT", "/a", {"t": "x" * 600_000})
    answer = at.ask("PATCH", "/a", {"u": "x" * 600_000})
    assert problem(answer) == (413, "too-large", None)
    assert "1,000,000 bytes" in (answer.get_data(as_text=True))
    assert at.seen("a") == {"key": "a", "t": "x" * 600_000}
