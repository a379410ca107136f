"""The body of a request: any JSON, or a problem that names the place; never more than the limit is read."""

import dataclasses
import io
import json
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient
from werkzeug.test import EnvironBuilder, run_wsgi_app

from signalbox.adapters.http.json_bodies import BODY_BYTES_MAX, JSON, render
from signalbox.standings.shown import KindsShown, YokesShown
from tests.unit.adapters.http_function import app as app
from tests.unit.adapters.http_function import client as client


def test_an_empty_body_is_an_object_without_fields(client: FlaskClient) -> None:
    assert client.put("/a").json == {}
    assert client.put("/a", data=b"").status_code == 201


def test_an_empty_body_is_not_json_where_any_value_is_allowed(client: FlaskClient) -> None:
    assert json.loads(client.post("/").data)["type"] == "urn:signalbox:problem:not-json"


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "é😀", [], {"a": {"b": [1]}}])
def test_a_body_may_be_any_json(client: FlaskClient, value: object) -> None:
    answer = client.post("/", data=json.dumps(value), content_type="application/json; charset=utf-8")
    assert answer.json == {"value": value}
    assert answer.content_type == "application/json; charset=utf-8"


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
def test_a_body_of_another_media_type_is_not_parsed(client: FlaskClient, kind: str) -> None:
    for refused in (client.post("/", data="{}", content_type=kind), client.put("/a", data="{}", content_type=kind)):
        problem = json.loads(refused.data)
        assert (refused.status_code, problem["type"]) == (415, "urn:signalbox:problem:unsupported-media-type")
        assert problem["detail"].startswith("A body has the header `Content-Type: application/json`, ")


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
    problem = json.loads(client.put("/a", data=body, content_type=JSON).data)
    assert (problem["type"], problem["status"], problem["detail"]) == ("urn:signalbox:problem:not-json", 400, said)


@pytest.mark.parametrize(
    ("body", "kind"), [("[1]", "a list"), ("true", "true or false"), ("null", "null"), ("1", "a number")]
)
def test_where_an_object_is_required_another_value_is_refused(client: FlaskClient, body: str, kind: str) -> None:
    problem = json.loads(client.put("/a", data=body, content_type=JSON).data)
    assert (problem["type"], problem["detail"]) == ("urn:signalbox:problem:not-an-object", f"The body is {kind}.")


def test_a_body_nested_too_deep_is_a_problem_and_no_crash(client: FlaskClient) -> None:
    for body in ("[" * 200_000, "[" * 101 + "]" * 101, '{"a":' * 50_000):
        assert (
            json.loads(client.post("/", data=body, content_type=JSON).data)["type"] == "urn:signalbox:problem:too-deep"
        )
    assert client.post("/", data="[" * 100 + "]" * 100, content_type=JSON).status_code == 200


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
    assert client.put("/a", data=b"{}".ljust(BODY_BYTES_MAX), content_type=JSON).status_code == 201
    assert client.put("/a", data=b"{}".ljust(BODY_BYTES_MAX + 1), content_type=JSON).status_code == 413


@dataclasses.dataclass
class Order:
    """A value of a user's code."""

    id: str
    paid: bool = False


ORDER = {"id": "7", "paid": False}


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (Order("7"), ORDER),
        ({"order": Order("7")}, {"order": ORDER}),
        ({"orders": [Order("7")], "total": float("nan")}, {"orders": [ORDER], "total": None}),
    ],
)
def test_a_dataclass_of_users_is_sent_with_all_fields_also_those_that_have_their_default(
    value: object, sent: object
) -> None:
    assert json.loads(render(value)) == sent
    with pytest.raises(TypeError, match="a type cannot be rendered as JSON"):
        render(Order)


def test_an_answer_of_the_kit_is_an_object_without_its_defaults() -> None:
    assert json.loads(render({"page": KindsShown({})})) == {"page": {"kinds": {}}}
    assert json.loads(render(YokesShown((), ""))) == {"yokes": []}
