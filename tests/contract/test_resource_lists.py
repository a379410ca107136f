"""Lists of a resource over both stores: what a store finds by its indexes equals what the function sorts itself."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from typing import Annotated, Any

import pytest
from werkzeug.test import Client

from signalbox import Function, Hidden, RefersTo, add_resource
from signalbox.adapters import runtime
from signalbox.core.ports import Ports, Store
from signalbox.testing import simulated_cloud
from signalbox.testing.indexed_store import IndexedStore
from tests.unit.operations_platform import OperationsPlatform


class Part:
    name: str
    count: int = 0
    weight: float = 0
    spare: bool = False
    built: date | None = None
    checked: datetime | None = None
    tags: list[str]
    whole: Annotated[str, RefersTo("parts", on_delete="cascade")] | None = None
    note: Annotated[str, Hidden] = ""


parts = Function("parts")
add_resource(parts, Part, ids_from_clients=True, narrow=lambda _: [("note", "==", "")])
APP = simulated_cloud.application(parts)

ITEMS: list[dict[str, Any]] = [
    {"id": "a", "name": "bolt", "count": 3, "weight": 1, "tags": ["red", "small"]},
    {"id": "b", "name": "nut", "count": 1, "weight": 1.5, "spare": True, "built": "2026-01-02", "whole": "a"},
    {"id": "c", "name": "Bolt", "count": -2, "checked": "2026-01-02T00:00:00.5Z", "tags": ["red"], "whole": "a"},
    {"id": "d", "name": "äpfel", "count": 3, "weight": 2**40, "checked": "2026-01-02T00:00:00Z", "whole": "b"},
    {"id": "e", "name": "nut", "count": 10**15, "weight": -0.5, "spare": True, "built": "2025-12-31"},
    {"id": "f", "name": "hidden", "note": "no list has this"},
]
QUERIES = [
    "",
    "_sort=name",
    "_sort=-name,count",
    "_sort=count,-weight&_start=1&_end=3",
    "_sort=built",
    "_sort=-checked",
    "_sort=whole.name,name",
    "_sort=-id",
    "count_gte=1&count_lte=3&_sort=count",
    "weight=1",
    "weight_gt=1&_sort=-weight",
    "spare=true&_sort=built",
    "spare_ne=true",
    "name=nut&name=bolt&_sort=-count",
    "built_ne=2026-01-02",
    "built=null&_sort=name",
    "checked_lt=2026-01-02T00:00:00.1Z",
    "tags_contains=red&_sort=name",
    "whole=a",
    "whole.count=3&_sort=-name",
    "whole.name_ne=bolt",
    "id=a&id=e&id=f",
    "id_gt=b&spare=true",
    "id_gte=b&_sort=count",
    "name=nut&_page=2&_limit=1&_sort=-count",
]


@pytest.fixture
def ports(store: Store) -> Iterator[Ports]:
    """Bind a store that holds the items, once as it is."""
    ports = replace(OperationsPlatform().ports, store=store)
    runtime.bind(ports)
    for item in ITEMS:
        assert Client(APP).put(f"/{item['id']}", json=item).status_code == 201
    yield ports
    runtime.bind(None)


def found(ports: Ports, store: Store, query: str) -> tuple[list[str], str | None]:
    """Return the ids that a list holds, and its total."""
    runtime.bind(replace(ports, store=store))
    answer = Client(APP).get(f"/?{query}")
    assert answer.status_code == 200, answer.text
    shown: Any = answer.json
    return [item["id"] for item in shown], answer.headers.get("X-Total-Count")


def test_a_list_is_the_same_with_every_index_and_without_any(ports: Ports, store: Store) -> None:
    lists = {query: found(ports, store, query) for query in QUERIES}
    assert {query: found(ports, IndexedStore(store, ()), query) for query in QUERIES} == lists
    assert lists["_sort=name"] == (["c", "a", "b", "e", "d"], None)
    assert lists["_sort=count,-weight&_start=1&_end=3"] == (["b", "d"], "5")
    assert lists["weight=1"] == (["a"], None)
    assert lists["whole=a"] == (["b", "c"], None)
    assert lists["built_ne=2026-01-02"] == (["e"], None)
    assert lists["id=a&id=e&id=f"] == (["a", "e"], None)


def test_dependents_of_an_item_are_found(ports: Ports, store: Store) -> None:
    runtime.bind(replace(ports, store=store))
    assert Client(APP).delete("/a").status_code == 204
    assert found(ports, store, "") == (["e"], None)
