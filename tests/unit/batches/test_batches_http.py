"""Batches over HTTP, from the call that populates one to its end and its removal."""

from urllib.parse import quote

import pytest

from signalbox.batches.limits import LIMITS
from signalbox.batches.model.units import PlacedUnit, UnitOutcome, succeeded
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import units
from signalbox.batches.service.sub_batches import populate_sub_batch
from signalbox.batches.sweep import sweep
from signalbox.batches.tasks import run_batch_task
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from tests.unit.batches.batch_harness import ANNOUNCE, NAMED, TASK, BatchHarness, batch, broken_at, squares, status


@pytest.fixture
def harness() -> BatchHarness:
    return BatchHarness()


def test_a_batch_runs_every_unit_once_and_completes_once(harness: BatchHarness) -> None:
    assert harness.request("POST", "/", batch(250)) == (201, status("sealed", 250, 0, 0, 3, task=NAMED))
    harness.run_tasks()
    assert sorted(effect.payload["square"] for effect in harness.ran) == list(range(250))
    assert harness.ran[0].payload == {"color": "red", "square": 0}
    assert (harness.ran[0].path, harness.ran[0].queue) == ("/tasks/paint", "tasks")
    assert harness.completions == [{"id": "b", "state": "completed", "size": 250, "succeeded": 250, "failed": 0}]
    assert harness.request("GET", "/b") == (200, status("completed", 250, 250, 0, 3, task=NAMED))


def test_an_empty_batch_completes_at_once(harness: BatchHarness) -> None:
    assert harness.request("POST", "/", batch(0)) == (201, status("completed", 0, 0, 0, 0, task=NAMED))
    harness.run_tasks()
    assert [completion["state"] for completion in harness.completions] == ["completed"]


def test_a_repeated_populate_is_a_no_op_and_a_different_body_under_the_id_is_refused(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(3))
    before = harness.records()
    assert harness.request("POST", "/", batch(3))[0] == 200
    code, problem = harness.request("POST", "/", batch(4))
    assert (code, problem["type"]) == (409, "urn:signalbox:problem:other-body")
    assert harness.records() == before


def test_a_repeated_populate_returns_the_status_of_a_cancelled_batch(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(3))
    harness.request("DELETE", "/b")
    code, shown = harness.request("POST", "/", batch(3))
    assert (code, shown["state"]) == (200, "cancelled")


def test_a_repeat_finishes_a_populate_that_died(harness: BatchHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as dying:
        dying.setattr("signalbox.batches.service.population.seal", lambda *_: 1 / 0)
        assert harness.request("POST", "/", batch(150))[0] == 500
    assert harness.request("POST", "/", batch(150))[0] == 200
    harness.run_tasks()
    assert [completion["succeeded"] for completion in harness.completions] == [150]
    assert len(harness.ran) == 150


def test_an_idempotency_key_is_the_id_of_a_batch_without_an_id(harness: BatchHarness) -> None:
    body = {"units": squares(1), "task": TASK}
    first = harness.request("POST", "/", body, headers={"Idempotency-Key": "order-7"})
    again = harness.request("POST", "/", body, headers={"Idempotency-Key": "order-7"})
    assert (first[0], again[0], first[1]["id"]) == (201, 200, "order-7")


def test_pages_are_loaded_in_order_and_the_seal_takes_the_next_number(harness: BatchHarness) -> None:
    assert harness.request("POST", "/", {"id": "b", "task": TASK, "on_complete": ANNOUNCE})[0] == 201
    page = {"page": 0, "units": squares(2)}
    assert harness.request("POST", "/b/units", page) == (201, {"id": "b", "page": 0, "units": 2})
    assert harness.request("POST", "/b/units", page)[0] == 200
    harness.run_tasks()
    assert harness.request("POST", "/b/units", {"page": 1, "units": squares(3)})[0] == 201
    assert harness.request("GET", "/b") == (200, status("open", 5, 2, 0, 2, task=NAMED))
    assert harness.request("POST", "/b/seal", {"pages": 2})[0] == 200
    assert harness.request("POST", "/b/seal", {"pages": 2})[0] == 200
    assert harness.request("POST", "/b/units", page)[0] == 200
    harness.run_tasks()
    assert [completion["size"] for completion in harness.completions] == [5]
    assert sorted(unit["index"] for unit in harness.request("GET", "/b/units")[1]["units"]) == [0, 1, 2, 3, 4]


def test_more_failures_than_tolerated_cancel_a_batch(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(300, failures_max=2))
    harness.run_tasks(broken_at(0, 5, 10))
    [completion] = harness.completions
    assert (completion["state"], completion["reason"], completion["failed"]) == ("cancelled", "failures", 3)
    assert completion["succeeded"] < 297


def test_a_cancelled_batch_completes_as_cancelled_and_its_units_are_not_live(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(3))
    assert harness.request("DELETE", "/b") == (200, status("cancelled", 3, 0, 0, 1, reason="cancelled", task=NAMED))
    assert harness.request("DELETE", "/b")[0] == 200
    live: list[bool] = []

    def check(effect: Effect) -> UnitOutcome:
        live.append(units.unit_is_live(harness.ports, PlacedUnit.from_record(effect.context["unit"])))
        return succeeded(None)

    harness.run_tasks(check)
    assert live == [False] * 3
    assert [completion["state"] for completion in harness.completions] == ["cancelled"]
    assert harness.request("POST", "/b/retry", {})[1]["type"] == "urn:signalbox:problem:batch-sealed"


def test_a_batch_ends_at_its_deadline_and_names_the_missing_units(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(30, deadline_seconds=600, task=None))
    harness.request("POST", "/b/4", {"result": 1}, "batch_complete")
    harness.advance(599)
    sweep(harness.ports)
    assert harness.request("GET", "/b")[1]["state"] == "sealed"
    harness.advance(1)
    sweep(harness.ports)
    harness.run_tasks()
    [completion] = harness.completions
    assert (completion["state"], completion["reason"], completion["succeeded"]) == ("cancelled", "deadline", 1)
    assert completion["missing"] == [index for index in range(30) if index != 4]


def test_the_sweeper_propagates_what_a_dead_process_left_full(
    harness: BatchHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.request("POST", "/", batch(45))
    with monkeypatch.context() as dead:
        dead.setattr("signalbox.batches.service.propagation.propagate_counter", lambda *_: None)
        harness.run_tasks()
    assert harness.completions == []
    harness.advance(LIMITS.batch_idle_seconds + 1)
    sweep(harness.ports)
    harness.run_tasks()
    assert [completion["succeeded"] for completion in harness.completions] == [45]


def test_an_ended_batch_is_removed_and_its_id_can_be_used_again(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(120))
    harness.run_tasks()
    late = PlacedUnit.from_record(harness.ran[0].context["unit"])
    harness.advance(LIMITS.batch_keep_seconds + 1)
    sweep(harness.ports)
    assert harness.records() == {}
    units.complete_unit(harness.ports, late, succeeded("late"))
    assert units.resume_unit(harness.ports, late)
    assert harness.records() == {}
    assert harness.request("POST", "/", batch(1))[0] == 201
    harness.run_tasks()
    assert [completion["size"] for completion in harness.completions] == [120, 1]


def test_a_sub_batch_completes_its_parents_unit(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1))
    harness.tasks.sort(key=lambda effect: effect.task != "expand")
    run_batch_task(harness.ports, harness.tasks[0].task, harness.tasks.pop(0).payload)
    parent = PlacedUnit.from_record(harness.tasks.pop().context["unit"])
    spec = BatchSpec(units=squares(2), task=Call.from_request(TASK, "task"), sealed=True)
    populate_sub_batch(harness.ports, parent, spec)
    harness.run_tasks(broken_at(1))
    assert [completion["state"] for completion in harness.completions] == ["completed"]
    result = harness.request("GET", "/b/units")[1]["units"][0]["result"]
    assert result == {"batch": parent.sub_batch_id(), "state": "completed", "size": 2, "succeeded": 1, "failed": 1}


def test_the_default_deadline_is_a_week(harness: BatchHarness) -> None:
    harness.request("POST", "/", {"id": "b"})
    harness.advance(LIMITS.batch_deadline_seconds + 1)
    sweep(harness.ports)
    assert harness.request("GET", "/b") == (200, status("cancelled", 0, 0, 0, 0, reason="deadline") | {"pages": None})


@pytest.mark.parametrize("path", ["", "/units", "/results", "/events"])
def test_the_address_of_another_record_of_a_batch_is_not_that_of_a_batch(harness: BatchHarness, path: str) -> None:
    harness.request("POST", "/", batch(1))
    harness.run_tasks()
    others = [record.partition("/")[2] for record in harness.records() if record.count("/") == 3]
    assert {other.split("/")[1] for other in others} == {"pages", "counters", "units"}
    for other in (*others, "b/units", "b/..", "..", "__b__"):
        assert harness.request("GET", f"/{quote(other, safe='')}{path}")[0] == 404
