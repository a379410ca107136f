"""Lists of the names that begin with a prefix: semaphores, batches, rates, objects and runs."""

from collections.abc import Iterator
from typing import Any

import pytest

from signalbox.core.given import given
from signalbox.testing import Harness

NAMES = ("a", "ab", "ab-1", "ab-2", "abé", "b")
LISTS = {
    "semaphores": ("semaphores", "name"),
    "batches": ("batches", "id"),
    "rates": ("rates", "name"),
    "shop/objects/Stock": ("objects", "key"),
    "shop/flows/ship": ("flows", "id"),
}


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        for name in NAMES:
            harness.put(f"semaphores/{name}", json={"permits": 1, "lease_seconds": 60})
            harness.put(f"rates/{name}", json={"per_minute": 6})
            harness.post("batches", json={"id": name, "units": [1]})
            harness.post(f"shop/objects/Stock/{name}/put", json={"count": 1})
            order: dict[str, Any] = {"arguments": {"order": name, "item": "cup"}}
            harness.post(f"shop/flows/ship/{name}", json=order)
        harness.post(
            "shop/flows/checkout/ab-9", json={"arguments": {"order": "1", "item": "cup", "count": 1, "amount": 1}}
        )
        harness.run(due_only=True, raise_errors=False)
        yield harness


def found(harness: Harness, path: str, **query: object) -> list[str]:
    items, name = LISTS[path]
    asked = "&".join(f"{key}={value}" for key, value in given(**query).items())
    return [each[name] for each in harness.get(f"{path}?{asked}").json[items]]


@pytest.mark.parametrize("path", LISTS)
def test_a_list_is_of_the_names_that_begin_with_a_prefix(harness: Harness, path: str) -> None:
    assert found(harness, path, prefix="ab") == ["ab", "ab-1", "ab-2", "abé"]
    assert found(harness, path, prefix="ab-") == ["ab-1", "ab-2"]
    assert found(harness, path, prefix="") == list(NAMES)
    assert found(harness, path, prefix="c") == []


@pytest.mark.parametrize("path", ["semaphores", "batches", "rates"])
def test_its_pages_have_the_prefix(harness: Harness, path: str) -> None:
    page = harness.get(f"{path}?prefix=ab&limit=3").json
    assert found(harness, path, prefix="ab", page_token=page["next_page_token"]) == ["abé"]
    assert harness.get(f"{path}?prefix=a&page_token={page['next_page_token']}").json["field"] == "page_token"


def test_runs_are_counted_by_prefix_and_state(harness: Harness) -> None:
    assert harness.get("shop/flows/ship?prefix=ab&count=true").json == {"count": 4}
    assert harness.get("shop/flows/ship?prefix=ab&state=failed").json["flows"] == []
    assert harness.get("shop/flows/checkout?prefix=ab&count=true").json == {"count": 1}


@pytest.mark.parametrize("path", LISTS)
def test_a_prefix_that_no_name_can_have_is_refused(harness: Harness, path: str) -> None:
    for prefix in ("a%2Fb", "a" * 1_600):
        assert harness.get(f"{path}?prefix={prefix}").json["field"] == "prefix"
