"""Deadlines are met whatever else the sweeper has to do, and it visits every batch that is due."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from signalbox.adapters.cost_meter import Cost, measure
from signalbox.batches import sweep as batches_sweep
from signalbox.batches.limits import LIMITS as BATCHES_LIMITS
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import population
from signalbox.batches.sweep import sweep
from signalbox.batches.tasks import run_batch_task
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import OutOfTime, Put
from signalbox.core.problems import Unavailable
from signalbox.core.times import EPOCH
from tests.sweeper_budgets import budget_of
from tests.unit.batches.batch_harness import BatchHarness, batch

DEADLINE_SECONDS = 60


@pytest.fixture
def harness() -> BatchHarness:
    return BatchHarness()


def seconds_of(harness: BatchHarness, seconds: float) -> Callable[[], OutOfTime]:
    """Return a budget by the harness's clock."""

    def begin() -> OutOfTime:
        ends_at = harness.clock.now + timedelta(seconds=seconds)
        return lambda: harness.clock.now >= ends_at

    return begin


def removable(harness: BatchHarness, count: int) -> None:
    """Create batches that have ended, and let them become removable."""
    for number in range(count):
        harness.request("POST", "/", {"id": f"old-{number}", "sealed": True})
    harness.advance(BATCHES_LIMITS.batch_keep_seconds + 1)


def state(harness: BatchHarness) -> str:
    return str(harness.request("GET", "/b")[1]["state"])


def test_a_deadline_needs_no_sweep(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(30, deadline_seconds=DEADLINE_SECONDS, task=None))
    harness.advance(DEADLINE_SECONDS)
    harness.run_tasks()
    [completion] = harness.completions
    assert (completion["reason"], completion["missing"]) == ("deadline", list(range(30)))


def test_the_task_of_a_deadline_is_due_then_and_is_retried_if_it_comes_early(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1, deadline_seconds=DEADLINE_SECONDS, task=None))
    [deadline] = [task for task in harness.tasks if task.task == "deadline"]
    assert deadline.not_before == harness.record("batches/b")["deadline_at"]
    with pytest.raises(Unavailable):
        run_batch_task(harness.ports, deadline.task, deadline.payload)
    assert state(harness) == "sealed"


def test_a_deadline_of_a_batch_that_has_ended_or_was_replaced_changes_nothing(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1, deadline_seconds=DEADLINE_SECONDS))
    deadline = harness.take("deadline")
    harness.run_tasks()
    harness.advance(BATCHES_LIMITS.batch_keep_seconds + 1)
    before = harness.record("batches/b")
    run_batch_task(harness.ports, deadline.task, deadline.payload)
    assert harness.record("batches/b") == before
    sweep(harness.ports)
    harness.request("POST", "/", batch(1, task=None))
    run_batch_task(harness.ports, deadline.task, deadline.payload)
    assert state(harness) == "sealed"


def test_only_a_deadline_nearer_than_the_default_costs_a_task(harness: BatchHarness) -> None:
    def cost(batch: str, seconds: int) -> Cost:
        with measure() as counted:
            population.populate(harness.ports, batch, BatchSpec(deadline_seconds=seconds))
        return counted

    alone = cost("a", BATCHES_LIMITS.batch_deadline_seconds)
    nearer = cost("b", BATCHES_LIMITS.batch_deadline_seconds - 1)
    assert (alone.tasks, alone.writes, alone.deletes) == (0, 1, 0)
    assert (nearer.tasks, nearer.writes, nearer.deletes) == (1, 2, 1)
    assert nearer.round_trips == alone.round_trips + 2


def test_removals_do_not_displace_a_deadline_whose_task_was_lost(
    harness: BatchHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    removable(harness, 30)
    harness.request("POST", "/", batch(1, deadline_seconds=DEADLINE_SECONDS, task=None))
    harness.tasks.clear()
    harness.advance(DEADLINE_SECONDS)
    monkeypatch.setattr(batches_sweep, "remove", lambda *_: harness.advance(CORE_LIMITS.sweep_part_seconds))
    sweep(harness.ports, seconds_of(harness, CORE_LIMITS.sweep_part_seconds))
    assert state(harness) == "cancelled"


def test_all_that_is_due_is_handled_within_one_budget_not_only_a_page(harness: BatchHarness) -> None:
    removable(harness, 3 * BATCHES_LIMITS.batches_sweep_page)
    assert sweep(harness.ports) == 3 * BATCHES_LIMITS.batches_sweep_page
    assert harness.ids("batches") == []


def test_batches_whose_visit_fails_do_not_hide_the_others(
    harness: BatchHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(BATCHES_LIMITS.batches_sweep_page):
        harness.request("POST", "/", batch(1, deadline_seconds=DEADLINE_SECONDS, task=None) | {"id": f"bad-{number}"})
    harness.request("POST", "/", batch(1, deadline_seconds=DEADLINE_SECONDS, task=None))
    harness.tasks.clear()
    harness.advance(DEADLINE_SECONDS + 1)

    def failing(*_: object) -> None:
        raise Unavailable("away")

    with monkeypatch.context() as away:
        away.setattr("signalbox.batches.sweep.time_out", failing)
        sweep(harness.ports, budget_of(BATCHES_LIMITS.batches_sweep_page))
    sweep(harness.ports, budget_of(1))
    assert state(harness) == "cancelled"


def test_a_header_that_cannot_be_read_does_not_keep_the_sweeper_from_the_others(harness: BatchHarness) -> None:
    removable(harness, 2)
    harness.ports.store.commit([Put("batches/bad", {"due_at": None}), Put("batches/worse", {"due_at": EPOCH})])
    sweep(harness.ports)
    assert harness.ids("batches") == ["bad", "worse"]
    assert sweep(harness.ports) == 0


def test_a_batch_that_is_never_sealed_is_a_warning_at_its_deadline(harness: BatchHarness) -> None:
    for id_, sealed in (("open", False), ("sealed", True)):
        spec = {"id": id_, "units": [{}], "task": {"function": "painter", "task": "paint"}, "sealed": sealed}
        assert harness.request("POST", "/", spec)[0] == 201
    for _ in range(3):
        harness.advance(BATCHES_LIMITS.batch_deadline_seconds)
        sweep(harness.ports)
    [(message, values)] = harness.log.warnings
    assert (message, values["batch"]) == ("batch never sealed", "open")
    assert "send the number of its pages" in str(values["detail"])
