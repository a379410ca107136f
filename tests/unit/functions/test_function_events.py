"""Event handlers of a user's function, idempotency keys of a task's calls, and the cache of batches' liveness."""

from typing import Any

import pytest
from cloudevents.http import CloudEvent
from google.events.cloud.firestore import DocumentEventData

from signalbox import DocumentEvent, Function, documents
from signalbox.adapters import runtime
from signalbox.batches.api import FRESH_SECONDS, is_live
from signalbox.batches.model.units import PlacedUnit
from signalbox.core.ports import Ports
from signalbox.core.problems import BadValue
from signalbox.tasks.machine import idempotency_key, idempotent_calls
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.memory_store import MemoryStore


def written(path: str) -> CloudEvent:
    data = DocumentEventData()
    data.value.name = f"projects/p/databases/(default)/documents/{path}"
    attributes = {"type": "google.cloud.firestore.document.v1.written", "source": "firestore", "id": "1"}
    return CloudEvent(attributes, DocumentEventData.serialize(data))


def test_a_write_under_the_pattern_reaches_its_handler_with_the_parts_of_its_path() -> None:
    app = Function("orders")
    seen: list[tuple[str, str]] = []

    @app.document_written("orders/{id}/lines/{line}")
    def ordered(event: DocumentEvent, id: str, line: str) -> None:  # noqa: A002  as the path names it
        seen.append((event.path, f"{id} {line}"))

    entry = app.entry_point()
    for path in ("orders/7/lines/2", "orders/7", "others/7/lines/2"):
        entry(written(path))
    assert seen == [("orders/7/lines/2", "7 2")]
    assert entry.__name__ == "orders"


def test_an_event_that_is_delivered_twice_enqueues_once(harness: Harness) -> None:
    app, ran = Function("stock"), list[str]()
    counted = Function("counts")

    @counted.task
    def count(key: str) -> None:
        ran.append(key)

    @app.document_written("documents/{key}")
    def stocked(event: DocumentEvent, key: str) -> None:
        assert event.id
        count.call(key=key).enqueue()

    for function in (app, counted):
        harness.add(function)
    documents.put("tea", {"n": 1})
    [event] = harness.events
    for _ in range(2):
        harness.events.append(event)
        harness.run()
    assert ran == ["tea"]


def test_a_problem_of_an_events_handler_is_kept_as_a_failure_that_is_not_retried(harness: Harness) -> None:
    app = Function("stock")

    @app.document_written("documents/{key}")
    def stocked(_: DocumentEvent, key: str) -> None:
        raise BadValue(f"{key} is sold out")

    harness.add(app)
    documents.put("tea", {"n": 1})
    harness.run()
    [failure] = harness.get("failures").json["failures"]
    shown = {name: failure[name] for name in ("function", "task", "problem", "detail", "attempts")}
    assert shown == {
        "function": "stock",
        "task": "document_written",
        "problem": "bad-value",
        "detail": "tea is sold out",
        "attempts": 1,
    }
    assert failure["payload"]["path"] == "documents/tea"
    refused = harness.post(f"failures/{failure['id']}/retry")
    assert (refused.status, refused.json["type"]) == (409, "urn:signalbox:problem:not-repeatable")
    assert harness.delete(f"failures/{failure['id']}").status == 204


def keys() -> list[str | None]:
    return [idempotency_key("wait", "s"), idempotency_key("wait", "s"), idempotency_key("wait", "t")]


def test_a_tasks_calls_have_the_same_keys_in_every_delivery_and_different_ones_each() -> None:
    with idempotent_calls("operation"):
        first = keys()
    with idempotent_calls("operation"):
        assert keys() == first
    with idempotent_calls("another"):
        other = keys()
    assert len({*first, *other}) == 6


def test_a_call_outside_of_a_task_has_no_key() -> None:
    assert keys() == [None, None, None]


def test_the_liveness_of_a_batch_is_read_once_in_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    now = [1000.0]

    def answer(_: Ports, unit: PlacedUnit) -> bool:
        read.append(unit.index)
        return True

    quiet: Any = None
    runtime.bind(Ports(MemoryStore(lambda: quiet), quiet, quiet, quiet))
    monkeypatch.setattr("signalbox.batches.api.units.unit_is_live", answer)
    monkeypatch.setattr("signalbox.batches.api.time.monotonic", lambda: now[0])
    units = [PlacedUnit("fresh", "i", index, 0, 0, index, 9) for index in range(3)]
    assert all(map(is_live, units))
    now[0] += FRESH_SECONDS
    assert is_live(units[2])
    runtime.bind(None)
    assert read == [0, 2]
