"""The local stack's spans: one file of several processes, and what the console shows of it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from signalbox import Function, documents, flow, flows
from signalbox.adapters import tracing
from signalbox.testing import Harness
from signalbox_tools.local.functions import spans
from signalbox_tools.local.functions.spans import SpanFile, SpanReader

app = Function("till")
GIVEN = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
TRACE = GIVEN.split("-")[1]


@app.http("POST", "/sales")
def sell() -> None:
    documents.put("sale", {"price": 3})


@app.task
def burn() -> None:
    raise RuntimeError("fire")


@app.flow
async def closing() -> str:
    await flow.sleep(1)
    return "closed"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / spans.FILE
    tracing.bind(SpanFile(file))
    yield file
    tracing.bind(None)


@pytest.fixture
def harness(file: Path) -> Iterator[Harness]:
    with Harness() as harness:
        harness.add(app)
        yield harness


def test_the_spans_of_a_request_are_written_at_once_when_it_has_ended(
    harness: Harness, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(os, "write", lambda _, lines: written.append(lines))
    harness.put("documents/town", json={"name": "old"})
    [lines] = written
    names = [json.loads(line)["name"] for line in lines.splitlines()]
    assert names == ["commit", "documents PUT"]


def test_a_change_of_a_document_is_one_trace_to_its_last_copy(harness: Harness, file: Path) -> None:
    harness.put("documents/town", json={"name": "old"})
    for name in ("ann", "ben"):
        harness.put(f"documents/{name}", json={"home": {"key": "town"}})
    harness.run()
    harness.put("documents/town", json={"name": "new"}, headers={"traceparent": GIVEN})
    harness.run()
    reader = SpanReader(file)
    trace = reader.trace(TRACE)
    assert trace is not None
    by_id = {span["id"]: span for span in trace["spans"]}
    above = {span["name"]: by_id.get(span["parent"], {}).get("name") for span in trace["spans"]}
    assert (above["documents PUT"], above["commit"]) == (None, "documents PUT")
    assert above["link_refresh /"] == "link_fan_out event"
    names = [span["name"] for span in trace["spans"]]
    assert names.count("link_fan_out event") == 3  # of the town, and of each copy
    assert {by_id[span["parent"]]["name"] for span in trace["spans"] if span["name"] == "link_fan_out event"} == {
        "commit",
        "write each",
    }
    assert [each["name"] for each in reader.recent()] == ["documents PUT"] * 4
    assert trace["complete"]


def test_the_spans_of_a_run_are_shown_with_the_request_that_started_it(harness: Harness, file: Path) -> None:
    flows("closing", "1").start()
    harness.post("till/flows/closing/2", headers={"traceparent": GIVEN})
    harness.travel(5)
    trace = SpanReader(file).trace(TRACE)
    assert trace is not None
    recorded = [span["name"] for span in trace["spans"] if span["kind"] == "recorded"]
    assert sorted(recorded) == ["flow closing", "sleep"]
    assert trace["name"] == "till POST"


def test_a_failure_is_counted_and_found_by_its_error(harness: Harness, file: Path) -> None:
    reader = SpanReader(file)
    assert (reader.recent(), reader.minutes()["functions"]) == ([], [])
    harness.post("tasks", json={"function": "till", "task": "burn", "payload": {}})
    harness.run(raise_errors=False, due_only=True)
    [counted] = [each for each in reader.minutes()["functions"] if each["function"] == "till"]
    assert (sum(counted["requests"]), sum(counted["failed"]), len(counted["failed"])) == (1, 1, 60)
    [found] = reader.recent("status 500")
    assert (found["failed"], found["requests"]) == (1, 2)
    assert reader.recent("status 418") == []


def test_a_visit_of_the_sweeper_that_enqueued_nothing_is_listed_only_if_it_is_searched_for(
    harness: Harness, file: Path
) -> None:
    harness.run_schedule("sweep")
    harness.put("documents/town", json={"name": "Paris"})
    reader = SpanReader(file)
    assert [each["name"] for each in reader.recent()] == ["documents PUT"]
    assert [each["name"] for each in reader.recent("sweep")] == ["sweep /"]


def test_two_processes_append_to_one_file_which_is_emptied_when_it_is_full(
    harness: Harness, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, other = SpanReader(file), SpanFile(file)
    harness.get("semaphores", headers={"traceparent": GIVEN})
    with other.request("other GET", GIVEN, {"function": "other"}), other.span("commit", {"writes": 1}):
        pass
    trace = reader.trace(TRACE)
    assert trace is not None
    assert sorted(span["name"] for span in trace["spans"]) == ["commit", "other GET", "semaphores GET"]
    monkeypatch.setattr(spans, "FILE_BYTES_MAX", 1)
    size = file.stat().st_size
    harness.get("semaphores")
    assert file.stat().st_size < size
    assert len(reader.recent()) == 2
    assert len(SpanReader(file).recent()) == 1


def test_a_line_that_is_still_being_written_is_read_later(harness: Harness, file: Path) -> None:
    harness.get("semaphores")
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    reader = SpanReader(file)
    assert reader.recent() == []
    file.write_bytes(whole)
    assert len(reader.recent()) == 1


def test_a_file_that_was_emptied_and_has_grown_as_long_again_is_read_on(harness: Harness, file: Path) -> None:
    reader = SpanReader(file)
    harness.get("semaphores")
    assert len(reader.recent()) == 1
    line = file.read_bytes()
    file.write_bytes(b"x" * (len(line) + 10) + b"\n" + line.replace(b'"trace": "', b'"trace": "f'))
    assert len(reader.recent()) == 2


def test_no_more_traces_are_kept_than_are_shown(harness: Harness, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "TRACES_MAX", 3)
    reader = SpanReader(file)
    for number in range(5):
        harness.get(f"documents/{number}")
    assert [each["name"] for each in reader.recent()] == ["documents GET"] * 3
    assert reader.trace(TRACE) is None
