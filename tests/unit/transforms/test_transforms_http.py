"""Transforms as people call them: answers and their headers, and refusals that say what to do and store nothing."""

import json
import re
from collections.abc import Iterator

import flask
import pytest
from flask.testing import FlaskClient

from signalbox.adapters.cost_meter import Cost
from signalbox.core.surface.paging import Listing
from signalbox.transforms import service
from signalbox.transforms.limits import LIMITS
from tests.unit.operations_platform import OperationsPlatform
from tests.unit.served import refused, served
from tests.unit.served import world as world

FULL = {"fulladdr": "{{.addr1}}, {{.city}} {{.zipcode}}"}


@pytest.fixture(scope="module")
def app() -> Iterator[flask.Flask]:
    with served("transforms") as app:
        yield app


@pytest.fixture
def client(app: flask.Flask, world: OperationsPlatform) -> FlaskClient:
    assert world.tasks == []
    return app.test_client()


def untouched(world: OperationsPlatform) -> None:
    """Check that nothing was stored and nothing enqueued."""
    assert [world.ids(collection) for collection in ("transforms", "outbox")] == [[], []]
    assert world.tasks == []


# --- what is answered ---


def test_a_put_of_a_new_transform_is_201_and_of_one_that_was_there_200(client: FlaskClient) -> None:
    first, second = client.put("/address", json=FULL), client.put("/address", json={"town": "#.city"})
    assert (first.status_code, first.json) == (201, FULL)
    assert (second.status_code, second.json) == (200, {"town": "#.city"})
    assert first.content_type == second.content_type == "application/json; charset=utf-8"


def test_put_get_and_head_give_the_same_strong_etag_until_the_transform_is_another(client: FlaskClient) -> None:
    put = client.put("/address", json=FULL)
    again, got, head = client.put("/address", json=FULL), client.get("/address"), client.head("/address")
    assert re.fullmatch(r'"[0-9T]+"', put.headers["ETag"])
    assert {answer.headers["ETag"] for answer in (again, got, head)} == {put.headers["ETag"]}
    assert (got.status_code, got.json, head.status_code, head.data) == (200, FULL, 200, b"")
    assert client.put("/address", json={"town": "#.city"}).headers["ETag"] != put.headers["ETag"]


def test_transforms_are_listed_by_name_page_by_page(client: FlaskClient, world: OperationsPlatform) -> None:
    etags = {name: client.put(f"/{name}", json=FULL).headers["ETag"] for name in ("b", "a", "c")}
    first = client.get("/?limit=2").json
    assert first
    [a, b] = first["transforms"]
    assert a == {"name": "a", "transform": FULL, "etag": etags["a"]}
    assert b["name"] == "b"
    second = client.get(f"/?limit=2&page_token={first['next_page_token']}").json
    assert second == {"transforms": [{"name": "c", "transform": FULL, "etag": etags["c"]}]}
    listing = Listing.from_request({}, "transforms", LIMITS.transforms_listed_max)
    assert world.cost_of(lambda: service.find(world.ports, listing)) == Cost(round_trips=1, reads=3)


@pytest.mark.parametrize(("query", "field"), [("limit=x", "limit"), ("page_token=x", "page_token"), ("a=1", "a")])
def test_a_list_of_transforms_names_the_parameter_that_is_wrong(client: FlaskClient, query: str, field: str) -> None:
    refused(client.get(f"/?{query}"), 400, "bad-query", field)


def test_a_delete_is_204_without_a_body_and_then_404(client: FlaskClient, world: OperationsPlatform) -> None:
    client.put("/address", json=FULL)
    answer = client.delete("/address")
    assert (answer.status_code, answer.data, "ETag" in answer.headers) == (204, b"", False)
    refused(client.get("/address"), 404, "not-found", "name")
    refused(client.delete("/address"), 404, "not-found", "name")
    assert world.ids("transforms") == []


def test_documents_follow_a_transform_that_is_stored_and_deleted(
    client: FlaskClient, world: OperationsPlatform
) -> None:
    world.put("1234567", addr1="1 thing st", city="stuffville", zipcode=54321)
    plain = world.put("897654", address={"key": "1234567"})
    client.put("/address", json=FULL)
    world.settle()
    assert world.shown("897654")["address"] == {"key": "1234567", "fulladdr": "1 thing st, stuffville 54321"}
    client.delete("/address")
    world.settle()
    assert world.shown("897654") == plain


@pytest.mark.parametrize(
    "transform", ["#", "#.part", {}, {"key": "t", "a": [[1, 2.0, None]]}, {"é": "{{.x}}", "link_missing": True}]
)
def test_a_transform_is_returned_unchanged(client: FlaskClient, transform: object) -> None:
    client.put("/address", json=transform)
    assert json.dumps(client.get("/address").json, sort_keys=True) == json.dumps(transform, sort_keys=True)


@pytest.mark.parametrize(
    ("path", "name"),
    [("/%C3%A9%20", "é "), ("/_signalbox", "_signalbox"), ("/__", "__"), ("/" + "a" * 1_000, "a" * 1_000)],
)
def test_unusual_names_are_valid(client: FlaskClient, world: OperationsPlatform, path: str, name: str) -> None:
    assert client.put(path, json=FULL).status_code == 201
    assert client.get(path).json == FULL
    assert world.ids("transforms") == [name]


# --- what is refused ---


@pytest.mark.parametrize("path", ["/key", "/.", "/..", "/__x__", "/" + "a" * 1_501, "/a%2Fb", "/a%0Ab"])
@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
def test_an_invalid_name_of_a_transform_is_refused(
    client: FlaskClient, world: OperationsPlatform, method: str, path: str
) -> None:
    refused(client.open(path, method=method, json=FULL), 400, "bad-key", "name")
    untouched(world)


@pytest.mark.parametrize(
    ("body", "status", "slug", "field"),
    [
        (b"", 400, "not-json", None),
        (b"{", 400, "not-json", None),
        (b'{"a": 1, "a": 2}', 400, "not-json", "a"),
        (b"null", 400, "bad-transform", None),
        (b"5", 400, "bad-transform", None),
        (b'["#.a"]', 400, "bad-transform", None),
        (b'"{{.a}}"', 400, "bad-transform", None),
        (b'{"a": "{{.a"}', 400, "bad-transform", "a"),
        (b'{"a": ["{{.a}}", {"b": "{{.a}} {{.b"}]}', 400, "bad-transform", "a[1].b"),
        (b'{"a": "{{.first, {{.last}}"}', 400, "bad-transform", "a"),
        (b'{"a": {"ref": ".l @:", "transform": ["x {{"]}}', 400, "bad-transform", "a.transform[0]"),
        (b'{"a": 9223372036854775808}', 400, "bad-value", "a"),
        (b'{"a": {"__x__": 1}}', 400, "bad-value", "a.__x__"),
        (b'{"a":' * 101 + b"1" + b"}" * 101, 400, "too-deep", None),
        (json.dumps({"a": "x" * LIMITS.transform_bytes_max}).encode(), 413, "too-large", None),
    ],
)
def test_an_invalid_transform_is_refused_and_nothing_stored(
    client: FlaskClient, world: OperationsPlatform, body: bytes, status: int, slug: str, field: str | None
) -> None:
    refused(client.put("/address", data=body, content_type="application/json"), status, slug, field)
    untouched(world)


@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
def test_an_unknown_query_parameter_is_refused_by_its_name(
    client: FlaskClient, world: OperationsPlatform, method: str
) -> None:
    refused(client.open("/address?force=true", method=method, json=FULL), 400, "bad-query", "force")
    untouched(world)


@pytest.mark.parametrize("path", ["/a/b", "/a/"])
def test_an_address_of_no_transform_is_not_found(client: FlaskClient, world: OperationsPlatform, path: str) -> None:
    refused(client.put(path, json=FULL), 404, "not-found", None)
    untouched(world)


@pytest.mark.parametrize("method", ["POST", "PATCH", "OPTIONS", "TRACE"])
def test_every_other_method_is_405_with_those_that_are_allowed(
    client: FlaskClient, world: OperationsPlatform, method: str
) -> None:
    answer = client.open("/address", method=method, json=FULL)
    refused(answer, 405, "method-not-allowed", None)
    assert answer.headers["Allow"] == "DELETE, GET, HEAD, PUT"
    untouched(world)
