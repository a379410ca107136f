"""The exact cost of a batch: 2,000 units in 20 full pages, from the call that loads them to the end.

A unit: its outcome and its counter, in one commit. A page of 100: itself, its node, 5 counters, an outbox record, 5
counters propagated to the node, the node propagated up; a read follows each propagation.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from signalbox.adapters.cost_meter import Cost, measure
from signalbox.batches import storage
from signalbox.batches.model.units import PlacedUnit, succeeded
from signalbox.batches.requests import BatchSpec, PageRequest, SealRequest
from signalbox.batches.service import lifecycle, population, units
from signalbox.batches.service.pages import add_page
from signalbox.batches.sweep import sweep
from signalbox.batches.tasks import run_batch_task
from tests.unit.batches.batch_harness import ANNOUNCE, TASK, BatchHarness
from tests.unit.cost_table import is_within, row_cost

UNITS, PAGES = 2_000, 20
BODY = {"id": "b", "units": [{"n": n} for n in range(UNITS)], "task": TASK, "on_complete": ANNOUNCE}


@pytest.fixture
def harness() -> BatchHarness:
    return BatchHarness()


def whole(harness: BatchHarness) -> Cost:
    """Return the cost of a whole batch, its HTTP calls included."""
    with measure() as cost:
        population.populate(harness.ports, "b", BatchSpec.from_request(BODY))
        lifecycle.seal(harness.ports, "b", SealRequest(PAGES))
        harness.run_tasks()
    assert [completion["succeeded"] for completion in harness.completions] == [UNITS]
    return cost


def test_a_batch_of_2000_units_costs_exactly_this(harness: BatchHarness) -> None:
    cost = whole(harness)
    assert (cost.reads, cost.writes, cost.deletes, cost.tasks) == (174, 4_290, 22, 2_022)


def test_a_units_share_is_what_the_design_allows(harness: BatchHarness) -> None:
    cost = whole(harness)
    assert is_within("batches", "unit", cost, UNITS)


def test_a_unit_costs_one_round_trip_after_its_work(harness: BatchHarness) -> None:
    unit = expanded(harness)[0]
    with measure() as cost:
        units.complete_unit(harness.ports, unit, succeeded(None))
    assert cost == row_cost("batches", "unit_end")


def test_the_last_unit_of_a_counter_propagates_it_and_reads_the_node(harness: BatchHarness) -> None:
    some = [unit for unit in expanded(harness) if unit.page == 0 and unit.counter.number == 0]
    for unit in some[:-1]:
        units.complete_unit(harness.ports, unit, succeeded(None))
    with measure() as cost:
        units.complete_unit(harness.ports, some[-1], succeeded(None))
    assert cost == Cost(reads=1, writes=3, round_trips=3)


def test_grouped_units_share_their_commits_and_tasks(harness: BatchHarness) -> None:
    with measure() as cost:
        population.populate(harness.ports, "b", BatchSpec.from_request(BODY | {"per_task": 20, "sealed": True}))
        harness.run_tasks()
    assert [completion["succeeded"] for completion in harness.completions] == [UNITS]
    assert is_within("batches", "grouped", cost, UNITS)


def test_the_removal_of_a_unit_reads_and_deletes_its_record(harness: BatchHarness) -> None:
    whole(harness)
    harness.clock.now += timedelta(days=8)
    with measure() as cost:
        sweep(harness.ports)
    assert harness.ids("batches") == []
    assert is_within("batches", "removed", cost, UNITS)


def test_a_page_costs_8_writes_and_one_task_to_load(harness: BatchHarness) -> None:
    harness.request("POST", "/", {"id": "b", "task": TASK})
    add_page(harness.ports, "b", PageRequest(0, [{}] * 100))
    with measure() as cost:
        add_page(harness.ports, "b", PageRequest(1, [{}] * 100))
    assert cost == row_cost("batches", "page")


def test_expanding_a_page_reads_it_once(harness: BatchHarness) -> None:
    harness.request("POST", "/", BODY)
    with measure() as cost:
        run_batch_task(harness.ports, "expand", harness.tasks[0].payload)
    assert cost == row_cost("batches", "expand")


def test_a_completion_costs_a_record_that_is_deleted_when_it_has_run(harness: BatchHarness) -> None:
    with measure() as alone:
        population.populate(harness.ports, "a", BatchSpec.from_request({"sealed": True}))
    with measure() as announced:
        population.populate(harness.ports, "b", BatchSpec.from_request({"sealed": True, "on_complete": ANNOUNCE}))
    outbox_writes = 1
    with measure() as ran:
        storage.forget_completion(harness.ports, harness.tasks[-1].name)
    writes = announced.writes - alone.writes - outbox_writes
    assert replace(ran, writes=writes) == row_cost("batches", "completion")
    assert harness.ids("completions") == []


def test_a_sweep_when_nothing_is_due_is_two_reads(harness: BatchHarness) -> None:
    with measure() as cost:
        sweep(harness.ports)
    assert cost == Cost(reads=2, round_trips=2)


def expanded(harness: BatchHarness) -> list[PlacedUnit]:
    """Load the batch and enqueue its units' tasks, but run none."""
    harness.request("POST", "/", BODY)
    for effect in list(harness.tasks):
        run_batch_task(harness.ports, "expand", effect.payload)
    return [PlacedUnit.from_record(effect.context["unit"]) for effect in harness.tasks if effect.task == "paint"]
