"""Event handlers of a user's function: duplicate deliveries, lost acknowledgements, and what is kept as a failure."""

import pytest
from cloudevents.http import CloudEvent
from google.events.cloud.firestore import DocumentEventData

from signalbox import DocumentEvent, Function, TaskContext, documents
from signalbox.core.problems import BadValue, Unavailable
from signalbox.testing import Faults, Harness
from signalbox.testing.fixtures import harness as harness


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


def receiver(harness: Harness, *, by_id: bool = False) -> list[tuple[str, str, bool]]:
    """Add a handler that only enqueues a task of another function; return the runs of the task."""
    app, worker = Function("received"), Function("worker")
    runs: list[tuple[str, str, bool]] = []

    @worker.task
    def handle(context: TaskContext, path: str, existed: bool) -> None:
        runs.append((context.operation, path, existed))

    @app.document_written("documents/{key}")
    def received(event: DocumentEvent, key: str) -> None:
        assert key
        handle.call(path=event.path, existed=event.after is not None).enqueue(id=event.id if by_id else None)

    for function in (app, worker):
        harness.add(function)
    return runs


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("days", [0, 7, 30])
def test_an_event_whose_acknowledgement_was_lost_enqueues_once_although_the_tasks_name_is_free(
    harness: Harness, days: int, *, by_id: bool
) -> None:
    runs = receiver(harness, by_id=by_id)
    documents.put("tea", {"n": 1})
    [event] = harness.events
    harness.run()
    harness.advance(days * 86_400)
    harness.queue.names.clear()
    harness.events.append(event)
    harness.run()
    assert [run[1:] for run in runs] == [("documents/tea", True)]


def test_an_event_is_not_acknowledged_while_the_queue_refuses_its_task(harness: Harness) -> None:
    runs = receiver(harness)
    documents.put("tea", {"n": 1})
    [event] = harness.events
    harness.queue.refusal = Unavailable("the queue is down")
    assert 503 in [delivery.status for delivery in harness.deliver_event(event)]  # the other one is the kit's handler
    harness.queue.refusal = None
    harness.advance(7 * 86_400)
    harness.events.append(event)
    harness.run()
    assert [run[1:] for run in runs] == [("documents/tea", True)]


def test_each_events_task_has_one_operation_under_duplicates_lost_answers_and_reordering() -> None:
    for seed in range(30):
        with Harness() as harness:
            runs = receiver(harness)
            for key in ("tea", "salt"):
                documents.put(key, {"n": 1})
                documents.put(key, {"n": 2})
                documents.delete(key)
            expected = sorted((event.path, event.after is not None) for event in harness.events)
            assert len(expected) == 6
            harness.run(Faults(duplicate=0.3, late=0.2, lose_answer=0.3, unavailable=0.2, reorder=True, seed=seed))
            assert sorted(run[1:] for run in set(runs)) == expected, seed  # a task may run twice


def test_a_flow_that_is_started_under_an_events_id_runs_once(harness: Harness) -> None:
    app, shop = Function("received"), Function("shop")
    shipped: list[str] = []

    @shop.task
    def ship(key: str) -> None:
        shipped.append(key)

    @shop.flow
    async def order(key: str) -> None:
        await ship.call(key=key)

    @app.document_written("documents/{key}")
    def received(event: DocumentEvent, key: str) -> None:
        order.start(event.id, key=key)

    for function in (app, shop):
        harness.add(function)
    documents.put("tea", {"n": 1})
    [event] = harness.events
    for _ in range(2):
        harness.run()
        harness.advance(7 * 86_400)
        harness.queue.names.clear()
        harness.events.append(event)
    harness.run()
    assert shipped == ["tea"]


def test_an_event_whose_task_would_be_too_large_is_kept_as_a_failure(harness: Harness) -> None:
    app, worker = Function("received"), Function("worker")

    @worker.task
    def handle(content: str) -> None:
        raise AssertionError(content)

    @app.document_written("documents/{key}")
    def received(event: DocumentEvent, key: str) -> None:
        handle.call(content=f"{event.path} {key} " + "x" * 102_400).enqueue()

    for function in (app, worker):
        harness.add(function)
    documents.put("tea", {"n": 1})
    harness.run()
    [failure] = harness.get("failures").json["failures"]
    assert (failure["function"], failure["problem"]) == ("received", "too-large")


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
