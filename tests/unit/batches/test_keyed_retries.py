"""Retries of a batch under `Idempotency-Key`s, in which a chain meets a unit that another call retries."""

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from signalbox import Function, Problem, SubBatch, Unit, batch, rate, semaphore, sub_batch
from signalbox.adapters import runtime
from signalbox.batches.machine.units import chain_from
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import PlacedUnit, Retries
from signalbox.batches.model.units import failed as failed_outcome
from signalbox.batches.service import lifecycle, units
from signalbox.batches.tasks import run_batch_task
from signalbox.core.effects import Effect
from signalbox.rates import service as rates
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from tests.unit.batches.batch_harness import BatchHarness, broken_at
from tests.unit.batches.batch_harness import batch as body

HOUR = 3_600
DOES: dict[int, Callable[[], Any]] = {}


def fail() -> None:
    raise Problem("dry brush")


@pytest.fixture
def shop(harness: Harness) -> Any:
    """A shop whose units call their function in `DOES`, or return their number. `ran` lists the starts."""
    DOES.clear()
    app, ran = Function("shop"), list[tuple[int, int]]()

    @app.task
    def ask(unit: Unit, n: int) -> Any:
        ran.append((n, unit.attempt))
        return DOES[n]() if n in DOES else n

    harness.add(app)

    def fail_all(count: int, **how: Any) -> None:
        DOES.update(dict.fromkeys(range(count), fail))
        batch("b").populate([ask.call(n=n) for n in range(count)], **{"concurrency": 1} | how)
        harness.run()
        DOES.clear()
        ran.clear()

    return SimpleNamespace(ask=ask, ran=ran, fail_all=fail_all)


def retry(harness: Harness, key: str, **body: Any) -> None:
    assert harness.post("batches/b/retry", json=body, headers={"Idempotency-Key": key}).status == 202


def failed() -> list[int]:
    return [unit["index"] for unit in batch("b").results() if "error" in unit]


def incarnation(harness: BatchHarness) -> str:
    [header] = harness.ports.store.read("batches/b")
    return str((header.data or {})["incarnation"])


def deliver(harness: BatchHarness, kit: Effect) -> None:
    run_batch_task(harness.ports, kit.task, kit.payload)


def looks(harness: Harness) -> list[Effect]:
    return [task for task in harness.tasks if task.task == "retry" and task.not_before]


def hours_pass(harness: Harness, hours: int) -> None:
    """Let hours pass. After each, the names of ended tasks are free again."""
    for _ in range(hours):
        harness.travel(HOUR)
        harness.queue.names.intersection_update(task.name for task in harness.tasks)


# --- a unit that another call retries, for hours ---


def test_a_call_that_meets_a_unit_which_waits_for_a_rate_for_hours_retries_the_others(
    harness: Harness, shop: Any
) -> None:
    rate("r").ensure(per_minute=600, burst=9)
    shop.fail_all(3, rate="r")
    rates.pause(runtime.ports(), "r")
    retry(harness, "k", units=[0])
    harness.travel(1)
    retry(harness, "l")
    hours_pass(harness, 5)
    rates.resume(runtime.ports(), "r")
    harness.travel(2 * HOUR)
    assert (failed(), sorted(shop.ran)) == ([], [(0, 1), (1, 1), (2, 1)])


def test_a_call_that_is_made_hours_after_the_unit_began_to_wait_retries_the_others(harness: Harness, shop: Any) -> None:
    rate("r").ensure(per_minute=600, burst=9)
    shop.fail_all(3, rate="r")
    rates.pause(runtime.ports(), "r")
    retry(harness, "k", units=[0])
    hours_pass(harness, 5)
    retry(harness, "l")
    hours_pass(harness, 5)
    rates.resume(runtime.ports(), "r")
    harness.travel(2 * HOUR)
    assert (failed(), sorted(shop.ran)) == ([], [(0, 1), (1, 1), (2, 1)])


def test_a_call_that_meets_a_unit_which_waits_for_a_permit_for_hours_retries_the_others(
    harness: Harness, shop: Any
) -> None:
    semaphore("s").ensure(permits=1, lease_seconds=24 * HOUR)
    shop.fail_all(3, semaphore="s")
    lease = semaphore("s").acquire()
    assert lease
    retry(harness, "k", units=[0])
    hours_pass(harness, 5)
    retry(harness, "l")
    hours_pass(harness, 5)
    semaphore("s").signal(lease)
    harness.travel(2 * HOUR)
    assert (failed(), sorted(shop.ran)) == ([], [(0, 1), (1, 1), (2, 1)])


def test_a_call_that_meets_a_unit_whose_sub_batch_runs_for_hours_retries_the_others(
    harness: Harness, shop: Any
) -> None:
    def parts() -> SubBatch:
        return sub_batch([shop.ask.call(n=n) for n in (10, 11)], rate="r")

    rate("r").ensure(per_minute=600, burst=9)
    shop.fail_all(3)
    DOES[0] = parts
    rates.pause(runtime.ports(), "r")
    retry(harness, "k", units=[0])
    hours_pass(harness, 5)
    retry(harness, "l")
    hours_pass(harness, 5)
    rates.resume(runtime.ports(), "r")
    harness.travel(2 * HOUR)
    assert (failed(), sorted(shop.ran)) == ([], [(0, 1), (1, 1), (2, 1), (10, 0), (11, 0)])


# --- looks at the unit ---


@pytest.fixture
def met(harness: Harness, shop: Any) -> Effect:
    """The first look of the call `l`, whose chain has met a unit that the call `k` retries."""
    rate("r").ensure(per_minute=600, burst=9)
    shop.fail_all(3, rate="r")
    rates.pause(runtime.ports(), "r")
    retry(harness, "k", units=[0])
    harness.travel(1)
    of_k = {look.name for look in looks(harness)}
    retry(harness, "l")
    harness.travel(1)
    [look] = [look for look in looks(harness) if look.name not in of_k]
    return look


def test_a_look_comes_after_a_minute(harness: Harness, met: Effect) -> None:
    assert met.not_before
    assert 58 <= (met.not_before - harness.clock.now) / timedelta(seconds=1) <= 60


def test_a_day_of_waiting_costs_few_looks(harness: Harness, shop: Any, met: Effect) -> None:
    names, create = set[str](), harness.queue.create

    def watched(effects: Sequence[Effect]) -> Collection[str]:
        names.update(effect.name for effect in effects if effect.task == "retry")
        return create(effects)

    harness.queue.create = watched  # type: ignore[method-assign]  # the queue is watched
    hours_pass(harness, 24)
    assert 2 * 24 <= len(names) <= 2 * 24 * 8
    rates.resume(runtime.ports(), "r")
    harness.travel(2 * HOUR)
    assert failed() == []


def test_nothing_looks_at_the_units_of_a_cancelled_batch() -> None:
    harness = BatchHarness()
    harness.request("POST", "/", body(2, concurrency=1, sealed=False))
    harness.run_tasks(broken_at(0, 1))
    for call in ({"units": [0]}, {}):  # the second call finds the task of the first one's retry
        harness.request("POST", "/b/retry", call)
        deliver(harness, harness.tasks.pop())
    look = harness.tasks.pop()
    deliver(harness, look)
    look = harness.tasks.pop()
    assert look.not_before
    lifecycle.cancel(harness.ports, "b")
    harness.tasks.clear()
    deliver(harness, look)
    assert harness.tasks == []


@pytest.mark.parametrize("index", [0, 1, 15, 16, 17, 255, 799_999])
def test_a_chain_from_a_unit_contains_it_and_no_unit_before_it(index: int) -> None:
    run = BatchRun("b", "i")
    unit = PlacedUnit("b", "i", index, 1, 0, 0, 1, Retries("l", 0, {}, after=run.unit_id(index), until="i-ffffffff"))
    after, ids = chain_from(unit).after, [run.unit_id(other) for other in (*range(300), 799_999)]
    assert next(id_ for id_ in sorted(ids) if id_ > after) == run.unit_id(index)


def test_a_chain_of_named_units_from_a_unit_begins_with_it() -> None:
    unit = PlacedUnit("b", "i", 7, 1, 0, 0, 1, Retries("l", 0, {}, rest=(9, 4)))
    assert chain_from(unit).rest == (7, 9, 4)


# --- other calls ---


def test_a_unit_that_failed_before_the_call_is_retried_although_its_chain_came_to_it_later() -> None:
    harness = BatchHarness()
    harness.request("POST", "/", body(3, concurrency=1))
    deliver(harness, harness.tasks.pop(0))
    units.complete_by_index(harness.ports, "b", 2, failed_outcome("by hand"))
    harness.request("POST", "/b/retry", {})
    called = harness.tasks.pop()
    harness.clock.advance(1)
    harness.run_tasks()
    deliver(harness, called)
    harness.run_tasks()
    assert harness.request("GET", "/b/units?state=failed")[1] == {"units": []}
