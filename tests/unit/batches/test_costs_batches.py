"""What a batch costs, to the last read: 2,000 units in 20 full pages, from the call that brings them to the end.

A unit: its outcome and its counter, in one commit. A page of 100: itself, its node, 5 counters, an outbox record, 5
counters passed to the node, the node passed up; each passing is followed by a read.
"""

from collections.abc import Iterator

import pytest

from shared.adapters import runtime
from shared.adapters.meter import Cost, measure
from shared.batches.operations import batches
from shared.batches.rules import units
from shared.batches.rules.batches import Unit
from shared.batches.rules.requests import parse_order
from tests.unit.batches.batch_town import ANNOUNCE, TASK, Town

UNITS, PAGES = 2_000, 20
ORDER = {"id": "b", "units": [{"n": n} for n in range(UNITS)], "task": TASK, "on_complete": ANNOUNCE}


@pytest.fixture
def town() -> Iterator[Town]:
    yield Town()
    runtime.bind(None)


def whole(town: Town) -> Cost:
    """Count all that a batch costs, its own calls included."""
    with measure() as cost:
        order = parse_order({name: value for name, value in ORDER.items() if name != "id"})
        batches.populate(town.ports, "b", order)
        batches.seal(town.ports, "b", PAGES)
        town.work()
    assert [said["done"] for said in town.announced] == [UNITS]
    return cost


def test_a_batch_of_2000_units_costs_exactly_this(town: Town) -> None:
    cost = whole(town)
    assert (cost.reads, cost.writes, cost.deletes, cost.tasks) == (174, 4_289, 22, 2_022)


def test_a_units_share_is_what_the_design_allows(town: Town) -> None:
    cost = whole(town)
    assert cost.reads / UNITS < 0.1
    assert cost.writes / UNITS < 2.15
    assert cost.deletes / UNITS < 0.1
    assert cost.tasks / UNITS < 1.015


def test_a_unit_costs_one_round_trip_after_its_work(town: Town) -> None:
    unit = expanded(town)[0]
    with measure() as cost:
        batches.complete_unit(town.ports, unit, units.succeeded(None))
    assert cost == Cost(writes=2, round_trips=1)


def test_whoever_fills_a_counter_passes_it_on_and_reads_the_node(town: Town) -> None:
    some = [unit for unit in expanded(town) if unit.page == 0 and unit.counter == 0]
    for unit in some[:-1]:
        batches.complete_unit(town.ports, unit, units.succeeded(None))
    with measure() as cost:
        batches.complete_unit(town.ports, some[-1], units.succeeded(None))
    assert cost == Cost(reads=1, writes=3, round_trips=3)


def test_a_page_costs_8_writes_and_one_task_to_load(town: Town) -> None:
    town.ask("POST", "/", {"id": "b", "task": TASK})
    batches.add_page(town.ports, "b", 0, [{}] * 100)
    with measure() as cost:
        batches.add_page(town.ports, "b", 1, [{}] * 100)
    assert cost == Cost(reads=2, writes=8, deletes=1, tasks=1, round_trips=5)


def test_expanding_a_page_reads_it_once(town: Town) -> None:
    town.ask("POST", "/", ORDER)
    with measure() as cost:
        batches.expand(town.ports, town.waiting[0].payload)
    assert cost == Cost(reads=1, tasks=100, round_trips=2)


def test_a_sweep_when_nothing_is_due_is_one_read(town: Town) -> None:
    with measure() as cost:
        batches.sweep(town.ports)
    assert cost == Cost(reads=1, round_trips=1)


def expanded(town: Town) -> list[Unit]:
    """Load the batch and hand over its units' tasks, but run none."""
    town.ask("POST", "/", ORDER)
    for effect in list(town.waiting):
        batches.expand(town.ports, effect.payload)
    return [Unit.of(effect.context["unit"]) for effect in town.waiting if effect.task == "paint"]
