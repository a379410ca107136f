"""Units over HTTP: listed, completed from outside, failed and retried."""

from typing import Any

import pytest

from signalbox.batches.limits import LIMITS
from signalbox.batches.model.units import PlacedUnit, succeeded
from signalbox.batches.service import units
from signalbox.batches.sweep import sweep
from signalbox.batches.tasks import run_batch_task
from tests.unit.batches.batch_harness import ANNOUNCE, BatchHarness, batch, broken_at, status


@pytest.fixture
def harness() -> BatchHarness:
    return BatchHarness()


@pytest.mark.parametrize("query", ["state=lost", "page_token=x", "page_token=-1", "after=1"])
def test_an_invalid_query_for_units_is_refused(harness: BatchHarness, query: str) -> None:
    harness.request("POST", "/", batch(2))
    assert harness.request("GET", f"/b/units?{query}")[1]["type"] == "urn:signalbox:problem:bad-query"


def test_units_are_listed_in_pages_each_in_the_order_of_their_indexes(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(150))
    harness.run_tasks()
    first = harness.request("GET", "/b/units?state=succeeded")[1]
    second = harness.request("GET", f"/b/units?state=succeeded&page_token={first['next_page_token']}")[1]
    indexes = [[unit["index"] for unit in page["units"]] for page in (first, second)]
    assert sorted(indexes[0] + indexes[1]) == list(range(150))
    assert indexes == [sorted(indexes[0]), sorted(indexes[1])]
    assert first["units"][0] == {"index": 0, "state": "succeeded", "attempt": 0, "result": "painted"}
    assert "next_page_token" not in second


@pytest.mark.parametrize("state", ["", "?state=succeeded"])
def test_the_units_of_one_page_are_listed_in_the_order_of_their_indexes(harness: BatchHarness, state: str) -> None:
    harness.request("POST", "/", batch(LIMITS.units_listed_max - 1))
    harness.run_tasks()
    listed = harness.request("GET", f"/b/units{state}")[1]["units"]
    assert [unit["index"] for unit in listed] == list(range(LIMITS.units_listed_max - 1))


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


def test_units_without_a_task_are_completed_from_outside_and_keep_their_first_outcome(harness: BatchHarness) -> None:
    harness.request("POST", "/", {"id": "b", "units": ["a", "b"], "on_complete": ANNOUNCE, "sealed": True})
    assert harness.tasks[0].task == "check"
    assert harness.request("POST", "/b/0", {"result": 1}, "batch_complete") == (200, {"id": "b", "index": 0})
    assert harness.request("POST", "/b/0", {"error": "late"}, "batch_complete")[0] == 200
    harness.request("POST", "/b/1", {"error": "torn"}, "batch_complete")
    harness.run_tasks()
    assert [(completion["succeeded"], completion["failed"]) for completion in harness.completions] == [(1, 1)]
    assert [unit.get("result") for unit in harness.request("GET", "/b/units")[1]["units"]] == [1, None]
    assert harness.request("POST", "/b/retry", {})[1]["type"] == "urn:signalbox:problem:nothing-to-run"
    assert "task" not in harness.request("GET", "/b")[1]


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/b/2", {"result": 1}, 404),
        ("/b/x", {"result": 1}, 404),
        ("/c/0", {"result": 1}, 404),
        ("/b/0", {}, 400),
        ("/b/0", {"result": 1, "error": "x"}, 400),
        ("/b/0", {"error": 7}, 400),
        ("/b/0", {"error": "a\ud800"}, 400),
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


def test_a_retry_without_a_body_retries_all_that_failed(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(3))
    harness.run_tasks(broken_at(1))
    assert harness.request("POST", "/b/retry") == (202, {"id": "b"})
    harness.run_tasks()
    assert harness.request("GET", "/b/units?state=failed")[1] == {"units": []}


def test_the_counts_of_a_running_batch_are_disjoint(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(5, task=None, on_complete=None))
    for index in range(3):
        outcome = {"error": "torn"} if index == 1 else {"result": index}
        harness.request("POST", f"/b/{index}", outcome, "batch_complete")
    assert harness.request("GET", "/b") == (200, status("sealed", 5, 2, 1, 1))


def test_a_task_and_a_unit_of_a_removed_batch_are_dropped_and_logged(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1))
    check = next(effect for effect in harness.tasks if effect.task == "check")
    harness.run_tasks()
    unit = PlacedUnit.from_record(harness.ran[0].context["unit"])
    harness.advance(LIMITS.batch_keep_seconds + 1)
    sweep(harness.ports)
    units.complete_unit(harness.ports, unit, succeeded("late"))
    child = {**check.payload, "unit": unit.to_record()}
    run_batch_task(harness.ports, "child", child)
    assert ("batch not found, unit dropped", {"batch": "b", "unit": 0}) in harness.log.infos
    assert harness.records() == {}
