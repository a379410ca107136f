"""The HTTP layer of a function, under the framework that runs it in the cloud."""

import json
import sys
from pathlib import Path
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient

from signalbox.adapters.http.responses import Response, response_of
from tests.unit.adapters.http_function import app as app
from tests.unit.adapters.http_function import client as client


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


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


@pytest.mark.parametrize("path", ["/refuse", "/later"])
def test_an_answer_ends_with_a_newline_so_that_a_prompt_begins_on_a_line_of_its_own(
    client: FlaskClient, path: str
) -> None:
    assert client.post(path).data.endswith(b"}\n")
    assert response_of(Response(200, {"a": 1})).get_data() == b'{"a": 1}\n'
    assert response_of(Response(204)).get_data() == b""


@pytest.mark.parametrize("body", ["é" * 49, b"x" * 101])
def test_an_answer_that_cloud_run_refuses_as_a_whole_is_sent_in_chunks(
    body: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signalbox.adapters.http.responses.CHUNK_BYTES", 40)
    whole = response_of(Response(200, body))
    monkeypatch.setattr("signalbox.adapters.http.responses.WHOLE_BYTES_MAX", 100)
    in_chunks = response_of(Response(200, body))
    assert (whole.is_streamed, whole.headers["Content-Length"]) == (False, "101")
    assert (in_chunks.is_streamed, "Content-Length" in in_chunks.headers) == (True, False)
    assert [len(chunk) for chunk in in_chunks.iter_encoded()] == [40, 40, 21]
    assert response_of(Response(200, body)).get_data() == whole.get_data()
    assert response_of(Response(200, b"x" * 100)).headers["Content-Length"] == "100"


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
    client.put(
        "/a", data="{}", content_type="application/json", headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    )
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
