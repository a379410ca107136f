"""JSON Patch: a value and the difference make the other value, also by another implementation."""

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signalbox.core.json_values import canonical
from signalbox.history.machine import json_patch

NAMES = st.sampled_from(["a", "b", "", "~", "/", "~1", "0", "-", "é"])
LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, -0.0, 1.0, 1.5]) | st.text(max_size=2)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=15
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=5)


@settings(max_examples=150, deadline=None)
@given(OBJECTS, OBJECTS)
def test_a_value_and_the_difference_make_the_other_value(before: Any, after: Any) -> None:
    patch, kept = json_patch.diff(before, after), copy.deepcopy(before)
    assert canonical(json_patch.patched(before, patch)) == canonical(after)
    assert canonical(before) == canonical(kept)
    assert (patch == []) == (canonical(before) == canonical(after))


@settings(max_examples=150, deadline=None)
@given(OBJECTS, OBJECTS)
def test_another_implementation_makes_the_same_of_it(before: Any, after: Any) -> None:
    patch = json_patch.diff(before, after)
    assert canonical(jsonpatch.JsonPatch(patch).apply(before)) == canonical(after)


@settings(max_examples=100, deadline=None)
@given(OBJECTS, OBJECTS)
def test_what_another_implementation_writes_with_these_operations_is_applied(before: Any, after: Any) -> None:
    patch = jsonpatch.make_patch(before, after).patch
    if all(one["op"] in ("add", "remove", "replace") for one in patch):
        theirs = jsonpatch.JsonPatch(patch).apply(before)
        assert canonical(json_patch.patched(before, patch)) == canonical(theirs)


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 1.0}, [{"op": "replace", "path": "/a", "value": 1.0}]),
        ({"a/b": 1}, {"~": 1}, [{"op": "remove", "path": "/a~1b"}, {"op": "add", "path": "/~0", "value": 1}]),
        ({"l": [1, 2, 3]}, {"l": [1, 3]}, [{"op": "remove", "path": "/l/1"}]),
        ({"l": [1, 3]}, {"l": [1, 2, 3]}, [{"op": "add", "path": "/l/1", "value": 2}]),
        ({"l": [{"a": 1}, 2]}, {"l": [{"a": 3}, 2]}, [{"op": "replace", "path": "/l/0/a", "value": 3}]),
    ],
)
def test_a_difference_is_short(before: Any, after: Any, patch: Any) -> None:
    assert json_patch.diff(before, after) == patch


def test_patches_create_and_remove_a_whole_value() -> None:
    assert json_patch.patched(None, json_patch.patch_from_nothing({"a": 1})) == {"a": 1}
    assert json_patch.patched({"b": 2}, json_patch.patch_from_nothing({"a": 1})) == {"a": 1}
    assert json_patch.patched({"a": 1}, json_patch.patch_to_nothing()) is None
