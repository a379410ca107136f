"""Cross-origin requests: preflights, the headers of answers, and functions without `cors`."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from flask.testing import FlaskClient

from signalbox.adapters import settings as adapters_settings
from signalbox.adapters.settings import from_environment
from tests.unit.adapters.http_function import app as app
from tests.unit.adapters.http_function import client as client

APP, OTHER = "https://app.example.com", "https://other.example.com"
PREFLIGHT = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization,content-type"}


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    permit(APP, "http://localhost:5173")
    yield
    adapters_settings.bind(None)


def permit(*origins: str) -> None:
    adapters_settings.bind(replace(from_environment({}), origins={"shelf": frozenset(origins)} if origins else {}))


def preflight(client: FlaskClient, origin: str) -> tuple[int, dict[str, str]]:
    answer = client.options("/a", headers={"Origin": origin, **PREFLIGHT})
    return answer.status_code, {name: value for name, value in answer.headers.items() if "Content" not in name}


def test_a_preflight_of_a_permitted_origin_is_answered_without_a_handler(client: FlaskClient) -> None:
    assert preflight(client, APP) == (
        204,
        {
            "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
            "Access-Control-Allow-Headers": "authorization,content-type",
            "Access-Control-Max-Age": "7200",
            "Access-Control-Allow-Origin": APP,
            "Access-Control-Expose-Headers": "ETag, Link, Location, Retry-After, WWW-Authenticate, X-Total-Count",
            "Vary": "Origin",
        },
    )


@pytest.mark.parametrize(
    "origin", [OTHER, "null", "", APP + "/", APP.upper(), APP + ".evil.example", "http://app.example.com"]
)
def test_a_preflight_of_another_origin_is_permitted_nothing(client: FlaskClient, origin: str) -> None:
    status, headers = preflight(client, origin)
    assert (status, headers) == (405, {"Allow": "DELETE, GET, HEAD, PUT", "Vary": "Origin"})


@pytest.mark.parametrize("path", ["/a", "/a/b/c/d", "/?bad=1"])
def test_every_answer_to_a_permitted_origin_can_be_read_by_its_page(client: FlaskClient, path: str) -> None:
    permitted, other = (client.get(path, headers={"Origin": origin}) for origin in (APP, OTHER))
    assert permitted.headers["Access-Control-Allow-Origin"] == APP
    assert "Access-Control-Allow-Origin" not in other.headers
    assert permitted.headers["Vary"] == other.headers["Vary"] == "Origin"
    assert permitted.data == other.data


def test_a_bug_and_a_503_can_be_read_too(client: FlaskClient) -> None:
    answers = [client.post(path, headers={"Origin": APP}) for path in ("/bug", "/later")]
    readable = [(one.status_code, one.headers["Access-Control-Allow-Origin"]) for one in answers]
    assert readable == [(500, APP), (503, APP)]


def test_any_origin_may_be_permitted(client: FlaskClient) -> None:
    permit("*")
    assert preflight(client, OTHER)[1]["Access-Control-Allow-Origin"] == "*"


def test_a_function_without_origins_answers_as_if_there_were_no_cors(client: FlaskClient) -> None:
    permit()
    assert preflight(client, APP) == (405, {"Allow": "DELETE, GET, HEAD, PUT"})
    assert "Vary" not in client.get("/a", headers={"Origin": APP}).headers


def test_an_options_request_that_is_not_a_preflight_is_routed(client: FlaskClient) -> None:
    assert client.options("/a", headers={"Origin": APP}).status_code == 405


def test_a_response_that_the_server_cannot_send_is_a_problem_that_a_page_may_read(
    client: FlaskClient, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = client.post("/unsendable", headers={"Origin": APP})
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (500, APP)
    assert answer.json
    assert answer.json["type"] == "urn:signalbox:problem:internal"
    lines = [json.loads(line) for line in "".join(capsys.readouterr()).splitlines() if line.startswith("{")]
    assert [line["status"] for line in lines if line["message"] == "handled"] == [500]
