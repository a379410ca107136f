"""Cancelling reaches sub-batches: those that exist, and one that a running unit returns later."""

from typing import Any

import pytest

from signalbox.adapters.cost_meter import measure
from signalbox.batches.limits import LIMITS
from signalbox.batches.model.units import PlacedUnit
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import population
from signalbox.batches.sweep import sweep
from signalbox.batches.tasks import run_batch_task
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.ports import Query
from signalbox.testing.replaced_limits import replaced
from tests.unit.batches.batch_harness import TASK, BatchHarness, batch, squares
from tests.unit.cost_table import row_cost


@pytest.fixture
def harness() -> BatchHarness:
    return BatchHarness()


def kits_tasks(harness: BatchHarness) -> None:
    """Run the tasks of `batch_expand` that are enqueued, and those that they enqueue; units stay."""
    while own := [task for task in harness.tasks if task.function == "batch_expand"]:
        for task in own:
            harness.tasks.remove(task)
            run_batch_task(harness.ports, task.task, task.payload)


def units_of(harness: BatchHarness, id_: str) -> list[PlacedUnit]:
    tasks = [task for task in harness.tasks if task.context.get("unit", {}).get("batch") == id_]
    return [PlacedUnit.from_record(task.context["unit"]) for task in tasks]


def divided(harness: BatchHarness, unit: PlacedUnit, parts: int = 2) -> str:
    """Populate a sub-batch for a unit, and enqueue its units; return its id."""
    spec = BatchSpec(units=squares(parts), task=Call.from_request(TASK, "task"), sealed=True)
    population.populate(harness.ports, unit.sub_batch_id(), spec, unit)
    kits_tasks(harness)
    return unit.sub_batch_id()


def state(harness: BatchHarness, id_: str) -> tuple[Any, Any]:
    shown = harness.request("GET", f"/{id_}")[1]
    return shown["state"], shown.get("reason")


def test_cancelling_reaches_sub_batches_of_sub_batches(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(2))
    kits_tasks(harness)
    child = divided(harness, units_of(harness, "b")[0])
    grandchild = divided(harness, units_of(harness, child)[1])
    other = BatchSpec(units=squares(1), task=Call.from_request(TASK, "task"), sealed=True)
    population.populate(harness.ports, "other", other)
    harness.request("DELETE", "/b")
    kits_tasks(harness)
    assert state(harness, child) == state(harness, grandchild) == ("cancelled", "parent")
    assert state(harness, "other") == ("sealed", None)


def test_sub_batches_whose_cancel_was_purged_are_ended_by_the_sweeper(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(2))
    kits_tasks(harness)
    child = divided(harness, units_of(harness, "b")[0])
    grandchild = divided(harness, units_of(harness, child)[1])
    harness.request("DELETE", "/b")
    for _ in range(2):
        harness.tasks.clear()
        harness.clock.advance(LIMITS.batch_idle_seconds + 1)
        sweep(harness.ports)
    assert state(harness, child) == state(harness, grandchild) == ("cancelled", "parent")


@pytest.mark.parametrize("failures_max", [None, 0])
def test_sub_batches_end_with_their_parent_at_its_deadline_and_after_too_many_failures(
    harness: BatchHarness, failures_max: int | None
) -> None:
    harness.request("POST", "/", batch(40, deadline_seconds=60, failures_max=failures_max))
    for task in [task for task in harness.tasks if task.task == "deadline"]:
        harness.tasks.remove(task)
        deadline: Effect = task
    kits_tasks(harness)
    first, *others = units_of(harness, "b")
    child = divided(harness, first)
    if failures_max is None:
        harness.clock.advance(61)
        run_batch_task(harness.ports, deadline.task, deadline.payload)
    else:
        for unit in others[::2]:  # all of one counter: failures are looked at when it is full
            harness.request("POST", f"/b/{unit.index}", {"error": "no paint"}, "batch_complete")
    kits_tasks(harness)
    assert state(harness, child) == ("cancelled", "parent")


def test_a_sub_batch_of_a_cancelled_batch_loads_no_unit(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1))
    kits_tasks(harness)
    [unit] = units_of(harness, "b")
    harness.request("DELETE", "/b")
    kits_tasks(harness)
    child = divided(harness, unit)
    assert state(harness, child) == ("cancelled", "parent")
    assert units_of(harness, child) == []
    assert harness.store.query(Query(f"batches/{child}/pages")) == ()


def test_a_batch_of_many_sub_batches_is_cancelled_page_by_page(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(5))
    kits_tasks(harness)
    children = [divided(harness, unit) for unit in units_of(harness, "b")]
    harness.request("DELETE", "/b")
    with replaced(batches_sweep_page=2):
        kits_tasks(harness)
    assert {state(harness, child) for child in children} == {("cancelled", "parent")}


def test_a_sub_batch_costs_one_read_more_than_a_batch(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(2))
    kits_tasks(harness)
    spec = BatchSpec(units=squares(2), task=Call.from_request(TASK, "task"), sealed=True)
    unit = units_of(harness, "b")[0]
    with measure() as alone:
        population.populate(harness.ports, "alone", spec)
    with measure() as child:
        population.populate(harness.ports, unit.sub_batch_id(), spec, unit)
    more = row_cost("batches", "sub_batch")
    assert (child.reads - alone.reads, child.writes - alone.writes) == (more.reads, more.writes)
    assert child.round_trips - alone.round_trips == more.round_trips


def test_a_cancelled_batch_without_sub_batches_costs_one_task_and_one_read_more(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(2))
    kits_tasks(harness)
    harness.request("DELETE", "/b")
    [cancel] = [task for task in harness.tasks if task.task == "cancel"]
    with measure() as cost:
        run_batch_task(harness.ports, cancel.task, cancel.payload)
    assert cost == row_cost("batches", "cancelled")
