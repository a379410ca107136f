"""The local log's labels of requests, and the lines that functions print."""

import io
import json
from collections.abc import Iterable
from typing import Any

import pytest

from signalbox.adapters import runtime
from signalbox.core.ports import Ports
from signalbox.testing.manual_clock import ManualClock
from signalbox.testing.recorded_log import RecordedLog
from signalbox_tools.local.functions.request_labels import LabelledLog, MarkedOutput, labelled, labels_of


def task(body: object, **headers: str) -> dict[str, Any]:
    content = json.dumps(body).encode()
    return {
        "PATH_INFO": "/albums/tasks/thumbnail",
        "REQUEST_METHOD": "POST",
        "CONTENT_LENGTH": str(len(content)),
        "HTTP_X_CLOUDTASKS_QUEUENAME": "tasks",
        "wsgi.input": io.BytesIO(content),
        **headers,
    }


@pytest.mark.parametrize(
    ("environ", "labels"),
    [
        (
            {"PATH_INFO": "/documents/a", "RAW_URI": "/documents/a?x=1", "REQUEST_METHOD": "GET"},
            {"kind": "http", "function": "documents", "method": "GET", "path": "/documents/a?x=1"},
        ),
        (
            {"PATH_INFO": "/batches", "REQUEST_METHOD": "GET", "HTTP_REFERER": "http://127.0.0.1:8080/console"},
            {"kind": "http", "function": "batches", "method": "GET", "path": "/batches", "page": "console"},
        ),
        (
            {"PATH_INFO": "/link-fan-out", "HTTP_CE_ID": "1", "HTTP_CE_DOCUMENT": "documents/%C3%A9"},
            {"kind": "event", "function": "link_fan_out", "id": "documents/é"},
        ),
        (
            {"PATH_INFO": "/sweep", "HTTP_X_CLOUDSCHEDULER": "true", "HTTP_X_CLOUDSCHEDULER_JOBNAME": "every"},
            {"kind": "schedule", "function": "sweep", "id": "every"},
        ),
        (
            task(
                {"operation": "o1", "task": "thumbnail", "payload": {}, "unit": {"batch": "rome", "index": 2}},
                HTTP_X_CLOUDTASKS_TASKRETRYCOUNT="2",
            ),
            {"kind": "task", "function": "albums", "task_name": "thumbnail", "id": "rome/2", "attempt": 3},
        ),
        (
            task({"operation": "o1", "task": "t", "payload": {"n": 1}}),
            {"kind": "task", "function": "albums", "task_name": "t", "id": "o1", "attempt": 1},
        ),
        (
            task(
                {"operation": "o1", "task": "pay", "payload": {}, "step": {"flow": "flows/checkout~7", "path": "2"}},
            ),
            {"kind": "task", "function": "albums", "task_name": "pay", "id": "checkout/7 step 2", "attempt": 1},
        ),
        (
            task({"operation": "o1", "task": "turn", "payload": {"mailbox": "objects/Counter~a"}}),
            {"kind": "task", "function": "albums", "task_name": "turn", "id": "Counter/a", "attempt": 1},
        ),
        (task([]), {"kind": "task", "function": "albums", "task_name": "", "id": "", "attempt": 1}),
    ],
    ids=["request", "console", "event", "schedule", "unit", "task", "step of a flow", "turn", "no envelope"],
)
def test_a_request_is_labelled_by_what_it_is(environ: dict[str, Any], labels: dict[str, Any]) -> None:
    assert labels_of(environ) == labels


def test_labels_that_a_caller_chooses_are_cut_and_have_no_token_of_a_callback() -> None:
    flood = labels_of({"RAW_URI": "/" + "a" * 2_000_000, "REQUEST_METHOD": "GET"})
    assert len(json.dumps(flood)) < 1_200
    signed = labels_of({"RAW_URI": "/shop/callbacks/eyJhIjoxfQ.c2lnbmVk?from=mail", "REQUEST_METHOD": "POST"})
    assert signed["path"] == "/shop/callbacks/…?from=mail"
    for encoded in ("/shop/%63allbacks/c2lnbmVk", "/shop/callbacks%2Fc2lnbmVk", "/shop/callbacks//c2lnbmVk"):
        assert labels_of({"RAW_URI": encoded, "REQUEST_METHOD": "POST"})["path"] == "/shop/callbacks/…"
    deep = '{"task": "t", "payload": {"key": ' + "[" * 100_000 + "]" * 100_000 + "}}"
    for body in (deep, '{"task": "t", "operation": "o", "payload": [1]}'):
        stream = io.BytesIO(body.encode())
        headers = {"HTTP_X_CLOUDTASKS_QUEUENAME": "q", "CONTENT_LENGTH": str(len(body)), "wsgi.input": stream}
        assert labels_of({"PATH_INFO": "/albums", **headers})["kind"] == "task"


def test_the_body_of_a_task_can_still_be_read() -> None:
    environ = task({"operation": "o1", "task": "t", "payload": {}})
    labels_of(environ)
    assert json.loads(environ["wsgi.input"].read())["operation"] == "o1"


def test_lines_of_a_request_have_its_labels_and_an_unhandled_request_has_a_line() -> None:
    lines = RecordedLog()
    log = LabelledLog(lines)
    before = runtime.bind(Ports(None, None, ManualClock(), log))  # type: ignore[arg-type]  # neither store nor queue is used

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("404 NOT FOUND", [])
        if environ["PATH_INFO"] == "/a":
            log.info("handled", status=404)
        return []

    try:
        for path in ("/a", "/b"):
            list(labelled(app)({"PATH_INFO": path, "REQUEST_METHOD": "GET"}, lambda *_: None))  # type: ignore[arg-type]  # its `start_response` returns nothing
    finally:
        runtime.bind(before)
    assert [(message, values["path"], values["status"]) for message, values in lines.infos] == [
        ("handled", "/a", 404),
        ("not handled", "/b", 404),
    ]


def test_code_that_ends_a_request_without_a_response_has_a_line_that_names_it() -> None:
    lines = RecordedLog()
    before = runtime.bind(Ports(None, None, ManualClock(), LabelledLog(lines)))  # type: ignore[arg-type]  # neither store nor queue is used

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        raise SystemExit(3)

    try:
        with pytest.raises(SystemExit):
            labelled(app)({"PATH_INFO": "/albums", "HTTP_CE_ID": "1", "HTTP_CE_DOCUMENT": "a/b"}, lambda *_: None)  # type: ignore[arg-type]  # its `start_response` returns nothing
    finally:
        runtime.bind(before)
    [(message, values)] = lines.errors
    assert (message, values["function"], values["id"]) == ("unhandled exception", "albums", "a/b")
    assert repr(values["exception"]) == "SystemExit(3)"


def test_what_is_printed_becomes_a_line_each_and_json_with_a_severity_passes() -> None:
    stream = io.StringIO()
    output = MarkedOutput(stream)
    print("one", 2, file=output)
    print("three\nfour", file=output)
    output.write('{"severity": "INFO", "message": "handled"}\n')
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("text", line["message"]) for line in lines] == ["one 2", "three", "four", "handled"]
