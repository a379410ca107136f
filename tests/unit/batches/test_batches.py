"""Batches over HTTP: answers, refusals, and that a refusal changes nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from shared.adapters import runtime
from shared.batches.operations import batches, units
from shared.batches.operations.sweep import sweep
from shared.batches.operations.tasks import run_batch_task
from shared.batches.rules.outcomes import UnitOutcome, failed, succeeded
from shared.batches.rules.requests import BatchSpec
from shared.batches.rules.units import PlacedUnit
from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from tests.unit.batches.batch_harness import ANNOUNCE, TASK, BatchHarness


@pytest.fixture
def harness() -> Iterator[BatchHarness]:
    yield BatchHarness()
    runtime.bind(None)


def squares(count: int) -> list[dict[str, int]]:
    return [{"square": number} for number in range(count)]


def batch(count: int, **more: Any) -> dict[str, Any]:
    return {"id": "b", "units": squares(count), "task": TASK, "on_complete": ANNOUNCE, "sealed": True} | more


def status(state: str, size: int, succeeded: int, failed: int, pages: int, **more: Any) -> dict[str, Any]:
    counts = {"size": size, "succeeded": succeeded, "failed": failed, "remaining": size - succeeded - failed}
    return {"id": "b", "state": state, **counts, "pages": pages} | more


def test_a_batch_runs_every_unit_once_and_completes_once(harness: BatchHarness) -> None:
    assert harness.request("POST", "/", batch(250)) == (201, status("sealed", 250, 0, 0, 3))
    harness.run_tasks()
    assert sorted(effect.payload["square"] for effect in harness.ran) == list(range(250))
    assert harness.ran[0].payload == {"color": "red", "square": 0}
    assert (harness.ran[0].path, harness.ran[0].queue) == ("/tasks/paint", "tasks")
    assert harness.completions == [{"id": "b", "state": "completed", "size": 250, "succeeded": 250, "failed": 0}]
    assert harness.request("GET", "/b") == (200, status("completed", 250, 250, 0, 3))


def test_an_empty_batch_completes_at_once(harness: BatchHarness) -> None:
    assert harness.request("POST", "/", batch(0)) == (201, status("completed", 0, 0, 0, 0))
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
        dying.setattr("shared.batches.operations.batches.seal", lambda *_: 1 / 0)
        assert harness.request("POST", "/", batch(150))[0] == 500
    assert harness.request("POST", "/", batch(150))[0] == 200
    harness.run_tasks()
    assert [completion["succeeded"] for completion in harness.completions] == [150]
    assert len(harness.ran) == 150


def test_a_batch_has_at_most_as_many_pages_as_its_tree_can_hold(
    harness: BatchHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "node_children_max", 1)
    harness.request("POST", "/", batch(100, sealed=False))
    code, problem = harness.request("POST", "/b/units", {"page": 1, "units": [{}]})
    assert (code, problem["detail"]) == (413, "A batch has at most 1 pages.")


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
    assert harness.request("GET", "/b") == (200, status("open", 5, 2, 0, 2))
    assert harness.request("POST", "/b/seal", {"pages": 2})[0] == 200
    assert harness.request("POST", "/b/seal", {"pages": 2})[0] == 200
    assert harness.request("POST", "/b/units", page)[0] == 200
    harness.run_tasks()
    assert [completion["size"] for completion in harness.completions] == [5]
    assert sorted(unit["index"] for unit in harness.request("GET", "/b/units")[1]["units"]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("path", "body", "code", "kind", "field"),
    [
        ("/b/units", {"page": 2, "units": [{}]}, 409, "page-out-of-order", "page"),
        ("/b/units", {"page": 0, "units": [{"other": 1}]}, 409, "other-body", "page"),
        ("/b/units", {"page": 1, "units": []}, 400, "bad-batch", "units"),
        ("/b/units", {"page": 1, "units": [{}] * 101}, 413, "too-large", "units"),
        ("/b/units", {"page": 1, "units": [{}, 7]}, 400, "bad-batch", "units[1]"),
        ("/b/units", {"page": 1, "units": [{"x": "x" * 102_400}]}, 413, "too-large", "units[0]"),
        ("/b/units", {"page": 1, "units": [{"x": "x" * 95_000}] * 10}, 413, "too-large", "units"),
        ("/b/units", {"page": -1, "units": [{}]}, 400, "bad-batch", "page"),
        ("/b/units", {"page": True, "units": [{}]}, 400, "bad-batch", "page"),
        ("/b/units", {"units": [{}]}, 400, "bad-batch", "page"),
        ("/b/units", {"page": 1, "units": [{}], "x": 1}, 400, "bad-batch", "x"),
        ("/b/units", {"page": 10**8, "units": [{}]}, 409, "page-out-of-order", "page"),
        ("/b/seal", {"pages": 0}, 409, "page-out-of-order", "pages"),
        ("/b/seal", {"pages": 3}, 409, "page-out-of-order", "page"),
        ("/b/seal", {}, 400, "bad-batch", "pages"),
        ("/b/retry", {"units": ["x"]}, 400, "bad-batch", "units"),
        ("/b/retry", {"units": [0] * 1_001}, 413, "too-large", "units"),
        ("/c/units", {"page": 0, "units": [{}]}, 404, "not-found", "id"),
        ("/c/seal", {"pages": 0}, 404, "not-found", "id"),
        ("/c/retry", {}, 404, "not-found", "id"),
        ("/", {"id": "b/c"}, 400, "bad-key", "id"),
        ("/", {"id": 7}, 400, "bad-key", "id"),
        ("/", {"id": "n", "units": [{}] * 10_001}, 413, "too-large", "units"),
        ("/", {"id": "n", "units": {}}, 400, "bad-batch", "units"),
        ("/", {"id": "n", "task": {"function": "x"}}, 400, "bad-call", "task.task"),
        ("/", {"id": "n", "sealed": 1}, 400, "bad-batch", "sealed"),
        ("/", {"id": "n", "deadline_seconds": 0}, 400, "bad-batch", "deadline_seconds"),
        ("/", {"id": "n", "failures_max": -1}, 400, "bad-batch", "failures_max"),
        ("/", {"id": "n", "colour": 1}, 400, "bad-batch", "colour"),
    ],
)
def test_an_invalid_request_is_refused_with_its_field_and_changes_nothing(
    harness: BatchHarness, path: str, body: Any, code: int, kind: str, field: str
) -> None:
    harness.request("POST", "/", batch(2, sealed=False))
    before, names = harness.records(), set(harness.names)
    answered, problem = harness.request("POST", path, body)
    assert (answered, problem["type"], problem.get("field")) == (code, f"urn:signalbox:problem:{kind}", field)
    assert (harness.records(), harness.names) == (before, names)


def test_a_call_over_8_mib_is_refused(harness: BatchHarness) -> None:
    code, problem = harness.request("POST", "/", {"units": [{"x": "x" * 90_000}] * 95, "id": "b"})
    assert (code, problem["type"]) == (413, "urn:signalbox:problem:too-large")
    assert harness.records() == {}


def test_large_units_are_cut_into_pages_that_fit(harness: BatchHarness) -> None:
    units_of_90_kb = [{"x": "x" * 90_000}] * 25
    assert harness.request("POST", "/", {"id": "b", "units": units_of_90_kb, "task": TASK})[1]["pages"] == 3


@pytest.mark.parametrize("path", ["/b/units", "/b/seal"])
def test_nothing_is_added_to_a_sealed_batch(harness: BatchHarness, path: str) -> None:
    harness.request("POST", "/", batch(2))
    before = harness.records()
    code, problem = harness.request(
        "POST", path, {"/b/units": {"page": 1, "units": [{}]}, "/b/seal": {"pages": 2}}[path]
    )
    assert (code, problem["type"]) == (409, "urn:signalbox:problem:batch-sealed")
    assert harness.records() == before


@pytest.mark.parametrize(("method", "path"), [("GET", "/c"), ("GET", "/c/units"), ("DELETE", "/c")])
def test_an_unknown_batch_is_not_found(harness: BatchHarness, method: str, path: str) -> None:
    assert harness.request(method, path)[0] == 404


@pytest.mark.parametrize("query", ["state=lost", "page_token=x", "page_token=-1", "after=1"])
def test_an_invalid_query_for_units_is_refused(harness: BatchHarness, query: str) -> None:
    harness.request("POST", "/", batch(2))
    assert harness.request("GET", f"/b/units?{query}")[1]["type"] == "urn:signalbox:problem:bad-query"


def test_units_are_listed_in_pages_in_the_order_of_their_indexes(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(150))
    harness.run_tasks()
    first = harness.request("GET", "/b/units?state=succeeded")[1]
    second = harness.request("GET", f"/b/units?state=succeeded&page_token={first['next_page_token']}")[1]
    assert [unit["index"] for unit in first["units"] + second["units"]] == list(range(150))
    assert second["units"][0] == {"index": 100, "state": "succeeded", "attempt": 0, "result": "painted"}
    assert "next_page_token" not in second


def broken_at(*squares_: int) -> Any:
    return lambda effect: failed("dry brush") if effect.payload["square"] in squares_ else succeeded(None)


def test_a_failed_unit_is_listed_and_counted_and_can_be_retried(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(130))
    harness.run_tasks(broken_at(7, 120))
    assert harness.completions == [{"id": "b", "state": "completed", "size": 130, "succeeded": 128, "failed": 2}]
    failed = harness.request("GET", "/b/units?state=failed")[1]["units"]
    assert failed[0] == {"index": 7, "state": "failed", "attempt": 0, "error": "dry brush"}
    harness.ran.clear()
    assert harness.request("POST", "/b/retry", {"units": [7, 8]})[0] == 202
    assert harness.request("POST", "/b/retry", {})[0] == 202
    harness.run_tasks()
    assert [effect.payload["square"] for effect in harness.ran] == [7, 120]
    assert harness.request("GET", "/b/units?state=failed")[1] == {"units": []}
    assert len(harness.completions) == 1


def test_more_failures_than_tolerated_cancel_a_batch(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(300, failures_max=2))
    harness.run_tasks(broken_at(0, 5, 10))
    [completion] = harness.completions
    assert (completion["state"], completion["reason"], completion["failed"]) == ("cancelled", "failures", 3)
    assert completion["succeeded"] < 297


def test_a_cancelled_batch_completes_as_cancelled_and_its_units_are_not_live(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(3))
    assert harness.request("DELETE", "/b") == (200, status("cancelled", 3, 0, 0, 1, reason="cancelled"))
    assert harness.request("DELETE", "/b")[0] == 200
    live: list[bool] = []

    def check(effect: Effect) -> UnitOutcome:
        live.append(units.unit_is_live(harness.ports, PlacedUnit.from_record(effect.context["unit"])))
        return succeeded(None)

    harness.run_tasks(check)
    assert live == [False] * 3
    assert [completion["state"] for completion in harness.completions] == ["cancelled"]
    assert harness.request("POST", "/b/retry", {})[1]["type"] == "urn:signalbox:problem:batch-sealed"


def test_units_without_a_task_are_completed_from_outside_and_keep_their_first_outcome(harness: BatchHarness) -> None:
    harness.request("POST", "/", {"id": "b", "units": ["a", "b"], "on_complete": ANNOUNCE, "sealed": True})
    assert harness.waiting[0].task == "check"
    assert harness.request("POST", "/b/0", {"result": 1}, "batch_complete") == (200, {"id": "b", "index": 0})
    assert harness.request("POST", "/b/0", {"error": "late"}, "batch_complete")[0] == 200
    harness.request("POST", "/b/1", {"error": "torn"}, "batch_complete")
    harness.run_tasks()
    assert [(completion["succeeded"], completion["failed"]) for completion in harness.completions] == [(1, 1)]
    assert [unit.get("result") for unit in harness.request("GET", "/b/units")[1]["units"]] == [1, None]
    assert harness.request("POST", "/b/retry", {})[1]["type"] == "urn:signalbox:problem:nothing-to-run"


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/b/2", {"result": 1}, 404),
        ("/b/x", {"result": 1}, 404),
        ("/c/0", {"result": 1}, 404),
        ("/b/0", {}, 400),
        ("/b/0", {"result": 1, "error": "x"}, 400),
        ("/b/0", {"error": 7}, 400),
        ("/b/0", {"result": "x" * 102_400}, 413),
    ],
)
def test_an_invalid_outcome_is_refused(harness: BatchHarness, path: str, body: Any, code: int) -> None:
    harness.request("POST", "/", {"id": "b", "units": [1, 2], "sealed": True})
    before = harness.records()
    assert harness.request("POST", path, body, "batch_complete")[0] == code
    assert harness.records() == before


def test_a_result_that_is_too_large_fails_the_unit(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1))
    harness.run_tasks(lambda _: succeeded("x" * 102_400))
    assert harness.completions[0]["failed"] == 1
    assert "the limit is 102,400" in harness.request("GET", "/b/units")[1]["units"][0]["error"]


def test_a_redelivered_unit_keeps_its_outcome_and_is_counted_once(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(2, sealed=False))
    harness.run_tasks()
    for effect in harness.ran:
        unit = PlacedUnit.from_record(effect.context["unit"])
        assert units.resume_unit(harness.ports, unit)
        units.complete_unit(harness.ports, unit, succeeded("again"))
    harness.request("POST", "/b/seal", {"pages": 1})
    harness.run_tasks()
    assert [completion["succeeded"] for completion in harness.completions] == [2]
    assert {unit["result"] for unit in harness.request("GET", "/b/units")[1]["units"]} == {"painted"}


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
        dead.setattr("shared.batches.operations.propagation.propagate_counter", lambda *_: None)
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
    harness.waiting.sort(key=lambda effect: effect.task != "expand")
    run_batch_task(harness.ports, harness.waiting[0].task, harness.waiting.pop(0).payload)
    parent = PlacedUnit.from_record(harness.waiting.pop().context["unit"])
    spec = BatchSpec(units=squares(2), task=Call.from_request(TASK, "task"), sealed=True)
    batches.populate(harness.ports, parent.sub_batch_id, spec, parent)
    harness.run_tasks(broken_at(1))
    assert [completion["state"] for completion in harness.completions] == ["completed"]
    result = harness.request("GET", "/b/units")[1]["units"][0]["result"]
    assert result == {"batch": parent.sub_batch_id, "state": "completed", "size": 2, "succeeded": 1, "failed": 1}


def test_the_default_deadline_is_a_week(harness: BatchHarness) -> None:
    harness.request("POST", "/", {"id": "b"})
    harness.advance(LIMITS.batch_deadline_seconds + 1)
    sweep(harness.ports)
    assert harness.request("GET", "/b") == (200, status("cancelled", 0, 0, 0, 0, reason="deadline") | {"pages": None})
