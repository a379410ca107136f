"""Links and their copies: what a put embeds, what a refresh replaces."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbox.core import json_values
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import TooLarge
from signalbox.documents.limits import LIMITS as DOCUMENTS_LIMITS
from signalbox.documents.machine import links
from signalbox.documents.machine.copies import Embedding, Sources, copy_of
from signalbox.documents.machine.links import Refresh
from signalbox.documents.model import stamped_contents as model
from signalbox.documents.model.contents import Content, Surveyed, digest_of, links_of
from signalbox.documents.model.stamped_contents import Author, Document, Stamp

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HALF = "x" * 600_000
"""More than half of what a document holds."""


def document(
    content: Content, author: Author = "put", *, version: int = 1, linked: bool | None = False, hops: int = 0
) -> Document:
    return Document(Surveyed(content), Stamp(version, author, digest_of(content), hops), linked)


def shape(key: str, content: Content, sources: Sources, hops: int = 0) -> Content:
    return embed(key, content, Embedding(sources), hops)


def embed(key: str, content: Content, embedding: Embedding, hops: int = 0) -> Content:
    return links.embed_links(key, Surveyed(content), embedding, hops).content


def refresh(key: str, read: Document, source_key: str, source: Content | None) -> Content | Refresh:
    no_transforms = dict.fromkeys(read.surveyed.link_fields)
    refreshed = links.refresh_copies(key, read, Embedding({source_key: source}, no_transforms))
    return refreshed if isinstance(refreshed, Refresh) else refreshed.content


def nested(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = {"a": inner}
    return inner


# --- what is a link ---


def test_a_link_stands_at_any_depth_also_in_mixed_lists() -> None:
    link = {"key": "t"}
    content = {"a": link, "b": {"c": link}, "l": [1, link, "x", [link], {"m": [link]}, None]}
    shaped = shape("p", content, {"t": {"n": 1}})
    copy = {"key": "t", "n": 1}
    assert shaped == {"a": copy, "b": {"c": copy}, "l": [1, copy, "x", [copy], {"m": [copy]}, None]}


def test_a_link_has_a_place_and_what_is_inside_it_does_not_count() -> None:
    content = {"a": {"key": "t", "b": {"key": "u"}, "l": [{"key": "v"}]}, "l": [{"key": None}]}
    assert links_of(content) == [(("a",), content["a"]), (("l", 0), {"key": None})]
    assert Surveyed(content).link_keys == ["t"]


def test_link_keys_are_listed_once_and_only_those_that_can_be_keys() -> None:
    keys = ["u", "t", "u", None, "", 5, "a/b", "..", "__x__", {"key": "v"}, ["v"]]
    assert Surveyed({"l": [{"key": key} for key in keys]}).link_keys == ["t", "u"]


def test_link_fields_are_the_names_over_the_links_and_for_a_list_that_of_the_list() -> None:
    link = {"key": "t"}
    assert Surveyed({"a": link, "b": {"c": link, "n": 1}, "l": [link, [link]], "m": 1}).link_fields == ["a", "c", "l"]


# --- what a put embeds ---


def test_members_next_to_a_key_are_replaced_by_the_targets_content() -> None:
    content = {"address": {"key": "t", "city": "mine", "more": {"key": "u"}}, "n": 1}
    assert shape("p", content, {"t": {"city": "stuffville"}}) == {
        "address": {"key": "t", "city": "stuffville"},
        "n": 1,
    }


def test_a_document_without_links_stays_as_it_is() -> None:
    content: Content = {"n": [1, [2], {}], "m": {"x": None}}
    assert shape("p", content, {}) == content


def test_a_link_to_a_missing_document_is_marked() -> None:
    assert shape("p", {"a": {"key": "t", "n": 1}}, {"t": None}) == {"a": {"key": "t", "link_missing": True}}


@pytest.mark.parametrize("key", [None, "", 5, True, "a/b", "..", "__x__", "a" * 1_501, {"key": "t"}, ["t"]])
def test_a_link_with_an_invalid_key_is_marked_and_needs_no_source(key: Any) -> None:
    assert shape("p", {"a": {"key": key, "n": 1}}, {}) == {"a": {"key": key, "link_missing": True}}


def test_the_targets_own_copies_come_along_as_last_stored() -> None:
    street = {"key": "s", "name": "thing st"}
    shaped = shape("p", {"a": {"key": "t"}}, {"t": {"n": 1, "street": street, "l": [[street]]}})
    assert shaped == {"a": {"key": "t", "n": 1, "street": street, "l": [[street]]}}
    assert Surveyed(shaped).link_keys == ["t"]


def test_a_link_to_itself_is_cut() -> None:
    assert shape("p", {"n": 1, "me": {"key": "p", "n": 2}}, {"p": None}) == {
        "n": 1,
        "me": {"key": "p", "link_cycle": True},
    }


@pytest.mark.parametrize(
    ("source", "copy"),
    [
        ({"back": {"key": "p", "n": 1}}, {"back": {"key": "p", "link_cycle": True}}),
        ({"self": {"key": "t", "n": 1}}, {"self": {"key": "t", "link_cycle": True}}),
        ({"l": [[{"key": "p", "n": 1}], 2]}, {"l": [[{"key": "p", "link_cycle": True}], 2]}),
        (
            {"u": {"key": "u", "n": 1, "m": {"t": {"key": "t", "n": 2}}}},
            {"u": {"key": "u", "n": 1, "m": {"t": {"key": "t", "link_cycle": True}}}},
        ),
        (
            {"u": {"key": "u", "v": {"key": "v", "u": {"key": "u", "n": 3}}}},
            {"u": {"key": "u", "v": {"key": "v", "u": {"key": "u", "link_cycle": True}}}},
        ),
    ],
)
def test_a_copy_is_cut_where_it_comes_back_to_a_document_on_its_path(source: Content, copy: Content) -> None:
    assert copy_of("t", source, above="p") == {"key": "t", **copy}


def test_the_same_target_on_two_branches_is_not_a_cycle() -> None:
    street = {"key": "s", "n": 1}
    source: Content = {"from": street, "to": street}
    assert copy_of("t", source, above="p") == {"key": "t", "from": street, "to": street}


def test_copies_are_placed_in_order_as_long_as_they_fit_and_the_others_are_marked() -> None:
    sources: dict[str, Content | None] = {"big": {"x": HALF}, "small": {"n": 1}}
    content = {"d": {"key": "small"}, "c": {"key": "big"}, "b": {"key": "big"}, "a": {"key": "small"}}
    assert shape("p", content, sources) == {
        "a": {"key": "small", "n": 1},
        "b": {"key": "big", "x": HALF},
        "c": {"key": "big", "link_too_large": True},
        "d": {"key": "small", "n": 1},
    }


def test_what_the_kit_must_know_of_the_links_counts_as_part_of_the_document() -> None:
    keys = [f"{number:03}" + "k" * 200 for number in range(CORE_LIMITS.links_max)]
    text = "x" * 280_000
    shaped = shape("p", {"l": [{"key": key} for key in keys]}, {key: {"x": text} for key in keys})
    record = document(shaped).to_record()
    assert json_values.size_bytes(record) < 1_048_576 - 2_000  # what a record's name takes
    assert sum("x" in copy for copy in shaped["l"]) == 2


def test_a_copy_that_would_stand_too_deep_is_marked() -> None:
    content = nested(8, {"key": "t"})
    fitting, too_deep = nested(CORE_LIMITS.depth_max - 9, {"n": 1}), nested(CORE_LIMITS.depth_max - 8, {"n": 1})
    assert shape("p", content, {"t": fitting}) == nested(8, {"key": "t", **fitting})
    assert shape("p", content, {"t": too_deep}) == nested(8, {"key": "t", "link_too_large": True})


def test_a_list_in_a_list_counts_twice_towards_the_depth_of_a_copy() -> None:
    fitting = nested(CORE_LIMITS.depth_max - 3, {"n": 1})
    assert shape("p", {"l": [{"key": "t"}]}, {"t": fitting})["l"][0] == {"key": "t", **fitting}
    assert shape("p", {"l": [[{"key": "t"}]]}, {"t": fitting})["l"][0][0] == {"key": "t", "link_too_large": True}


def test_a_document_must_have_room_for_a_mark_at_each_link() -> None:
    with pytest.raises(TooLarge) as refused:
        shape("p", {"n": "x" * 999_970, "a": {"key": "t"}}, {"t": None})
    assert refused.value.status == 413


def test_500_links_are_accepted_and_one_more_is_not() -> None:
    assert len(shape("p", {"l": [{"key": "t"}] * CORE_LIMITS.links_max}, {"t": {}})["l"]) == 500
    with pytest.raises(TooLarge):
        shape("p", {"l": [{"key": "t"}] * (CORE_LIMITS.links_max + 1)}, {"t": {}})


def test_a_mark_makes_room_for_a_copy_however_far_away_the_change_was() -> None:
    content = {"a": {"key": "t", "link_too_large": True}, "b": {"key": "t"}}
    copy = {"key": "t", "n": 1}
    assert shape("p", content, {"t": {"n": 1}}, hops=DOCUMENTS_LIMITS.hops_max + 1) == {"a": copy, "b": copy}


def chained(levels: int, mark: str = "") -> Content:
    """Return the content of a document that shows this many copies inside each other, and then a mark or nothing."""
    content: Content = {"x": {"key": "end", mark: True}} if mark else {"n": 1}
    for level in range(levels):
        content = {"x": {"key": f"k{level}", **content}}
    return content


def test_copies_are_nested_to_a_fixed_number_of_links_and_marked_below() -> None:
    most = DOCUMENTS_LIMITS.link_levels_max
    assert shape("p", {"x": {"key": "t"}}, {"t": chained(most - 1)}) == {"x": {"key": "t", **chained(most - 1)}}
    deeper = shape("p", {"x": {"key": "t"}}, {"t": chained(most)})
    assert json_values.canonical(deeper).count("link_too_deep") == 1
    at = deeper
    for _ in range(most):
        at = at["x"]
    assert at["x"] == {"key": "k0", "link_too_deep": True}


def test_a_copy_shows_its_targets_copies_only_as_deep_as_the_target_shows_all() -> None:
    full = {"u": {"key": "u", "n": 1}, "v": {"key": "v", "link_too_large": True}}
    assert copy_of("t", full, above="p") == {
        "key": "t",
        "u": {"key": "u", "link_too_large": True},
        "v": {"key": "v", "link_too_large": True},
    }


def test_where_copies_do_not_fit_all_links_are_shown_equally_deep_and_then_the_first_ones_deeper() -> None:
    target: Content = {"u": {"key": "u", "x": HALF}}
    content = {"a": {"key": "t"}, "b": {"key": "s"}, "c": {"key": "small"}}
    shaped = shape("p", content, {"t": target, "s": target, "small": {"n": 1}})
    assert shaped == {
        "a": {"key": "t", **target},
        "b": {"key": "s", "u": {"key": "u", "link_too_large": True}},
        "c": {"key": "small", "n": 1},
    }


def test_documents_that_outgrow_each_other_in_a_cycle_have_one_stable_state() -> None:
    own: dict[str, Content | None] = {key: {"x": HALF, "to": {"key": to}} for key, to in ("ab", "bc", "ca")}
    states = []
    for order in ("abc", "cba", "bca"):
        shown = dict(own)
        for key in order * DOCUMENTS_LIMITS.link_levels_max:
            shown[key] = shape(key, shown[key] or {}, shown)
        assert all(shape(key, shown[key] or {}, shown) == shown[key] for key in "abc")
        states.append(shown)
    assert states[0] == states[1] == states[2]


def test_embedding_again_changes_nothing() -> None:
    sources: dict[str, Content | None] = {"t": {"u": {"key": "u", "p": {"key": "p"}}}, "u": None, "big": {"x": HALF}}
    content = {"a": {"key": "t"}, "l": [{"key": "big"}, {"key": "big"}, {"key": "p"}, {"key": None}, {"key": "u"}]}
    once = shape("p", content, {**sources, "p": content})
    assert shape("p", once, {**sources, "p": once}) == once


# --- what a refresh replaces ---


def test_a_refresh_replaces_all_copies_of_its_source_and_nothing_else() -> None:
    old, other = {"key": "t", "n": 1, "gone": 1}, {"key": "u", "n": 1}
    read = document({"a": old, "l": [old, other, {"m": old}], "b": other, "n": 1})
    new = {"key": "t", "n": 2}
    assert refresh("p", read, "t", {"n": 2}) == {"a": new, "l": [new, other, {"m": new}], "b": other, "n": 1}


def test_a_refresh_marks_what_is_gone_and_fills_what_is_back() -> None:
    missing = {"key": "t", "link_missing": True}
    assert refresh("p", document({"a": {"key": "t", "n": 1}}), "t", None) == {"a": missing}
    assert refresh("p", document({"a": missing}), "t", {"n": 1}) == {"a": {"key": "t", "n": 1}}


@pytest.mark.parametrize(
    ("content", "source"),
    [
        ({"a": {"key": "t", "n": 1}}, {"n": 1}),
        ({"a": {"key": "t", "link_missing": True}}, None),
        ({"a": {"key": "u", "n": 1}}, {"n": 2}),
        ({"n": 1}, {"n": 2}),
    ],
)
def test_a_refresh_that_would_change_nothing_is_unchanged(content: Content, source: Content | None) -> None:
    assert refresh("p", document(content), "t", source) is Refresh.UNCHANGED


@pytest.mark.parametrize("n", [1.0, True, "1"])
def test_equal_to_python_is_not_the_same(n: Any) -> None:
    assert refresh("p", document({"a": {"key": "t", "n": 1}}), "t", {"n": n}) == {"a": {"key": "t", "n": n}}


@pytest.mark.parametrize(
    ("read", "source"),
    [
        (Document(Surveyed({"a": {"key": "t"}})), {"n": 1}),
        (Document(Surveyed({"a": {"key": "t"}}), Stamp(1, "put", "of something else")), {"n": 1}),
        (document({"a": {"key": "t"}, "b": {"key": "u", "link_too_large": True}}), {"n": 1}),
        (document({"a": {"key": "t"}, "n": HALF}), {"n": HALF}),
        (document({"a": {"key": "t"}}), nested(CORE_LIMITS.depth_max - 1, {})),
    ],
    ids=["without a stamp", "changed under its stamp", "has a mark", "too large", "too deep"],
)
def test_a_refresh_that_needs_all_targets_is_left_to_normalization(read: Document, source: Content) -> None:
    assert refresh("p", read, "t", source) is Refresh.NORMALIZE


KEYS = st.sampled_from(["p", "t", "u", "v", None])
LINKING = st.recursive(
    st.integers(0, 2) | KEYS.map(lambda key: {"key": key}),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
CONTENTS = st.dictionaries(st.sampled_from("xy"), LINKING, max_size=2)
SOURCES = st.fixed_dictionaries(dict.fromkeys("ptuv", st.none() | CONTENTS))


@given(CONTENTS, SOURCES, st.none() | CONTENTS)
def test_a_refresh_returns_what_a_put_now_would_embed(
    content: Content, sources: dict[str, Content | None], moved: Content | None
) -> None:
    before = shape("p", content, sources)
    expected = shape("p", content, {**sources, "t": moved})
    refreshed = refresh("p", document(before), "t", moved)
    assert (before if refreshed is Refresh.UNCHANGED else refreshed) == expected


def fields(prefix: str, count: int) -> dict[str, Any]:
    """Return so many fields of one letter each; each has two index entries."""
    return {f"{prefix}{number}": "x" for number in range(count)}


def test_copies_with_too_many_index_entries_for_their_document_become_marks() -> None:
    embedding = Embedding({"s": fields("s", 12_000), "t": fields("t", 12_000)})
    shown = embed("p", {"a": {"key": "s"}, "b": {"key": "t"}}, embedding)
    assert len(shown["a"]) == 12_001
    assert shown["b"] == {"key": "t", "link_too_large": True}


def test_items_of_a_list_are_an_index_entry_each_whatever_they_hold() -> None:
    embedding = Embedding({"s": {"list": [{"a": 1, "b": 2}] * 39_000}})
    assert len(embed("p", {"a": {"key": "s"}}, embedding)["a"]["list"]) == 39_000
    embedding = Embedding({"s": {"list": [1] * 39_500}})
    assert embed("p", {"a": {"key": "s"}}, embedding)["a"] == {"key": "s", "link_too_large": True}


def test_a_document_with_too_many_index_entries_is_refused() -> None:
    full = Surveyed(fields("f", 19_750))
    assert model.stamped(None, full, "put", datetime.now(UTC), linked=False).to_record()
    with_a_link = Surveyed({**fields("f", 19_749), "a": {"key": "t"}})
    with pytest.raises(TooLarge, match="39,500 index entries"):
        model.stamped(None, with_a_link, "put", datetime.now(UTC), linked=False).to_record()
