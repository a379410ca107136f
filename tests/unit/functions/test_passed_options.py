"""Options that a door passes on: each is given there once, and arrives."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from signalbox import DocumentEvent, Function, SubBatch, batch, rate, semaphore, standing_changed, standings, sub_batch
from signalbox.batches.model.headers import Header
from signalbox.batches.model.tree import COLLECTION
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.ports import Query
from signalbox.core.times import EPOCH
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.held_task_queue import HeldTaskQueue

QUEUE = "objects"
"""A queue that no task has unless it is told to."""


@pytest.fixture
def mill(harness: Harness) -> Function:
    app = Function("mill")

    @app.task
    def grind(sack: int) -> int:
        return sack

    @app.task
    def note(text: str) -> None: ...

    harness.add(app)
    rate("belt").ensure(per_minute=600, burst=10)
    semaphore("stones").ensure(permits=1)
    return app


def call_of(name: str, **payload: Any) -> Call:
    return Call("mill", name, payload)


FOLLOWING = sub_batch([])
OPTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"on_complete": call_of("note", text="end")}, {"on_complete": call_of("note", text="end")}),
    ({"failures_max": 0}, {"failures_max": 0}),
    ({"deadline_seconds": 90}, {"seconds": 90}),
    ({"concurrency": 1}, {"concurrency": 1}),
    ({"then": FOLLOWING}, {"has_then": True}),
    ({"on_failure": call_of("note", text="failed")}, {"on_failure": call_of("note", text="failed")}),
    ({"semaphore": "stones"}, {"semaphore": "stones"}),
    ({"per_task": 2}, {"per_task": 2}),
    ({"rate": "belt"}, {"rate": "belt", "weight": 1}),
    ({"rate": "belt", "weight": 3}, {"rate": "belt", "weight": 3}),
]


@pytest.mark.parametrize(("options", "arrives"), OPTIONS)
@pytest.mark.parametrize("door", ["populate", "sub_batch", "then"])
def test_every_option_of_a_batch_arrives(
    harness: Harness, mill: Function, door: str, options: dict[str, Any], arrives: dict[str, Any]
) -> None:
    calls = [call_of("grind", sack=1), call_of("grind", sack=2)]

    @mill.task
    def expand() -> SubBatch:
        return sub_batch(calls, **options)

    if door == "populate":
        batch("b").populate(calls, **options)
    elif door == "sub_batch":
        batch("whole").populate([expand.call()])
    else:
        batch("whole").populate([call_of("grind", sack=0)], then=sub_batch(calls, **options))
    harness.run()
    [(header, created_at)] = [found for found in headers(harness) if found[0].size == 2]
    seconds = round((header.deadline_at - created_at).total_seconds())
    then = {"has_then": bool(header.then)}
    has = {name: getattr(header.settings, name, None) for name in arrives} | {"seconds": seconds, **then}
    assert {name: has[name] for name in arrives} == arrives


def headers(harness: Harness) -> list[tuple[Header, datetime]]:
    """Return the headers of all batches, with the times of their creation."""
    found = harness.ports.store.query(Query(COLLECTION))
    return [(Header.from_record(one.data or {}), one.create_time or EPOCH) for one in found]


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The task and the queue of each task that is enqueued."""
    enqueued: list[tuple[str, str]] = []
    create = HeldTaskQueue.create

    def noted(queue: HeldTaskQueue, effects: Sequence[Effect]) -> None:
        enqueued.extend((effect.task, effect.queue) for effect in effects)
        create(queue, effects)

    monkeypatch.setattr(HeldTaskQueue, "create", noted)
    return enqueued


def test_a_handler_of_documents_runs_through_its_queue(harness: Harness, queues: list[tuple[str, str]]) -> None:
    app = Function("shop")

    @app.on_document("orders/{number}", queue=QUEUE)
    def ordered(event: DocumentEvent, number: str) -> None: ...

    harness.add(app)
    harness.write_record("orders/7", {"item": "tea"})
    harness.run()
    assert ("ordered", QUEUE) in queues


def test_the_task_of_a_threshold_runs_through_its_queue(harness: Harness, queues: list[tuple[str, str]]) -> None:
    app = Function("charts")

    @standing_changed(app, "count", at_least=1, queue=QUEUE)
    def popular(standing: dict[str, Any]) -> None: ...

    harness.add(app)
    standings("item").declare(on_threshold=[popular])
    harness.put("yokes/a/x", json={})
    harness.advance(2)
    harness.run()
    assert ("popular", QUEUE) in queues
