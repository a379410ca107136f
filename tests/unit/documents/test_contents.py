"""A surveyed content has what the plain functions compute of it, also after copies were put into it."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbox.core import json_values
from signalbox.core.keys import valid_key
from signalbox.core.problems import Problem, TooDeep
from signalbox.core.records import record_values
from signalbox.documents.model.contents import Content, Surveyed, digest_of, field_of, links_of
from signalbox.documents.model.sizes import size_of

NAMES = st.sampled_from(["a", "b", "key", "[]", "[][]", "a.b", "é", "__bytes"])
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text("aé[]", max_size=3)
LINKS = st.fixed_dictionaries({"key": SCALARS | st.sampled_from("tu")}, optional={"n": SCALARS, "l": st.lists(SCALARS)})
VALUES = st.recursive(
    SCALARS | LINKS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
CONTENTS = st.dictionaries(NAMES, VALUES, max_size=3)


def assert_is_surveyed(surveyed: Surveyed, content: Content) -> None:
    """Assert that each part is the one that a plain function computes."""
    stored = json_values.encode(content)
    keys = sorted({link["key"] for _, link in links_of(content) if valid_key(link["key"])})
    fields = sorted({field_of(at) for at, _ in links_of(content)})
    assert json_values.same(surveyed.content, content)
    assert [(at, json_values.canonical(link)) for at, link in surveyed.links] == [
        (at, json_values.canonical(link)) for at, link in links_of(content)
    ]
    assert (surveyed.link_keys, surveyed.link_fields) == (keys, fields)
    assert record_values.same(surveyed.stored, stored)
    assert surveyed.fields_bytes == record_values.map_bytes(stored)
    assert surveyed.size == size_of(content) + size_of(keys) + size_of(fields)
    assert surveyed.digest == digest_of(content)


@given(CONTENTS)
def test_each_part_is_what_the_plain_function_computes(content: Content) -> None:
    assert_is_surveyed(Surveyed(content), content)


@given(CONTENTS)
def test_a_checked_content_has_the_size_that_the_check_measured(content: Content) -> None:
    surveyed = Surveyed(content)
    surveyed.check()
    json_values.check(content)
    assert_is_surveyed(surveyed, content)


@pytest.mark.parametrize("content", [{"__a__": 1}, {"n": 2**63}, {"text": "\ud800"}, {"a": {"": 1}}, {"t": (1,)}])
def test_a_content_that_cannot_be_stored_is_refused(content: Content) -> None:
    with pytest.raises(Problem) as by_value:
        json_values.check(content)
    with pytest.raises(type(by_value.value)) as refused:
        Surveyed(content).check()
    assert (refused.value.detail, refused.value.field) == (by_value.value.detail, by_value.value.field)


def test_a_content_that_is_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(21):
        deep = {"a": deep}
    with pytest.raises(TooDeep):
        Surveyed(deep).check()


@given(CONTENTS, st.data())
def test_copies_in_some_places_leave_a_content_that_is_surveyed_as_a_new_one(content: Content, data: Any) -> None:
    before = copy.deepcopy(content)
    surveyed = Surveyed(content)
    chosen = [(at, link) for at, link in surveyed.links if data.draw(st.booleans())]
    copies = {at: {**data.draw(CONTENTS), "key": link["key"]} for at, link in chosen}
    made = surveyed.with_copies(copies)
    expected = copy.deepcopy(content)
    for at, shown in copies.items():
        holder: Any = expected
        for step in at[:-1]:
            holder = holder[step]
        holder[at[-1]] = shown
    assert_is_surveyed(made, expected)
    assert_is_surveyed(surveyed, before)


@given(CONTENTS)
def test_a_bare_content_has_links_with_their_keys_alone(content: Content) -> None:
    bare = Surveyed(content).bare()
    assert [(at, link) for at, link in bare.links] == [(at, {"key": link["key"]}) for at, link in links_of(content)]
    assert_is_surveyed(bare, bare.content)


def test_without_copies_a_content_stays_itself() -> None:
    surveyed = Surveyed({"n": 1})
    assert surveyed.with_copies({}) is surveyed
    assert surveyed.bare() is surveyed
