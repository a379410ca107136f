"""Which handler a method and an address reach, and which query parameters it takes."""

import json

import flask
import pytest
from flask.testing import FlaskClient
from werkzeug.test import EnvironBuilder, run_wsgi_app

from signalbox.adapters.http.routes import Routes
from tests.unit.adapters.http_function import app as app
from tests.unit.adapters.http_function import client as client


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/a%2Fb", "a/b"),
        ("/a%252Fb", "a%2Fb"),
        ("/%C3%A9+%20", "é+ "),
        ("/a%3Fb%23c", "a?b#c"),
        ("/robots.txt", "robots.txt"),
        ("/favicon.ico", "favicon.ico"),
    ],
)
def test_a_key_is_one_segment_percent_decoded_once(client: FlaskClient, path: str, key: str) -> None:
    assert client.get(path).json == {"key": key}


def test_a_longer_pattern_has_its_own_handler(client: FlaskClient) -> None:
    answer = client.get("/a%2Fversions/versions", headers={"If-Match": '"7"'})
    assert answer.json == {"versions of": "a/versions", "if match": '"7"'}


@pytest.mark.parametrize("path", ["/a/b", "/a/versions/", "/a/", "/a//versions", "/a/b/c"])
def test_an_address_that_is_not_routed_is_not_found(client: FlaskClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.content_type) == (404, "application/problem+json")
    assert json.loads(answer.data)["type"] == "urn:signalbox:problem:not-found"


def test_a_path_that_is_not_utf_8_is_a_bad_key(app: flask.Flask) -> None:
    environ = EnvironBuilder("/").get_environ() | {"RAW_URI": "/%FF", "PATH_INFO": "/\xff"}
    body, _, _ = run_wsgi_app(app, environ)
    assert json.loads(b"".join(body))["type"] == "urn:signalbox:problem:bad-key"


@pytest.mark.parametrize("method", ["PATCH", "OPTIONS", "TRACE", "BREW"])
def test_another_method_gets_405_with_those_allowed(client: FlaskClient, method: str) -> None:
    answer = client.open("/a", method=method)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "DELETE, GET, HEAD, PUT")


def test_a_route_for_trace_is_refused() -> None:
    with pytest.raises(ValueError, match="TRACE"):
        Routes("x").on("TRACE", "/")


def test_head_answers_like_get_without_a_body(client: FlaskClient) -> None:
    answer = client.head("/a")
    assert (answer.status_code, answer.headers["ETag"], answer.data) == (200, '"1"', b"")


def test_an_answer_without_a_body_has_no_content_type(client: FlaskClient) -> None:
    answer = client.delete("/a")
    assert (answer.status_code, answer.data) == (204, b"")
    assert "Content-Type" not in answer.headers


def test_parameters_come_in_order_and_repeated_and_an_empty_one_not_at_all(client: FlaskClient) -> None:
    answer = client.get("/?where=a==1&empty=&where=b%3D%3D%22x%26y%22&c=1+2&empty")
    assert answer.json == {"query": [["where", "a==1"], ["where", 'b=="x&y"'], ["c", "1 2"]]}
    assert client.get("/?unknown=").status_code == 400


@pytest.mark.parametrize("query", ["a=%FF", "&".join(f"a={n}" for n in range(101))])
def test_parameters_that_cannot_be_read_are_a_bad_query(client: FlaskClient, query: str) -> None:
    assert json.loads(client.get(f"/?{query}").data)["type"] == "urn:signalbox:problem:bad-query"


@pytest.mark.parametrize(
    ("method", "address", "name", "known"),
    [
        ("GET", "/?where=a==1&name=Fred", "name", "It has: a, c, empty, where."),
        ("HEAD", "/?Where=a==1", "Where", "It has: a, c, empty, where."),
        ("GET", "/a?b", "b", "It has none."),
        ("PUT", "/a?if-match=x&zzz=", "if-match", "It has none."),
        ("DELETE", "/a?force=true", "force", "It has none."),
    ],
)
def test_an_unknown_query_parameter_is_refused_by_name(
    client: FlaskClient, method: str, address: str, name: str, known: str
) -> None:
    answer = client.open(address, method=method, data="not JSON")
    assert answer.status_code == 400
    if method != "HEAD":
        problem = json.loads(answer.data)
        assert (problem["type"], problem["field"]) == ("urn:signalbox:problem:bad-query", name)
        assert problem["detail"] == f"This address has no query parameter `{name}`. {known}"


def test_a_route_may_allow_any_query_parameter(client: FlaskClient) -> None:
    assert client.get("/any/parameters?a=1&b=").json == {"a": "1", "b": ""}


@pytest.mark.parametrize("pattern", ["dict", "tasks/x", "", "{key}"])
def test_a_pattern_without_a_leading_slash_cannot_be_routed(pattern: str) -> None:
    with pytest.raises(ValueError, match=f'write "/{pattern}"'):
        Routes("x").on("POST", pattern)
