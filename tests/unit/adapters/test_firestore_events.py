"""Entry points for Firestore's events: what was written, and whether it is redelivered."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cloudevents.http import CloudEvent
from flask import Flask
from flask.testing import FlaskClient
from functions_framework import create_app
from google.events.cloud.firestore import DocumentEventData
from werkzeug.exceptions import InternalServerError, ServiceUnavailable

from signalbox.adapters import runtime, settings
from signalbox.adapters.firestore.values import fill_fields, fill_timestamp
from signalbox.adapters.http.event_deliveries import document_event, document_written
from signalbox.core.ports import DocumentEvent
from signalbox.core.problems import BadValue, NewerFormat, Unavailable
from signalbox.core.records.formats import READS
from signalbox.testing.simulated_cloud import Platform

CREATED = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
UPDATED = datetime(2026, 1, 2, tzinfo=UTC)
NAME = "projects/p/databases/(default)/documents/documents/a b%20é"


def body(name: str = NAME, updated: datetime = UPDATED, **held: dict[str, Any]) -> bytes:
    data = DocumentEventData.pb()()
    for which, fields in held.items():
        document = getattr(data, which)
        document.name = name
        fill_fields(document.fields, fields)
        fill_timestamp(document.create_time, CREATED)
        fill_timestamp(document.update_time, updated)
    return bytes(data.SerializeToString())


def event(data: bytes | None, **more: str) -> CloudEvent:
    kind = "google.cloud.firestore.document.v1.written"
    return CloudEvent({"id": "e-1", "source": "//firestore", "type": kind} | more, data)


def read(data: bytes | None, **more: str) -> DocumentEvent:
    return document_event(event(data, **more).get_attributes(), data)


def test_an_update_holds_the_record_before_and_after() -> None:
    assert read(body(old_value={"n": 1}, value={"n": 1.0, "m": {"x": [None, True, "é"]}})) == DocumentEvent(
        id="e-1",
        collection="documents",
        key="a b%20é",
        path="documents/a b%20é",
        before={"n": 1},
        after={"n": 1.0, "m": {"x": [None, True, "é"]}},
        before_update_time=UPDATED,
        update_time=UPDATED,
        create_time=CREATED,
        kind="updated",
    )


def test_a_created_record_had_nothing_before_and_a_deleted_one_has_nothing_after() -> None:
    created, deleted = read(body(updated=CREATED, value={})), read(body(old_value={}))
    assert (created.before, created.after, created.partial) == (None, {}, False)
    assert (deleted.before, deleted.after, deleted.partial) == ({}, None, False)
    assert (deleted.path, deleted.update_time) == ("documents/a b%20é", None)


@pytest.mark.parametrize("data", [None, b""])
def test_an_event_without_its_data_is_partial_and_named_by_its_attribute(data: bytes | None) -> None:
    got = read(data, document="documents/a%20%C3%A9")
    assert (got.path, got.key, got.partial) == ("documents/a é", "a é", True)


def test_the_database_and_the_depth_of_a_record_do_not_matter() -> None:
    got = read(body("projects/p/databases/other/documents/batches/b/units/7", value={}), document="documents/x")
    assert (got.collection, got.key, got.path) == ("batches/b/units", "7", "batches/b/units/7")


@pytest.mark.parametrize("data", [b"", b"\xff\xff\xff"])
def test_an_event_of_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(BadValue):
        read(data)


def handled(handler: Callable[[DocumentEvent], None], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    document_written("follow")(handler)(event(body(value={"n": 1})))
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def failing(error: Exception) -> Callable[[DocumentEvent], None]:
    def handler(_: DocumentEvent) -> None:
        raise error

    return handler


def test_a_handler_gets_the_event_and_the_call_is_logged_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    got: list[DocumentEvent] = []
    [line] = handled(got.append, capsys)
    assert [one.after for one in got] == [{"n": 1}]
    assert (line["message"], line["function"], line["task"], line["status"]) == ("handled", "follow", "e-1", 200)


def test_a_problem_is_acknowledged_and_logged(capsys: pytest.CaptureFixture[str]) -> None:
    abandoned, line = handled(failing(BadValue("no songs")), capsys)
    assert (abandoned["severity"], abandoned["message"], abandoned["detail"]) == (
        "ERROR",
        "event abandoned",
        "no songs",
    )
    assert line["status"] == 200


@pytest.mark.parametrize(
    ("error", "answer", "status"),
    [(Unavailable("aborted"), ServiceUnavailable, 503), (KeyError("x"), InternalServerError, 500)],
)
def test_anything_else_is_retried(
    error: Exception, answer: type[Exception], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(answer) as raised:
        handled(failing(error), capsys)
    assert raised.value.__cause__ is error
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["status"] == status


@pytest.mark.parametrize(("key", "status"), [("fine", 200), ("refused", 200), ("later", 503), ("bug", 500)])
def test_under_the_framework_only_what_should_be_redelivered_gets_a_non_2xx(
    follow: FlaskClient, key: str, status: int
) -> None:
    headers = {"ce-id": "e", "ce-source": "//f", "ce-type": "t", "ce-specversion": "1.0"}
    data = body(NAME.replace("a b%20é", key), value={})
    answer = follow.post("/", data=data, headers=headers, content_type="application/protobuf")
    assert answer.status_code == status
    assert b"secret" not in answer.data


MAIN = """
from signalbox.adapters.http.event_deliveries import document_written
from signalbox.core.problems import BadValue, NewerFormat, Unavailable

@document_written("follow")
def follow(event):
    errors = {"refused": BadValue("x"), "later": Unavailable("x"), "bug": KeyError("secret")}
    if event.key in errors:
        raise errors[event.key]
"""


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FlaskClient:
    (tmp_path / "main.py").write_text(MAIN)
    monkeypatch.setenv("FUNCTION_TARGET", "follow")
    monkeypatch.setenv("FUNCTION_SIGNATURE_TYPE", "cloudevent")
    monkeypatch.delitem(sys.modules, "main", raising=False)
    app: Flask = create_app("follow", str(tmp_path / "main.py"), "cloudevent")
    return app.test_client()


def test_the_entry_point_is_a_plain_function_of_the_functions_name() -> None:
    assert document_written("follow")(failing(KeyError())).__name__ == "follow"


def reading(platform: Platform) -> None:
    platform.ports.store.read("d/a")


@pytest.mark.parametrize(("in_cloud", "rarely", "lines"), [(True, True, 10), (True, False, 1000), (False, True, 1000)])
def test_one_in_a_hundred_events_that_caused_nothing_is_logged_in_the_cloud(
    in_cloud: bool, rarely: bool, lines: int
) -> None:
    platform = Platform()
    entry = document_written("fan", rarely_calls_for_anything=rarely)(lambda _: None)
    busy = document_written("fan", rarely_calls_for_anything=rarely)(lambda _: reading(platform))
    before = settings.bind(replace(settings.settings(), in_cloud=in_cloud))
    runtime.bind(platform.ports)
    try:
        for number in range(1000):
            entry(event(body(value={"n": 1}), id=f"e-{number}"))
        handled = [values for message, values in platform.log.infos if message == "handled"]
        assert lines / 2 <= len(handled) <= 2 * lines
        assert [each.get("sampled", 1) for each in handled] == [100 if in_cloud and rarely else 1] * len(handled)
        platform.log.infos.clear()
        for number in range(20):
            busy(event(body(value={"n": 1}), id=f"e-{number}"))
        assert len([message for message, _ in platform.log.infos if message == "handled"]) == 20
    finally:
        runtime.bind(None)
        settings.bind(before)


def test_an_event_of_a_newer_format_is_delivered_again() -> None:
    newer = {"_signalbox": {"format": READS + 1}}
    with pytest.raises(NewerFormat):
        read(body(value=newer))
    with pytest.raises(NewerFormat):
        read(body(old_value=newer, value={}))
    assert read(body(value={"format": READS + 1})).after == {"format": READS + 1}
