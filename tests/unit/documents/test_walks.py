"""How often a put walks over its content: each part of what it must know is computed once.

A walk is a call of a function that visits every value of a content. Such functions call themselves and each other for
the values inside, so only the outermost call counts.
"""

from collections import Counter
from collections.abc import Callable, ItemsView, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pytest

from signalbox.core import json_values
from signalbox.core.records import record_values
from signalbox.core.records.record_values import ValueRules
from signalbox.documents.machine import copies, links
from signalbox.documents.model import contents, sizes
from signalbox.documents.requests import PatchRequest, PutRequest
from signalbox.documents.service import patches, single_documents
from tests.unit.operations_platform import OperationsPlatform

WALKS_MAX = 10

WALKING: tuple[tuple[Any, str], ...] = (
    (contents, "_links_within"),
    (copies, "_links_in"),
    (links, "any_too_large"),
    (json_values, "canonical"),
    (json_values, "decode"),
    (json_values, "encode"),
    (record_values, "depth"),
    (record_values, "index_entries"),
    (record_values, "map_bytes"),
    (record_values, "path_bytes"),
    (record_values, "size_bytes"),
    (sizes, "_values_in"),
    (ValueRules, "check_map"),
)
"""All functions that walk over contents, by where they are looked up."""

FIELDS = 40


class Walks:
    """Counts the outermost calls of walking functions with a whole content, by their names."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._is_inside = False

    def watched(self, name: str, walk: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its calls counted."""

        def counted(*given: Any) -> Any:
            if self._is_inside or not any(map(_is_whole, given)):
                return walk(*given)
            self.counts[name] += 1
            self._is_inside = True
            try:
                result = walk(*given)
                return list(result) if isinstance(result, Iterator) else result
            finally:
                self._is_inside = False

        return counted


def _is_whole(value: Any) -> bool:
    """Return whether a value is a content or its record, perhaps inside another object, or its items."""
    if isinstance(value, Mapping) and len(value) == 1:
        return _is_whole(next(iter(value.values())))
    return isinstance(value, Mapping | ItemsView) and len(value) >= FIELDS


@contextmanager
def counted_walks() -> Iterator[Counter[str]]:
    """Count walks while the context is entered."""
    walks = Walks()
    with ExitStack() as stack:
        for owner, name in WALKING:
            stack.enter_context(mock.patch.object(owner, name, walks.watched(name, getattr(owner, name))))
        yield walks.counts


def body(number: int) -> dict[str, Any]:
    """Return a content of so many bytes that the number of its values decides whether its event may be too large."""
    return {f"f{field}": {"text": "x" * 900, "number": number, "list": [field, "a"]} for field in range(FIELDS)}


@pytest.fixture
def world() -> OperationsPlatform:
    made = OperationsPlatform()
    made.put("t", n=1)
    return made


def put(world: OperationsPlatform, content: dict[str, Any]) -> Counter[str]:
    with counted_walks() as walks:
        single_documents.put(world.ports, PutRequest.from_request("p", content))
    return walks


NEW = {
    "encode": 1,
    "check_map": 2,  # when the request is parsed, and the record before it is committed
    "_links_within": 1,
    "canonical": 1,
    "index_entries": 1,
    "_values_in": 1,
}


def test_a_put_of_a_new_document_walks_its_content_seven_times(world: OperationsPlatform) -> None:
    walks = put(world, body(1))
    assert walks == NEW
    assert walks.total() <= WALKS_MAX


def test_a_put_over_a_document_walks_the_two_contents_ten_times(world: OperationsPlatform) -> None:
    put(world, body(1))
    walks = put(world, body(2))
    assert walks == Counter(NEW) + Counter({"decode": 1, "map_bytes": 1, "_values_in": 1})
    assert walks.total() <= WALKS_MAX


def test_a_copy_makes_another_content_that_is_measured_and_whose_levels_are_checked(world: OperationsPlatform) -> None:
    walks = put(world, {**body(1), "to": {"key": "t"}})
    measured = Counter({"encode": 1, "map_bytes": 1, "index_entries": 1})
    assert walks == Counter(NEW) + measured + Counter({"_links_in": 1, "depth": 1, "path_bytes": 1})


def test_a_patch_surveys_only_the_merged_content(world: OperationsPlatform) -> None:
    put(world, body(1))
    with counted_walks() as walks:
        patches.patch(world.ports, PatchRequest.from_request("p", {"f1": 2}))
    of_the_document_before = Counter({"decode": 1, "map_bytes": 1, "_values_in": 1, "_links_within": 1})
    assert walks == Counter({**NEW, "check_map": 1, "map_bytes": 1}) + of_the_document_before
    assert walks.total() <= WALKS_MAX + 1
