"""Transforms that can be stored, and those that are refused."""

from typing import Any

import pytest

from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadKey, BadTransform, BadValue, Problem, TooDeep, TooLarge
from shared.transforms.rules import transforms


@pytest.mark.parametrize(
    "transform",
    [
        {"key": "#.other"},
        {"fulladdr": "{{.addr1}}, {{.city}} {{.zipcode}}"},
        "#.first",
        "#",
        {"ref": ".first"},
        {"ref": ".first", "transform": {}},
        {},
        {"a": ["lit={{", "#.{{", "}} {{.a}} }}", "{{{.a}}}"], "{{": "keys are literal"},
        {"ref": ".first", "transform": {}, "other": "{{ is not evaluated"},
    ],
)
def test_a_transform_that_may_produce_an_object_round_trips(transform: Any) -> None:
    assert transforms.from_record(transforms.to_record(transforms.check(transform))) == transform


@pytest.mark.parametrize(
    "transform",
    [5, None, True, [], ["#"], "text", "{{.a}}", "lit=#", "#a", "#.a ?b", {"ref": ".a", "transform": 5}],
)
def test_a_transform_that_never_produces_an_object_is_refused(transform: Any) -> None:
    with pytest.raises(BadTransform):
        transforms.check(transform)


@pytest.mark.parametrize(
    ("transform", "field"),
    [
        ({"a": "{{.name"}, "a"),
        ({"a": "{{"}, "a"),
        ({"a": "{{.name}"}, "a"),
        ({"a": "{{.name}} {{.name"}, "a"),
        ({"a": "{{.first, {{.last}}"}, "a"),
        ({"a": "{{{{.a}}}}"}, "a"),
        ({"a": [1, {"b": "x {{"}]}, "a[1].b"),
        ({"ref": ".l", "id": "e", "transform": {"a": ["{{!e"]}}, "transform.a[0]"),
        ({"a": [{"ref": ".l @:", "transform": "{{"}]}, "a[0].transform"),
    ],
)
def test_unclosed_braces_are_refused_with_their_field(transform: Any, field: str) -> None:
    with pytest.raises(BadTransform) as refusal:
        transforms.check(transform)
    assert refusal.value.field == field


def nested(levels: int) -> Any:
    return {"a": nested(levels - 1)} if levels else 1


@pytest.mark.parametrize(
    ("transform", "problem"),
    [
        ({"a": 2**63}, BadValue),
        ({"": 1}, BadValue),
        ({"__x__": 1}, BadValue),
        (nested(LIMITS.depth_max + 1), TooDeep),
        ({"a": "x" * LIMITS.transform_bytes_max}, TooLarge),
    ],
)
def test_a_transform_with_values_that_no_document_holds_is_refused(transform: Any, problem: type[Problem]) -> None:
    with pytest.raises(problem):
        transforms.check(transform)


@pytest.mark.parametrize("name", ["key", "", "a/b", ".", "__x__", "x" * 1_501, "\x00"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(BadKey):
        transforms.check_name(name)


@pytest.mark.parametrize("data", [None, {}, {"botl": 5}, {"botl": "{"}])
def test_an_invalid_record_of_another_client_counts_as_no_transform(data: Any) -> None:
    assert transforms.from_record(data) is None
