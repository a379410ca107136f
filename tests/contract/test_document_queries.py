"""Queries by URL, over both stores: fields of copies, members of lists, types, pages under writes."""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from functions_framework import create_app

from signalbox.adapters import runtime
from signalbox.core.ports import Put, Store
from signalbox.testing.indexed_store import IndexedStore
from tests.unit.operations_platform import OperationsPlatform

MAIN = Path(__file__).parents[2] / "functions" / "documents" / "main.py"

ADDRESS = {
    "type": "Address",
    "addr1": "1 thing st",
    "city": "stuffville",
    "zipcode": 54321,
    "tags": ["some", "tags"],
    "floor": None,
    "let": True,
    "at": {"lat": 1.5},
    "rooms": [{"size": 9}, [1, [2]]],
    "none": [],
    "nothing": {},
}
COPY = {"key": "1234567", **ADDRESS}


class Asking:
    """A client of `documents` that returns keys."""

    def __init__(self, client: FlaskClient, store: Store) -> None:
        self.client, self.store = client, store

    def put(self, key: str, **content: Any) -> None:
        assert self.client.put(f"/{key}", json=content).status_code in {200, 201}

    def ask(self, *where: str, **more: Any) -> dict[str, Any]:
        answer = self.client.get("/", query_string={"where": where, **more})
        assert answer.status_code == 200, answer.text
        return dict(answer.get_json())

    def keys(self, *where: str, **more: Any) -> list[str]:
        return [document["key"] for document in self.ask(*where, **more)["documents"]]


@pytest.fixture(scope="module")
def client() -> Iterator[FlaskClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUNCTION_TARGET", "documents")
        patch.setenv("FUNCTION_SIGNATURE_TYPE", "http")
        patch.delitem(sys.modules, "main", raising=False)
        yield create_app("documents", str(MAIN), "http").test_client()


@pytest.fixture
def asking(client: FlaskClient, store: Store) -> Iterator[Asking]:
    runtime.bind(replace(OperationsPlatform().ports, store=IndexedStore(store, ())))
    yield Asking(client, store)
    runtime.bind(None)


@pytest.fixture
def fred(asking: Asking) -> Asking:
    """Fred lives at an address; Ann at none; hers is a text where Bob has a number."""
    asking.put("1234567", **ADDRESS)
    asking.put("fred", name="Fred", address={"key": "1234567"}, n=2)
    asking.put("ann", name="Ann", n=1)
    asking.put("bob", name="Bob", address={"zipcode": "54321"}, n=3)
    return asking


@pytest.mark.parametrize(
    "condition",
    [
        "address.zipcode==54321",
        "address.zipcode == 54321",
        "address.zipcode==54321.0",
        "address.zipcode!=1",
        "address.zipcode<54322",
        "address.zipcode<=54321",
        "address.zipcode>54320",
        "address.zipcode>=54321",
        "address.zipcode in [1, 54321]",
        "address.city==stuffville",
        'address.city=="stuffville"',
        "address.addr1==1 thing st",
        "address.tags contains tags",
        'address.tags==["some","tags"]',
        "address.floor==null",
        "address.let==true",
        "address.at.lat>1",
        'address.at=={"lat":1.5}',
        "address.none==[]",
        "address.nothing=={}",
        'address.rooms==[{"size":9},[1,[2]]]',
        'address.rooms contains {"size":9}',
        'address.key=="1234567"',
    ],
)
def test_a_document_is_found_by_a_field_of_an_embedded_copy(fred: Asking, condition: str) -> None:
    assert "fred" in fred.keys(condition)
    assert "ann" not in fred.keys(condition)
    assert {"key": "fred", "name": "Fred", "n": 2, "address": COPY} in fred.ask(condition)["documents"]


def test_a_number_finds_numbers_and_a_quoted_one_texts(fred: Asking) -> None:
    assert fred.keys("address.zipcode==54321") == ["fred"]
    assert fred.keys('address.zipcode=="54321"') == ["bob"]
    assert fred.keys("address.let==true") == ["fred"]
    assert fred.keys('address.let=="true"') == []


def test_what_is_inside_a_lists_objects_is_not_searched(fred: Asking) -> None:
    assert fred.keys("rooms.size==9") == []
    assert fred.keys("rooms contains 9") == []


def test_conditions_and_their_order_hold_together(fred: Asking) -> None:
    assert fred.keys("n>=1", "n<3", order_by="-n") == ["fred", "ann"]
    assert fred.keys("address.city==stuffville", "address.tags contains some", "n==2") == ["fred"]
    assert fred.keys(order_by="n", limit=2) == ["ann", "fred"]
    assert fred.keys(order_by=["n", "key"]) == ["ann", "fred", "bob"]


def test_documents_are_found_by_their_own_key(fred: Asking) -> None:
    assert fred.keys("key==fred") == ["fred"]
    assert fred.keys("key==1234567") == ["1234567"]
    assert fred.keys("key>=b", order_by="key") == ["bob", "fred"]
    assert fred.keys('key in ["ann", "nobody"]', "n==1") == ["ann"]


def test_a_count_is_of_all_that_is_found(fred: Asking) -> None:
    assert fred.ask(count="true") == {"count": 4}
    assert fred.ask("n>1", count="true") == {"count": 2}
    assert fred.ask("address.zipcode==54321", "address.tags contains some", count="true") == {"count": 1}
    assert fred.ask("n==7", count="true") == {"count": 0}


def test_a_query_that_needs_an_index_is_refused_with_the_entry_to_add(fred: Asking) -> None:
    answer = fred.client.get("/", query_string={"where": "address.city==stuffville", "order_by": "-n"})
    problem = answer.get_json(force=True)
    assert (answer.status_code, problem["type"]) == (400, "urn:signalbox:problem:needs-index")
    assert '{collection: documents, fields: ["address.city", "-n"]}' in problem["detail"]


WRITTEN_MAX = 8


def pages(asking: Asking, **query: Any) -> Iterator[list[str]]:
    token = ""
    while True:
        found = asking.ask(**query, page_token=token)
        yield [document["key"] for document in found["documents"]]
        token = found.get("next_page_token", "")
        if not token:
            return


@pytest.mark.parametrize("order", ["n", "-n", "key"])
def test_pages_show_each_unchanged_document_once_under_concurrent_writes(asking: Asking, order: str) -> None:
    for n in range(9):
        asking.put(f"d{n}", n=n // 2)
    shown: list[str] = []
    for number, page in enumerate(pages(asking, order_by=order, limit=2)):
        shown += page
        asking.put(f"c{number}", n=-1)
        asking.put(f"e{number}", n=9)
        asking.client.delete(f"/{page[-1]}" if page else "/none")
        if number == WRITTEN_MAX:
            break  # the order puts what is written in between last, so there is always more
    stayed = [key for key in shown if key.startswith("d")]
    wanted = [f"d{n}" for n in range(9)]
    assert stayed == (wanted[::-1] if order == "-n" else wanted)
    assert len(set(shown)) == len(shown)


def test_a_full_last_page_has_a_token_and_the_page_behind_it_is_empty(asking: Asking) -> None:
    for n in range(4):
        asking.put(f"d{n}", n=n)
    assert list(itertools.islice(pages(asking, order_by="n", limit=2), 5)) == [["d0", "d1"], ["d2", "d3"], []]


def test_a_page_token_of_another_query_is_refused(asking: Asking) -> None:
    for n in range(3):
        asking.put(f"d{n}", n=n)
    token = asking.ask(order_by="n", limit=1)["next_page_token"]
    assert asking.keys(order_by="n", limit=2, page_token=token) == ["d1", "d2"]
    for other in ({"order_by": "-n"}, {"order_by": "n", "where": "n>0"}, {}):
        answer = asking.client.get("/", query_string={**other, "page_token": token})
        assert (answer.status_code, answer.get_json(force=True)["field"]) == (400, "page_token")


def test_what_only_other_clients_store_is_shown_with_a_mark_and_stops_no_page(asking: Asking) -> None:
    foreign = {"raw": {"__bytes__": "AAE="}, "at": {"__geo_point__": [1.5, 2.0]}}
    asking.store.commit([Put("documents/a", foreign), Put("documents/b", {"raw": "text"})])
    shown = [{"key": "a", **foreign}, {"key": "b", "raw": "text"}]
    assert asking.ask()["documents"] == shown
    first = asking.ask(order_by="-raw", limit=1)
    assert [first["documents"], asking.keys(order_by="-raw", page_token=first["next_page_token"])] == [shown[:1], ["b"]]
    assert asking.keys('raw=={"__bytes__": "AAE="}') == ["a"]
