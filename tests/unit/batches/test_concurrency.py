"""A batch that limits how many units run at once."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from signalbox.adapters.cost_meter import Cost, measure
from signalbox.batches.machine.units import chains_of_all
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import PlacedUnit, Retries, UnitOutcome, failed, succeeded
from signalbox.batches.problems import BadBatch
from signalbox.batches.requests import BatchSpec, PageRequest, SealRequest
from signalbox.batches.service import lifecycle, population, units
from signalbox.batches.service.pages import add_page
from signalbox.batches.tasks import run_batch_task
from signalbox.core.effects import Effect
from tests.unit.batches.batch_harness import ANNOUNCE, TASK, BatchHarness, Work, batch, broken_at, squares
from tests.unit.cost_table import row_cost


@pytest.fixture
def harness() -> BatchHarness:
    return BatchHarness()


def run(harness: BatchHarness, do: Work = lambda _: succeeded(None)) -> int:
    """Run all tasks, the oldest first; return how many tasks of units were enqueued at once at most."""
    most = 0

    def watched(effect: Effect) -> Any:
        nonlocal most
        most = max(most, 1 + sum(task.task == "paint" for task in harness.tasks))
        return do(effect)

    harness.run_tasks(watched)
    return most


def indexes(harness: BatchHarness) -> list[int]:
    return sorted(effect.context["unit"]["index"] for effect in harness.ran)


@pytest.mark.parametrize(("size", "concurrency"), [(1, 1), (7, 1), (7, 3), (130, 10), (130, 120), (7, 50)])
def test_no_more_units_are_enqueued_than_may_run(harness: BatchHarness, size: int, concurrency: int) -> None:
    harness.request("POST", "/", batch(size, concurrency=concurrency))
    assert run(harness) == min(size, concurrency)
    assert indexes(harness) == list(range(size))
    assert [completion["succeeded"] for completion in harness.completions] == [size]


def test_units_of_pages_of_any_size_follow_each_other(harness: BatchHarness) -> None:
    harness.request("POST", "/", {"id": "b", "task": TASK, "on_complete": ANNOUNCE, "concurrency": 4})
    for number, size in enumerate((1, 5, 2, 1, 7, 3)):
        add_page(harness.ports, "b", PageRequest(number, squares(size)))
        if number % 2:
            assert run(harness) <= 4  # all loaded units end before the next page, whose expansion continues the chains
    lifecycle.seal(harness.ports, "b", SealRequest(6))
    assert run(harness) <= 4
    assert indexes(harness) == list(range(19))
    assert len(harness.completions) == 1


def test_a_failed_unit_is_followed_too(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(5, concurrency=1))
    run(harness, broken_at(0, 3))
    assert [(each["succeeded"], each["failed"]) for each in harness.completions] == [(3, 2)]


@pytest.mark.parametrize("times", [1, 2])
def test_a_unit_whose_task_was_purged_is_completed_from_outside_and_its_chain_continues(
    harness: BatchHarness, times: int
) -> None:
    harness.request("POST", "/", batch(7, concurrency=2))
    [expand] = [effect for effect in harness.tasks if effect.task == "expand"]
    run_batch_task(harness.ports, expand.task, expand.payload)
    [purged] = [effect for effect in harness.tasks if effect.context.get("unit", {}).get("index") == 1]
    harness.tasks.remove(purged)
    run(harness)
    assert indexes(harness) == [0, 2, 4, 6]
    for _ in range(times):
        units.complete_by_index(harness.ports, "b", 1, failed("purged"))
    assert run(harness) == 1
    assert [(each["succeeded"], each["failed"]) for each in harness.completions] == [(6, 1)]
    harness.request("POST", "/b/retry", {})
    run(harness)
    assert indexes(harness) == list(range(7))


@pytest.mark.parametrize("completed", [[0], [2], [4], [6], [4, 2, 0], [2, 3, 4, 5]])
def test_units_that_are_completed_from_outside_do_not_run_and_no_more_run_at_once(
    harness: BatchHarness, completed: list[int]
) -> None:
    harness.request("POST", "/", batch(9, concurrency=2))
    [expand] = [effect for effect in harness.tasks if effect.task == "expand"]
    run_batch_task(harness.ports, expand.task, expand.payload)
    for index in completed:
        units.complete_by_index(harness.ports, "b", index, succeeded("outside"))
    under_way: list[int] = []

    def run_one(_: Effect) -> UnitOutcome:
        under_way.append(sum(map(waits(harness), harness.tasks)))
        return succeeded(None)

    harness.run_tasks(run_one)
    assert max(under_way) <= 1, "one runs, and one more is enqueued without an outcome"
    assert indexes(harness) == sorted(set(range(9)) - set(completed))
    assert [each["succeeded"] for each in harness.completions] == [9]


def waits(harness: BatchHarness) -> Callable[[Effect], bool]:
    """Return whether a task is of a unit without an outcome."""

    def of_unit(effect: Effect) -> bool:
        return "unit" in effect.context and not units._has_outcome(
            harness.ports, PlacedUnit.from_record(effect.context["unit"])
        )

    return of_unit


def test_a_delivery_that_comes_when_the_names_after_it_are_free_runs_nothing_again(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(7, concurrency=2))
    run(harness)
    first = next(effect for effect in harness.ran if effect.context["unit"]["index"] == 0)
    harness.ran.clear()
    harness.queue.names.clear()  # hours later
    assert units.need_not_run(harness.ports, PlacedUnit.from_record(first.context["unit"]), is_repeated=True)
    run(harness)
    assert indexes(harness) == []


def test_retries_of_all_that_failed_run_as_few_at_once(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(110, concurrency=3))
    run(harness, lambda _: failed("dry brush"))
    harness.ran.clear()
    harness.request("POST", "/b/retry", {})
    assert run(harness) == 3
    assert indexes(harness) == list(range(110))
    assert harness.request("GET", "/b/units?state=failed")[1] == {"units": []}


def test_retries_of_named_units_run_as_few_at_once_and_what_succeeded_is_left_out(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(20, concurrency=2))
    run(harness, broken_at(1, 2, 3, 4, 5, 6, 7, 19))
    harness.ran.clear()
    harness.request("POST", "/b/retry", {"units": [0, 1, 3, 5, 7, 19, 400]})
    assert run(harness) <= 2
    assert indexes(harness) == [1, 3, 5, 7, 19]


def test_what_fails_again_is_not_retried_for_the_same_call(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(9, concurrency=2))
    run(harness, lambda _: failed("dry brush"))
    harness.ran.clear()
    harness.request("POST", "/b/retry", {})
    run(harness, lambda _: failed("no brush"))
    assert indexes(harness) == list(range(9))


@pytest.mark.parametrize("limit", [None, 2])
def test_a_retry_that_is_repeated_under_its_key_does_not_run_units_that_failed_again(
    harness: BatchHarness, limit: int | None
) -> None:
    def ran_by(key: str, **body: Any) -> list[int]:
        harness.ran.clear()
        assert harness.request("POST", "/b/retry", body, headers={"Idempotency-Key": key})[0] == 202
        run(harness, lambda _: failed("no brush"))
        return indexes(harness)

    harness.request("POST", "/", batch(5, concurrency=limit))
    run(harness, lambda _: failed("dry brush"))
    assert ran_by("a") == list(range(5))
    assert ran_by("a") == []
    assert ran_by("a", units=[1, 4]) == [1, 4]
    assert ran_by("a", units=[4, 1]) == []
    assert ran_by("b") == list(range(5))


def test_a_repeated_retry_of_which_a_part_was_enqueued_reaches_every_unit(harness: BatchHarness) -> None:
    key = {"Idempotency-Key": "a"}
    harness.request("POST", "/", batch(9, concurrency=9))
    run(harness, lambda _: failed("dry brush"))
    harness.ran.clear()
    harness.request("POST", "/b/retry", {}, headers=key)
    del harness.tasks[2:]  # an answer of the queue was lost, and the caller repeats the call
    for name in [name for name in harness.queue.names if name not in {effect.name for effect in harness.tasks}]:
        harness.queue.names.discard(name)
    run(harness)
    harness.request("POST", "/b/retry", {}, headers=key)
    run(harness)
    assert harness.request("GET", "/b/units?state=failed")[1] == {"units": []}


@pytest.mark.parametrize("chains", [1, 2, 3, 7, 16, 1_000])
def test_the_ranges_of_retries_hold_every_unit_once(chains: int) -> None:
    ranges = chains_of_all(Retries("call", 0, {}), "i", chains)
    ids = [BatchRun("b", "i").unit_id(index) for index in (*range(300), 799_999)]
    held = Counter(id_ for id_ in ids for one in ranges if one.after < id_ <= one.until)
    assert held == Counter(ids)


@pytest.mark.parametrize("limit", [None, 2])
def test_a_retry_may_change_arguments(harness: BatchHarness, limit: int | None) -> None:
    harness.request("POST", "/", batch(3, concurrency=limit))
    run(harness, broken_at(0, 2))
    harness.ran.clear()
    assert harness.request("POST", "/b/retry", {"units": [2, 0], "payload": {"color": "blue"}})[0] == 202
    run(harness)
    assert [effect.payload for effect in harness.ran] == [{"color": "blue", "square": n} for n in (0, 2)]
    harness.request("POST", "/b/retry", {"payload": {"color": "green"}})
    assert run(harness) == 0


def test_units_go_through_the_queue_of_their_task(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(3, task=TASK | {"queue": "slow"}))
    run(harness)
    assert {effect.queue for effect in harness.ran} == {"slow"}


def test_units_completed_from_outside_have_no_limit() -> None:
    with pytest.raises(BadBatch):
        BatchSpec(units=[1], concurrency=2)


def test_a_limit_is_part_of_what_a_repeat_must_repeat(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1))
    assert harness.request("POST", "/", batch(1))[0] == 200
    assert harness.request("POST", "/", batch(1, concurrency=1))[0] == 409


# --- costs ---


def test_a_unit_that_another_waits_for_costs_two_round_trips_and_a_read_more(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(100, concurrency=1))
    run_batch_task(harness.ports, "expand", harness.tasks.pop(0).payload)
    [unit] = [PlacedUnit.from_record(task.context["unit"]) for task in harness.tasks if task.task == "paint"]
    with measure() as cost:
        units.complete_unit(harness.ports, unit, succeeded(None))
    assert cost == row_cost("batches", "unit_end", "unit_waited")


def test_expanding_a_page_with_a_limit_reads_the_units_before(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(100, concurrency=10))
    with measure() as cost:
        run_batch_task(harness.ports, "expand", harness.tasks[0].payload)
    assert cost == Cost(reads=91, tasks=10, round_trips=3)


def test_a_batch_with_a_limit_costs_two_reads_a_unit_more_and_no_task() -> None:
    free, limited = whole(None), whole(10)
    assert limited.reads - free.reads == row_cost("batches", "limited").reads * 200
    assert (limited.writes, limited.deletes, limited.tasks) == (free.writes, free.deletes, free.tasks)


def whole(limit: int | None) -> Cost:
    """Return the cost of a batch of 200 units."""
    harness = BatchHarness()
    with measure() as cost:
        population.populate(harness.ports, "b", BatchSpec.from_request(batch(200, concurrency=limit)))
        harness.run_tasks()
    assert len(harness.completions) == 1
    return cost
