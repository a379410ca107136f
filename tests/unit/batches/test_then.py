"""What follows a batch: another batch if it succeeds, or else a call; each once."""

import json
from typing import Any
from unittest.mock import patch

import pytest

from signalbox.adapters.cost_meter import measure
from signalbox.batches.problems import BadBatch
from signalbox.batches.requests import BatchFollowing, BatchSpec
from signalbox.batches.service import population
from signalbox.batches.tasks import run_batch_task
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.problems import NewerFormat, Problem, TooLarge
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.contexts import parsed
from signalbox.tasks.service import runs
from tests.unit.batches.batch_harness import ALARM, ANNOUNCE, TASK, BatchHarness, batch, broken_at
from tests.unit.cost_table import row_cost


@pytest.fixture
def harness() -> BatchHarness:
    return BatchHarness()


def stage(*squares: int, **more: Any) -> dict[str, Any]:
    return {"units": [{"square": number} for number in squares], "task": TASK, "on_complete": ANNOUNCE} | more


def ran(harness: BatchHarness) -> list[int]:
    return [effect.payload["square"] for effect in harness.ran]


def test_batches_follow_each_other(harness: BatchHarness) -> None:
    then = stage(10, 11, then=stage(20))
    _, shown = harness.request("POST", "/", batch(3, then=then, on_failure=ALARM))
    harness.run_tasks()
    assert ran(harness) == [0, 1, 2, 10, 11, 20]
    assert [each["size"] for each in harness.completions] == [3, 2, 1]
    assert harness.alarms == []
    follows = harness.request("GET", f"/{shown['then']}")[1]
    assert (follows["state"], follows["size"]) == ("completed", 2)
    assert harness.request("GET", f"/{follows['then']}")[1]["size"] == 1
    assert "then" not in harness.request("GET", f"/{follows['then']}")[1]
    assert {one["id"]: one.get("then") for one in harness.request("GET", "/")[1]["batches"]}["b"] == shown["then"]


def test_nothing_follows_a_failed_batch_but_the_alarm(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(3, then=stage(10), on_failure=ALARM))
    harness.run_tasks(broken_at(1))
    assert ran(harness) == [0, 1, 2]
    assert [(each["id"], each["failed"]) for each in harness.alarms] == [("b", 1)]


def test_the_alarm_is_that_of_the_first_batch_where_a_later_one_has_none(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1, then=stage(10, then=stage(20)), on_failure=ALARM))
    harness.run_tasks(broken_at(20))
    assert ran(harness) == [0, 10, 20]
    assert [(each["size"], each["failed"]) for each in harness.alarms] == [(1, 1)]


def test_tolerated_failures_are_a_success(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(3, then=stage(10), on_failure=ALARM, failures_max=1))
    harness.run_tasks(broken_at(1))
    assert (ran(harness), harness.alarms) == ([0, 1, 2, 10], [])


def test_a_cancelled_batch_is_followed_by_the_alarm(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(3, then=stage(10), on_failure=ALARM))
    harness.request("DELETE", "/b")
    harness.tasks[:] = [task for task in harness.tasks if task.task != "expand"]
    harness.run_tasks()
    assert (ran(harness), [each["reason"] for each in harness.alarms]) == ([], ["cancelled"])


def test_an_empty_batch_is_followed_at_once(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(0, then=stage(10)))
    harness.run_tasks()
    assert ran(harness) == [10]


def test_a_repeated_task_creates_no_second_batch(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(0, then=stage(10)))
    [then] = [task for task in harness.tasks if task.task == "then"]
    for _ in range(2):
        run_batch_task(harness.ports, then.task, then.payload)
    harness.tasks.remove(then)
    harness.run_tasks()
    assert (ran(harness), len(harness.completions)) == ([10], 2)


def test_the_unit_of_a_sub_batch_is_completed_by_what_follows_it(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1))
    [expand] = [task for task in harness.tasks if task.task == "expand"]
    run_batch_task(harness.ports, expand.task, expand.payload)
    [unit] = [task for task in harness.tasks if task.task == "paint"]
    harness.tasks.clear()
    call = Call.from_request(TASK, "task")
    follows = BatchSpec(units=[{"square": 8}, {"square": 9}], task=call, sealed=True)
    spec = BatchSpec(units=[{"square": 7}], task=call, sealed=True, then=follows)
    runs.run(harness.ports, parsed(Delivered(unit.name, unit.context)), RetryLimits(3), lambda _: True, lambda *_: spec)
    harness.run_tasks()
    assert ran(harness) == [7, 8, 9]
    [outcome] = harness.request("GET", "/b/units")[1]["units"]
    assert (outcome["state"], outcome["result"]["size"]) == ("succeeded", 2)


def test_what_follows_may_be_completed_from_outside(harness: BatchHarness) -> None:
    _, shown = harness.request("POST", "/", batch(1, then={"units": ["approve"], "then": stage(10)}))
    harness.run_tasks()
    harness.request("POST", f"/{shown['then']}/0", {"result": "yes"}, "batch_complete")
    harness.run_tasks()
    assert ran(harness) == [0, 10]


def deep(stages: int) -> dict[str, Any]:
    body = stage(0)
    for _ in range(stages):
        body = stage(0, then=body)
    return body


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"then": []}, "then"),
        ({"then": {"id": "x"}}, "then.id"),
        ({"then": {"sealed": True}}, "then.sealed"),
        ({"then": {"units": [1], "task": TASK}}, "units[0]"),
        ({"then": {"task": {"function": "painter"}}}, "then.task.task"),
        ({"then": {"then": {"more": 1}}}, "then.then.more"),
        ({"on_failure": 1}, "on_failure"),
        (deep(21), "then"),
    ],
)
def test_what_cannot_follow_is_refused(body: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as refused:
        BatchSpec.from_request(body)
    assert refused.value.field == field


def test_what_follows_is_bounded() -> None:
    with pytest.raises(TooLarge):
        BatchSpec.from_request({"then": {"units": ["x" * 90_000] * 3}})
    with pytest.raises(BadBatch):
        BatchSpec(then=BatchSpec())


def test_a_spec_survives_the_header_of_the_batch_before() -> None:
    spec = BatchSpec.from_request(stage(1, 2, concurrency=3, failures_max=0, then=deep(2)))
    assert BatchSpec.from_then(json.dumps(spec.then.to_request() if spec.then else None)) == spec.then


def test_what_only_another_release_can_read_is_tried_again_and_follows_later(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(0, then=stage(10)))
    [then] = [task for task in harness.tasks if task.task == "then"]
    refused = patch.object(BatchFollowing, "parse", side_effect=BadBatch("Unknown field `colour`."))
    with refused, pytest.raises(NewerFormat, match="Unknown field `colour`"):
        run_batch_task(harness.ports, then.task, then.payload)
    harness.run_tasks()
    assert (ran(harness), len(harness.completions)) == ([10], 2)


def test_what_follows_is_part_of_what_a_repeat_must_repeat(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1, then=stage(10)))
    assert harness.request("POST", "/", batch(1, then=stage(10)))[0] == 200
    assert harness.request("POST", "/", batch(1, then=stage(11)))[0] == 409


def test_a_batch_that_follows_costs_one_task_and_one_read_more(harness: BatchHarness) -> None:
    with measure() as alone:
        population.populate(
            harness.ports, "alone", BatchSpec.from_request(stage() | {"sealed": True, "on_failure": ALARM})
        )
    harness.request("POST", "/", batch(0, then=stage(), on_failure=ALARM) | {"id": "c"})
    [then] = [task for task in harness.tasks if task.task == "then"]
    with measure() as following:
        run_batch_task(harness.ports, then.task, then.payload)
    more = row_cost("batches", "then")
    assert (following.reads - alone.reads, following.round_trips - alone.round_trips) == (more.reads, more.round_trips)
    assert (following.writes, following.tasks) == (alone.writes, alone.tasks)
