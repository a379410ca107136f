"""Transforms that can be stored, and those that are refused."""

from typing import Any

import pytest

from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import BadKey, BadValue, Problem, TooDeep, TooLarge
from signalbox.transforms import model, requests
from signalbox.transforms.limits import LIMITS as TRANSFORMS_LIMITS
from signalbox.transforms.problems import BadTransform


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
    assert model.transform_from_record(model.transform_to_record(requests.check_transform(transform))) == transform


@pytest.mark.parametrize(
    "transform",
    [5, None, True, [], ["#"], "text", "{{.a}}", "lit=#", "#a", "#.a ?b", {"ref": ".a", "transform": 5}],
)
def test_a_transform_that_never_produces_an_object_is_refused(transform: Any) -> None:
    with pytest.raises(BadTransform):
        requests.check_transform(transform)


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
        requests.check_transform(transform)
    assert refusal.value.field == field


def nested(levels: int) -> Any:
    return {"a": nested(levels - 1)} if levels else 1


@pytest.mark.parametrize(
    ("transform", "problem"),
    [
        ({"a": 2**63}, BadValue),
        ({"": 1}, BadValue),
        ({"__x__": 1}, BadValue),
        (nested(CORE_LIMITS.depth_max + 1), TooDeep),
        ({"a": "x" * TRANSFORMS_LIMITS.transform_bytes_max}, TooLarge),
    ],
)
def test_a_transform_with_values_that_no_document_holds_is_refused(transform: Any, problem: type[Problem]) -> None:
    with pytest.raises(problem):
        requests.check_transform(transform)


@pytest.mark.parametrize("name", ["key", "", "a/b", ".", "__x__", "x" * 1_501, "\x00"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(BadKey):
        requests.check_transform_name(name)


@pytest.mark.parametrize("data", [None, {}, {"botl": 5}, {"botl": "{"}])
def test_an_invalid_record_of_another_client_counts_as_no_transform(data: Any) -> None:
    assert model.transform_from_record(data) is None
