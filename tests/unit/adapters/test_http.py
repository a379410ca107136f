"""The HTTP layer of a function, under the framework that runs it in the cloud."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient
from functions_framework import create_app
from werkzeug.test import EnvironBuilder, run_wsgi_app

from shared.adapters.http.bodies import BODY_BYTES_MAX
from shared.adapters.http.routes import Routes

MAIN = """
from shared.adapters.http.routes import Response, Request, Routes
from shared.core.rules.problems import BadValue, Unavailable

routes = Routes("shelf")

@routes.on("GET", "/", query=("where", "empty", "c", "a"))
def find(request):
    return Response(200, {"query": list(request.query.items(multi=True))})

@routes.on("POST", "/")
def any_json(request):
    return Response(200, {"value": request.json()})

@routes.on("GET", "/{key}")
def get(request, key):
    return Response(200, {"key": key}, {"ETag": '"1"'})

@routes.on("PUT", "/{key}")
def put(request, key):
    return Response(201, request.json_object())

@routes.on("DELETE", "/{key}")
def delete(request, key):
    return Response(204)

@routes.on("GET", "/{key}/versions")
def versions(request, key):
    return Response(200, {"versions of": key, "if match": request.header("If-Match")})

@routes.on("GET", "/any/parameters", query=None)
def any_parameters(request):
    return Response(200, request.query)

@routes.on("POST", "/refuse")
def refuse(request):
    raise BadValue("A document holds no songs", field="song")

@routes.on("POST", "/later")
def later(request):
    raise Unavailable("the store said ABORTED", retry_after_seconds=3)

@routes.on("POST", "/bug")
def bug(request):
    raise KeyError("secret")

shelf = routes.entry_point()
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[flask.Flask]:
    main = tmp_path_factory.mktemp("shelf") / "main.py"
    main.write_text(MAIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUNCTION_TARGET", "shelf")
        patch.setenv("FUNCTION_SIGNATURE_TYPE", "http")
        patch.delitem(sys.modules, "main", raising=False)
        yield create_app("shelf", str(main), "http")  # type: ignore[no-untyped-call]


@pytest.fixture
def client(app: flask.Flask) -> FlaskClient:
    return app.test_client()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


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


def test_trace_cannot_be_routed() -> None:
    with pytest.raises(ValueError, match="TRACE"):
        Routes("x").on("TRACE", "/")


def test_head_answers_like_get_without_a_body(client: FlaskClient) -> None:
    answer = client.head("/a")
    assert (answer.status_code, answer.headers["ETag"], answer.data) == (200, '"1"', b"")


def test_an_answer_without_a_body_has_no_content_type(client: FlaskClient) -> None:
    answer = client.delete("/a")
    assert (answer.status_code, answer.data) == (204, b"")
    assert "Content-Type" not in answer.headers


def test_parameters_come_in_order_and_repeated(client: FlaskClient) -> None:
    answer = client.get("/?where=a==1&empty=&where=b%3D%3D%22x%26y%22&c=1+2")
    assert answer.json == {"query": [["where", "a==1"], ["where", 'b=="x&y"'], ["empty", ""], ["c", "1 2"]]}


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


def test_an_empty_body_is_an_object_without_fields(client: FlaskClient) -> None:
    assert client.put("/a").json == {}
    assert client.put("/a", data=b"").status_code == 201


def test_an_empty_body_is_no_json_where_any_value_is_allowed(client: FlaskClient) -> None:
    assert json.loads(client.post("/").data)["type"] == "urn:signalbox:problem:not-json"


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "é😀", [], {"a": {"b": [1]}}])
def test_a_body_may_be_any_json_whatever_its_content_type(client: FlaskClient, value: object) -> None:
    answer = client.post("/", data=json.dumps(value), content_type="application/x-www-form-urlencoded")
    assert answer.json == {"value": value}
    assert answer.content_type == "application/json; charset=utf-8"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b" ", "Line 1, column 2 of the body: Expecting value"),
        (b'{"a": 1,\n "b" 2}', "Line 2, column 6 of the body: Expecting ':' delimiter"),
        (b'{"a": "\xff"}', "Byte 7 of the body is not UTF-8"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
    ],
)
def test_a_body_that_is_not_json_is_refused_with_the_place(client: FlaskClient, body: bytes, said: str) -> None:
    problem = json.loads(client.put("/a", data=body).data)
    assert (problem["type"], problem["status"], problem["detail"]) == ("urn:signalbox:problem:not-json", 400, said)


@pytest.mark.parametrize(
    ("body", "kind"), [("[1]", "a list"), ("true", "true or false"), ("null", "null"), ("1", "a number")]
)
def test_where_an_object_is_required_another_value_is_refused(client: FlaskClient, body: str, kind: str) -> None:
    problem = json.loads(client.put("/a", data=body).data)
    assert (problem["type"], problem["detail"]) == ("urn:signalbox:problem:not-an-object", f"The body is {kind}.")


def test_a_body_nested_too_deep_is_a_problem_and_no_crash(client: FlaskClient) -> None:
    for body in ("[" * 200_000, "[" * 101 + "]" * 101, '{"a":' * 50_000):
        assert json.loads(client.post("/", data=body).data)["type"] == "urn:signalbox:problem:too-deep"
    assert client.post("/", data="[" * 100 + "]" * 100).status_code == 200


class Endless(io.RawIOBase):
    """A body of which too much is read when it is read to its end."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__()
        self.left = bytes_max

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self.left)
        assert size, "more of the body was read than there was a reason to"
        self.left -= size
        buffer[:size] = b" " * size
        return size


@pytest.mark.parametrize("said_in_advance", [True, False])
def test_a_body_over_the_limit_is_refused_without_being_read_to_its_end(
    app: flask.Flask, said_in_advance: bool
) -> None:
    environ = EnvironBuilder("/a", method="PUT").get_environ()
    environ["wsgi.input"] = Endless(3 * 1024 * 1024)
    environ["wsgi.input_terminated"] = True
    environ.pop("CONTENT_LENGTH", None)
    if said_in_advance:
        environ["CONTENT_LENGTH"] = str(10**9)
    body, status, _ = run_wsgi_app(app, environ)
    assert status.startswith("413 ")
    assert json.loads(b"".join(body))["type"] == "urn:signalbox:problem:too-large"


def test_a_body_of_exactly_the_limit_is_read(client: FlaskClient) -> None:
    assert client.put("/a", data=b"{}".ljust(BODY_BYTES_MAX)).status_code == 201
    assert client.put("/a", data=b"{}".ljust(BODY_BYTES_MAX + 1)).status_code == 413


def test_a_problem_is_answered_as_rfc_9457(client: FlaskClient) -> None:
    answer = client.post("/refuse")
    assert answer.content_type == "application/problem+json"
    assert json.loads(answer.data) == {
        "type": "urn:signalbox:problem:bad-value",
        "title": "Invalid value",
        "status": 400,
        "detail": "A document holds no songs",
        "field": "song",
    }


def test_unavailable_has_a_retry_after_and_no_reason(client: FlaskClient) -> None:
    answer = client.post("/later")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "3")
    assert json.loads(answer.data)["type"] == "urn:signalbox:problem:unavailable"
    assert b"ABORTED" not in answer.data


def test_an_unhandled_exception_is_logged_and_not_shown_to_the_caller(
    client: FlaskClient, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = client.post("/bug")
    bug, handled = lines(capsys)
    assert json.loads(answer.data) == {
        "type": "urn:signalbox:problem:internal",
        "title": "Internal error",
        "status": 500,
    }
    assert (bug["severity"], bug["message"]) == ("ERROR", "unhandled exception")
    assert bug["exception"].endswith("KeyError: 'secret'\n")
    assert (handled["message"], handled["status"]) == ("handled", 500)


def test_a_request_leaves_one_log_line_with_its_cost_under_its_trace(
    client: FlaskClient, capsys: pytest.CaptureFixture[str]
) -> None:
    client.put("/a", data="{}", headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
    [line] = lines(capsys)
    assert line.pop("milliseconds") >= 0
    assert line.pop("logging.googleapis.com/trace").endswith("/traces/" + "a" * 32)
    assert {name: line[name] for name in line if name not in ("time", "logging.googleapis.com/spanId")} == {
        "severity": "INFO",
        "message": "handled",
        "function": "shelf",
        "method": "PUT",
        "status": 201,
        "reads": 0,
        "writes": 0,
        "deletes": 0,
        "round_trips": 0,
        "tasks": 0,
    }


def test_main_is_found_by_the_framework_under_the_functions_name(app: flask.Flask) -> None:
    assert Path(sys.modules["main"].__file__ or "").name == "main.py"
    assert sys.modules["main"].shelf.__name__ == app.name == "shelf"
