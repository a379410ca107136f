"""Documents as people call them: answers and their headers, and refusals that say what to do and store nothing."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient

from signalbox.adapters import runtime
from signalbox.core.ports import Snapshot
from signalbox.core.problems import Unavailable
from signalbox.core.records.queries import Field
from tests.unit.operations_platform import OperationsPlatform
from tests.unit.served import refused, served
from tests.unit.served import world as world


@pytest.fixture(scope="module")
def app() -> Iterator[flask.Flask]:
    with served("documents") as app:
        yield app


@pytest.fixture
def client(app: flask.Flask, world: OperationsPlatform) -> FlaskClient:
    assert world.events == []
    return app.test_client()


def untouched(world: OperationsPlatform) -> None:
    """Check that nothing was stored and nothing enqueued."""
    assert [world.ids(collection) for collection in ("documents", "wanted", "outbox")] == [[], [], []]
    assert (world.events, world.tasks) == ([], [])


# --- what is answered ---


def test_a_put_of_a_new_document_is_201_and_of_one_that_was_there_200(client: FlaskClient) -> None:
    first = client.put("/a", json={"n": 1, "old": 1})
    second = client.put("/a", json={"n": 2, "key": "a"})
    assert (first.status_code, first.json) == (201, {"key": "a", "n": 1, "old": 1})
    assert (second.status_code, second.json) == (200, {"key": "a", "n": 2})
    assert first.content_type == second.content_type == "application/json; charset=utf-8"


def test_put_get_and_head_give_the_same_strong_etag_until_the_next_write(client: FlaskClient) -> None:
    put = client.put("/a", json={"n": 1})
    got, head = client.get("/a"), client.head("/a")
    assert re.fullmatch(r'"[0-9]+-[0-9a-f]+"', put.headers["ETag"])
    assert put.headers["ETag"] == got.headers["ETag"] == head.headers["ETag"]
    assert (got.status_code, got.json, head.status_code, head.data) == (200, {"key": "a", "n": 1}, 200, b"")
    assert client.put("/a", json={"n": 1}).headers["ETag"] != put.headers["ETag"]


def test_a_delete_is_204_without_a_body_and_then_404(client: FlaskClient, world: OperationsPlatform) -> None:
    client.put("/a", json={})
    answer = client.delete("/a")
    assert (answer.status_code, answer.data, "ETag" in answer.headers) == (204, b"", False)
    refused(client.get("/a"), 404, "not-found", "key")
    refused(client.delete("/a"), 404, "not-found", "key")
    assert world.ids("documents") == []


def test_a_put_answers_with_what_its_links_embed(client: FlaskClient) -> None:
    client.put("/1234567", json={"city": "stuffville"})
    answer = client.put("/897654", json={"address": {"key": "1234567", "city": "x"}, "boss": {"key": "nobody"}})
    assert answer.json == {
        "key": "897654",
        "address": {"key": "1234567", "city": "stuffville"},
        "boss": {"key": "nobody", "link_missing": True},
    }
    assert client.get("/897654").json == answer.json


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"l": [[1, [2]], [], {}, [[]]], "m": {}, "null": None},
        {"n": 2**63 - 1, "low": -(2**63), "f": 1.0, "small": 1e-300},
        {"t": "é😀\u0000" + "x" * 700, "a.b c/d": 1, "[]": {"[]": []}},
        {"link_missing": True, "version": 1},
    ],
)
def test_every_json_value_comes_back_exactly(client: FlaskClient, content: dict[str, Any]) -> None:
    client.put("/a", json=content)
    assert json.dumps(client.get("/a").json, sort_keys=True) == json.dumps({"key": "a", **content}, sort_keys=True)


@pytest.mark.parametrize(
    ("path", "key"),
    [("/%C3%A9%20", "é "), ("/...", "..."), ("/__", "__"), ("/a%252Fb", "a%2Fb"), ("/" + "a" * 1_000, "a" * 1_000)],
)
def test_unusual_keys_are_valid(client: FlaskClient, world: OperationsPlatform, path: str, key: str) -> None:
    assert client.put(path, json={}).status_code == 201
    answer = client.get(path)
    assert (answer.status_code, answer.json) == (200, {"key": key})
    assert world.ids("documents") == [key]


def test_a_query_finds_documents_by_what_they_embed(client: FlaskClient) -> None:
    client.put("/t", json={"zipcode": 54321})
    for key in "ab":
        client.put(f"/{key}", json={"address": {"key": "t"}})
    answer = client.get("/", query_string={"where": "address.zipcode==54321"})
    copy = {"key": "t", "zipcode": 54321}
    assert (answer.status_code, answer.content_type) == (200, "application/json; charset=utf-8")
    assert answer.json == {"documents": [{"key": "a", "address": copy}, {"key": "b", "address": copy}]}
    assert client.get("/?where=address.zipcode==1").json == {"documents": []}


def test_a_query_has_several_conditions_an_order_and_pages(client: FlaskClient) -> None:
    for n in range(5):
        client.put(f"/d{n}", json={"n": n, "even": n % 2 == 0})
    query = "/?where=n>=0&where=even==true&order_by=-n&limit=2"
    first = client.get(query).json or {}
    last = client.get(f"{query}&page_token={first['next_page_token']}").json
    assert [document["n"] for document in first["documents"]] == [4, 2]
    assert last == {"documents": [{"key": "d0", "n": 0, "even": True}]}


def test_a_query_in_a_body_finds_and_costs_what_one_in_an_address_does(
    client: FlaskClient, world: OperationsPlatform
) -> None:
    for n in range(5):
        client.put(f"/d{n}", json={"n": n, "even": n % 2 == 0, "name": f"{n}"})
    address = "/?where=n>=0&where=even==true&order_by=-n&limit=2"
    body = {"where": ["n>=0", ["even", "==", True]], "order_by": ["-n"], "limit": 2}
    answers: list[Any] = []
    costs = [
        world.cost_of(lambda: answers.append(client.get(address).json)),
        world.cost_of(lambda: answers.append(client.post("/:query", json=body).json)),
    ]
    assert answers[0] == answers[1]
    assert costs[0] == costs[1]
    page = client.post("/:query", json={**body, "page_token": answers[1]["next_page_token"]})
    assert (page.status_code, page.json) == (200, {"documents": [{"key": "d0", "n": 0, "even": True, "name": "0"}]})
    named = client.post("/:query", json={"where": [["name", "in", ["1", "2"]]], "limit": None})
    assert [each["key"] for each in (named.json or {})["documents"]] == ["d1", "d2"]
    assert client.post("/:query", json={"where": ["even==true"], "count": True}).json == {"count": 3}
    assert client.post("/:query").json == client.get("/").json


@pytest.mark.parametrize(
    ("body", "slug", "field"),
    [
        ({"where": "n==1"}, "bad-query", "where"),
        ({"where": ["n"]}, "bad-query", "where"),
        ({"where": [["n", "=="]]}, "bad-query", "where"),
        ({"where": [["a==b", "!=", 3]]}, "bad-query", "where"),
        ({"where": [["a", "!= 1 ==", 3]]}, "bad-query", "where"),
        ({"where": [["a b", "==", 3]]}, "bad-query", "where"),
        ({"where": [["n", "is", 1]]}, "bad-query", "where"),
        ({"where": [{"n": 1}]}, "bad-query", "where"),
        ({"order_by": "n"}, "bad-query", "order_by"),
        ({"order_by": [1]}, "bad-query", "order_by"),
        ({"limit": "10"}, "bad-query", "limit"),
        ({"limit": 1001}, "bad-query", "limit"),
        ({"page_token": 1}, "bad-query", "page_token"),
        ({"count": "true"}, "bad-query", "count"),
        ({"count": True, "limit": 5}, "bad-query", "limit"),
        ({"from": 1}, "bad-query", "from"),
    ],
)
def test_an_invalid_query_in_a_body_is_refused(
    client: FlaskClient, body: dict[str, Any], slug: str, field: str
) -> None:
    refused(client.post("/:query", json=body), 400, slug, field)


def test_a_document_may_have_the_key_of_the_route_of_queries(client: FlaskClient) -> None:
    client.put("/:query", json={"n": 1})
    assert client.get("/:query").json == {"key": ":query", "n": 1}
    answer = client.post("/a", json={})
    assert (answer.status_code, answer.headers["Allow"]) == (405, "DELETE, GET, HEAD, PATCH, PUT")


def test_an_unavailable_store_is_503_with_retry_after(client: FlaskClient, world: OperationsPlatform) -> None:
    class Away:
        def __init__(self) -> None:
            self.query, self.count = world.store.query, world.store.count
            self.commit, self.write_each, self.new_id = world.store.commit, world.store.write_each, world.store.new_id

        def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
            raise Unavailable(f"no answer about {len(paths)} records, {fields}")

        def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
            raise Unavailable(f"no answer about {len(needed)} records, {len(others)} others, {bytes_max}")

    runtime.bind(replace(world.ports, store=Away()))
    answer = client.put("/a", json={})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert json.loads(answer.data)["type"] == "urn:signalbox:problem:unavailable"
    untouched(world)


# --- what is refused ---

DEEP = 20 * '{"a":' + "{}" + 20 * "}"


@pytest.mark.parametrize(
    ("body", "status", "slug", "field"),
    [
        (b"", 400, "not-json", None),
        (b"{", 400, "not-json", None),
        (b"a=1&b=2", 400, "not-json", None),
        (b'{"a": NaN}', 400, "not-json", None),
        (b'{"a": 1e999}', 400, "not-json", None),
        (b'{"a": "\xff"}', 400, "not-json", None),
        (b'{"a": 1, "a": 2}', 400, "not-json", "a"),
        (b"[1]", 400, "not-an-object", None),
        (b'"text"', 400, "not-an-object", None),
        (b"null", 400, "not-an-object", None),
        (b"{}".ljust(1024 * 1024 + 1), 413, "too-large", None),
        (json.dumps({"t": "x" * 1_000_000}).encode(), 413, "too-large", None),
        (json.dumps({"l": [{"key": "t"}] * 501}).encode(), 413, "too-large", None),
        (DEEP.encode(), 400, "too-deep", ".".join("a" * 20)),
        (b'{"l": ' + b"[" * 11 + b"]" * 11 + b"}", 400, "too-deep", "l" + "[0]" * 10),
        (b'{"a":' * 100 + b"1" + b"}" * 100, 400, "too-deep", ".".join("a" * 20)),
        (b'{"a":' * 101 + b"1" + b"}" * 101, 400, "too-deep", None),
        (b'{"key": "b"}', 400, "key-mismatch", "key"),
        (b'{"key": null}', 400, "key-mismatch", "key"),
        (b'{"_signalbox": {"linked": true}}', 400, "reserved-field", "_signalbox"),
        (b'{"a": {"b": ["\\ud800"]}}', 400, "bad-value", "a.b[0]"),
        (b'{"a": {"\\ud800": 1}}', 400, "bad-value", "a.\\ud800"),
        (b'{"a": [9223372036854775808]}', 400, "bad-value", "a[0]"),
        (b'{"a": -9223372036854775809}', 400, "bad-value", "a"),
        (b'{"": 1}', 400, "bad-value", ""),
        (b'{"a": {"__x__": 1}}', 400, "bad-value", "a.__x__"),
        (b'{"' + b"a" * 1_501 + b'": 1}', 400, "bad-value", "a" * 1_501),
    ],
)
def test_an_invalid_document_is_refused_and_nothing_stored(
    client: FlaskClient, world: OperationsPlatform, body: bytes, status: int, slug: str, field: str | None
) -> None:
    refused(client.put("/a", data=body, content_type="application/json"), status, slug, field)
    untouched(world)


@pytest.mark.parametrize(
    "path",
    ["/.", "/..", "/%2E%2E", "/__x__", "/____", "/" + "a" * 1_501, "/" + "%C3%A9" * 751, "/a%2Fb", "/a%0Ab", "/%7F"],
)
@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
def test_a_bad_key_is_refused_and_nothing_stored(
    client: FlaskClient, world: OperationsPlatform, method: str, path: str
) -> None:
    refused(client.open(path, method=method, json={}), 400, "bad-key", "key")
    untouched(world)


def test_a_document_without_a_key_in_its_address_is_not_put(client: FlaskClient, world: OperationsPlatform) -> None:
    answer = client.put("/", json={"key": "a"})
    refused(answer, 405, "method-not-allowed", None)
    assert answer.headers["Allow"] == "GET, HEAD, POST"
    untouched(world)


@pytest.mark.parametrize("path", ["/a/b", "/a/", "/a//b", "/a/other"])
def test_another_address_is_not_found_and_nothing_stored(
    client: FlaskClient, world: OperationsPlatform, path: str
) -> None:
    refused(client.put(path, json={}), 404, "not-found", None)
    untouched(world)


@pytest.mark.parametrize("address", ["/?name=Fred", "/?where=n==1&name=", "/a?name=1", "/a?name"])
def test_an_unknown_query_parameter_is_refused_by_its_name(client: FlaskClient, address: str) -> None:
    refused(client.get(address), 400, "bad-query", "name")


@pytest.mark.parametrize(
    ("path", "methods", "allowed"),
    [
        ("/a", ("POST", "OPTIONS", "TRACE", "BREW"), "DELETE, GET, HEAD, PATCH, PUT"),
        ("/", ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"), "GET, HEAD, POST"),
    ],
)
def test_every_other_method_is_405_with_those_that_are_allowed(
    client: FlaskClient, world: OperationsPlatform, path: str, methods: tuple[str, ...], allowed: str
) -> None:
    for method in methods:
        answer = client.open(path, method=method, json={})
        refused(answer, 405, "method-not-allowed", None)
        assert answer.headers["Allow"] == allowed
    untouched(world)


@pytest.mark.parametrize(
    ("query", "slug", "field"),
    [
        ("where=n", "bad-query", "where"),
        ("where=n=1", "bad-query", "where"),
        ("where=a..b==1", "bad-query", "where"),
        ("where=n+in+1", "bad-query", "where"),
        ("where=key==a/b", "bad-query", "where"),
        ("where=key.a==a", "bad-query", "where"),
        ("where=_signalbox.linked==true", "bad-query", "where"),
        ("where=n<null", "bad-query", "n"),
        ("where=a+contains+1&where=b+contains+2", "bad-query", None),
        ("where=n==9223372036854775808", "bad-value", "n"),
        ('where=n=="%5Cud800"', "bad-value", "n"),
        ("where=__x__==1", "bad-value", "__x__"),
        ("where=%FF==1", "bad-query", None),
        ("&".join(["order_by=n"] * 21), "bad-query", "order_by"),
        ("&".join(["where=n==1"] * 21), "bad-query", "where"),
        ("order_by=-", "bad-query", "order_by"),
        ("order_by=-key", "bad-query", "order_by"),
        ("count=yes", "bad-query", "count"),
        ("count=true&limit=5", "bad-query", "limit"),
        ("count=true&where=n", "bad-query", "where"),
        ("order_by=n&order_by=n", "bad-query", None),
        ("limit=0", "bad-query", "limit"),
        ("limit=1001", "bad-query", "limit"),
        ("limit=-1", "bad-query", "limit"),
        ("limit=ten", "bad-query", "limit"),
        ("page_token=x", "bad-query", "page_token"),
        ("page_token=" + base64.urlsafe_b64encode(b'[1, "a"]').decode(), "bad-query", "page_token"),
        ("page_token=" + base64.urlsafe_b64encode(b'["a/b"]').decode(), "bad-query", "page_token"),
        ("order_by=n&page_token=" + base64.urlsafe_b64encode(b'[[[1]], "a"]').decode(), "bad-query", "page_token"),
    ],
)
def test_an_invalid_query_is_refused(client: FlaskClient, query: str, slug: str, field: str | None) -> None:
    refused(client.get(f"/?{query}"), 400, slug, field)
