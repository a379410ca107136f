"""A unit's sub-batch: the first that is sealed is kept, whatever a redelivery of the unit's task returns."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from signalbox import Function, SubBatch, critical_section, semaphore, sub_batch
from signalbox import batch as named_batch
from signalbox.adapters.cost_meter import Cost, measure
from signalbox.batches.limits import LIMITS
from signalbox.batches.model.units import PlacedUnit, failed
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import population, units
from signalbox.batches.sweep import sweep
from signalbox.batches.tasks import run_batch_task
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect
from signalbox.core.ports import Query
from signalbox.core.problems import BadValue, Unavailable
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.contexts import parsed
from signalbox.tasks.service import runs
from signalbox.testing import Harness
from tests.unit.batches.batch_harness import TASK, BatchHarness, batch, squares


class Dies(Exception):
    """Stands for a process that is killed."""


@pytest.fixture
def harness() -> BatchHarness:
    return BatchHarness()


@pytest.fixture
def unit_task(harness: BatchHarness) -> Effect:
    """Return the task of the one unit of the batch `b`; nothing else is enqueued."""
    harness.request("POST", "/", batch(1))
    for effect in list(harness.tasks):
        run_batch_task(harness.ports, effect.task, effect.payload)
    [task] = [effect for effect in harness.tasks if effect.task == "paint"]
    harness.tasks.clear()
    return task


def parts(count: int) -> BatchSpec:
    """Return a sub-batch of `count` units."""
    return BatchSpec(units=squares(count), task=Call.from_request(TASK, "task"), sealed=True)


def test_a_retry_in_a_chain_with_any_json_as_its_arguments_may_return_a_sub_batch(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1, concurrency=1))
    harness.run_tasks(lambda _: failed("dry brush"))
    arguments = {"pairs": [[1, 2]], "large": 2**64}
    assert harness.request("POST", "/b/retry", {"payload": arguments})[0] == 202
    while harness.tasks[-1].task != "paint":
        effect = harness.tasks.pop()
        run_batch_task(harness.ports, effect.task, effect.payload)
    retried = harness.tasks.pop()
    assert retried.payload == {"color": "red", "square": 0} | arguments
    assert deliver(harness, retried, parts(1))
    harness.run_tasks()
    assert harness.request("GET", "/b/units")[1]["units"][0]["state"] == "succeeded"


def deliver(harness: BatchHarness, task: Effect, returned: Any, retries: int = 0) -> bool:
    """Deliver the unit's task; return whether its code ran."""
    ran: list[Any] = []

    def code(_: object, __: object) -> Any:
        ran.append(returned)
        if isinstance(returned, Exception):
            raise returned
        return returned

    delivered = parsed(Delivered(task.name, task.context, retries=retries))
    runs.run(harness.ports, delivered, RetryLimits(3), lambda _: True, code)
    return bool(ran)


def result(harness: BatchHarness) -> Any:
    """Run what is enqueued; return the result of the one unit, or its error."""
    harness.run_tasks()
    [unit] = harness.request("GET", "/b/units")[1]["units"]
    return unit.get("result", unit.get("error"))


def reasons(harness: BatchHarness) -> list[str]:
    """Return why each sub-batch ended, sorted."""
    found = harness.store.query(Query("batches"))
    return sorted(one.data["reason"] for one in found if one.data and one.id != "b")


def dying_at(monkeypatch: pytest.MonkeyPatch, harness: BatchHarness, task: Effect, spec: BatchSpec, name: str) -> None:
    """Deliver the task to a process that dies where the operation calls `name`."""
    with monkeypatch.context() as dying:
        dying.setattr(f"signalbox.batches.service.population.{name}", raises_dies)
        with pytest.raises(Dies):
            deliver(harness, task, spec)


def raises_dies(*_: object) -> Iterator[None]:
    raise Dies


@pytest.mark.parametrize("returned", [parts(3), parts(0), "a result", BadValue("an error"), Unavailable("raised")])
def test_a_redelivered_unit_with_a_sub_batch_does_not_run(
    harness: BatchHarness, unit_task: Effect, returned: Any
) -> None:
    deliver(harness, unit_task, parts(2))
    assert not deliver(harness, unit_task, returned, retries=1)
    assert (result(harness)["size"], reasons(harness)) == (2, [""])


def test_the_first_sub_batch_of_two_concurrent_deliveries_is_kept(harness: BatchHarness, unit_task: Effect) -> None:
    deliver(harness, unit_task, parts(2))
    deliver(harness, unit_task, parts(3))
    assert (result(harness)["size"], reasons(harness)) == (2, [""])


def test_a_sub_batch_that_was_loaded_and_not_sealed_is_sealed_as_it_is(
    harness: BatchHarness, unit_task: Effect, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying_at(monkeypatch, harness, unit_task, parts(120), "seal")
    deliver(harness, unit_task, parts(3), retries=1)
    assert (result(harness)["size"], reasons(harness)) == (120, [""])


def test_a_sub_batch_that_was_not_loaded_is_replaced(
    harness: BatchHarness, unit_task: Effect, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying_at(monkeypatch, harness, unit_task, parts(120), "_load_first_pages")
    deliver(harness, unit_task, parts(3), retries=1)
    assert not deliver(harness, unit_task, parts(4), retries=2)
    assert (result(harness)["size"], reasons(harness)) == (3, ["", "replaced"])
    assert len(harness.completions) == 1


def test_the_end_of_a_sub_batch_that_replaced_another_is_enqueued_again(
    harness: BatchHarness, unit_task: Effect, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying_at(monkeypatch, harness, unit_task, parts(120), "_load_first_pages")
    deliver(harness, unit_task, parts(3), retries=1)
    while harness.tasks:
        task = harness.tasks.pop(0)
        if task.function == "batch_expand" and task.task != "child":
            run_batch_task(harness.ports, task.task, task.payload)
        elif "unit" in task.context:
            deliver(harness, task, None)
    harness.queue.names.clear()
    unit = unit_task.context["unit"]
    payload = {"batch": "b", "incarnation": unit["incarnation"], "page": 0}
    run_batch_task(harness.ports, "repeat", payload)
    assert result(harness)["size"] == 3


def test_a_slow_delivery_whose_sub_batch_was_replaced_ends_with_the_other(
    harness: BatchHarness, unit_task: Effect, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = population._load_first_pages

    def overtaken(*loaded: Any) -> None:
        monkeypatch.setattr(population, "_load_first_pages", load)
        deliver(harness, unit_task, parts(3), retries=1)
        load(*loaded)

    monkeypatch.setattr(population, "_load_first_pages", overtaken)
    deliver(harness, unit_task, parts(120))
    assert (result(harness)["size"], reasons(harness)) == (3, ["", "replaced"])


def test_a_redelivery_looks_for_its_outcome_and_its_sub_batch_in_one_round_trip(
    harness: BatchHarness, unit_task: Effect
) -> None:
    with measure() as cost:
        assert not units.resume_unit(harness.ports, PlacedUnit.from_record(unit_task.context["unit"]))
    assert cost == Cost(reads=3, round_trips=1)


@pytest.mark.parametrize("returned", ["a result", BadValue("an error"), Unavailable("raised")])
@pytest.mark.parametrize("loaded", [120, 0])
def test_a_loaded_sub_batch_is_sealed_whatever_the_next_delivery_would_return(
    harness: BatchHarness, unit_task: Effect, monkeypatch: pytest.MonkeyPatch, loaded: int, returned: Any
) -> None:
    dying_at(monkeypatch, harness, unit_task, parts(loaded), "seal")
    assert not deliver(harness, unit_task, returned, retries=1)
    assert (result(harness)["size"], reasons(harness)) == (loaded, [""])


def test_a_loaded_sub_batch_is_sealed_when_the_task_of_its_unit_is_lost(
    harness: BatchHarness, unit_task: Effect, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying_at(monkeypatch, harness, unit_task, parts(3), "seal")
    unit = unit_task.context["unit"]
    run_batch_task(harness.ports, "repeat", {"batch": "b", "incarnation": unit["incarnation"], "page": 0})
    assert unit_task.name not in [task.name for task in harness.tasks]
    assert (result(harness)["size"], reasons(harness)) == (3, [""])


@pytest.mark.parametrize("returned", ["a result", BadValue("an error")])
def test_a_sub_batch_that_was_not_loaded_ends_once_its_unit_has_another_outcome(
    harness: BatchHarness, unit_task: Effect, monkeypatch: pytest.MonkeyPatch, returned: Any
) -> None:
    dying_at(monkeypatch, harness, unit_task, parts(120), "_load_first_pages")
    harness.clock.advance(LIMITS.batch_idle_seconds + 1)
    sweep(harness.ports)
    assert reasons(harness) == [""]
    assert deliver(harness, unit_task, returned, retries=1)
    harness.clock.advance(LIMITS.batch_idle_seconds + 1)
    sweep(harness.ports)
    assert reasons(harness) == ["replaced"]
    assert result(harness) in ("a result", "an error")


def test_a_sub_batch_whose_creator_died_ends_with_its_cancelled_parent(
    harness: BatchHarness, unit_task: Effect, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.request("DELETE", "/b")
    harness.run_tasks()
    dying_at(monkeypatch, harness, unit_task, parts(2), "parent_is_live")
    harness.clock.advance(LIMITS.batch_idle_seconds + 1)
    sweep(harness.ports)
    assert reasons(harness) == ["parent"]


def test_a_slow_delivery_whose_unit_has_another_outcome_creates_no_further_sub_batch(
    harness: BatchHarness, unit_task: Effect, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = population._load_first_pages

    def overtaken(*loaded: Any) -> None:
        deliver(harness, unit_task, "a result", retries=1)
        harness.clock.advance(LIMITS.batch_idle_seconds + 1)
        sweep(harness.ports)
        load(*loaded)

    monkeypatch.setattr(population, "_load_first_pages", overtaken)
    deliver(harness, unit_task, parts(2))
    assert (result(harness), reasons(harness)) == ("a result", ["replaced"])


CALLERS: dict[str, Callable[[Any], Any]] = {
    "a task": lambda call: call.enqueue(),
    "a lease": lambda call: semaphore("s").wait(call),
    "a critical section": lambda call: critical_section("c").run(call),
    "the end of a batch": lambda call: named_batch("b").populate([], on_complete=call),
}


@pytest.mark.parametrize("caller", CALLERS)
def test_a_batch_that_a_task_returns_for_no_unit_is_a_failure(caller: str) -> None:
    app = Function("library")

    @app.task
    def scan_book() -> SubBatch:
        return sub_batch([scan_book.call()])

    with Harness() as project:
        project.add(app)
        semaphore("s").ensure(permits=1)
        CALLERS[caller](scan_book.call())
        project.run(raise_errors=False)
        [failure] = project.get("failures").json["failures"]
        assert "scan_book returned a batch, and was not called for a unit" in failure["error"]


def test_counts_of_a_batch_that_has_ended_are_those_of_its_end_when_its_units_are_retried() -> None:
    app, shelf = Function("library"), list[str]()

    @app.task
    def scan_book(book: str) -> str:
        if book not in shelf:
            raise BadValue("it is lent")
        return book

    with Harness() as project:
        project.add(app)
        named_batch("b").populate([scan_book.call(book="Emma")])
        project.run()
        shelf.append("Emma")
        project.post("batches/b/retry", json={})
        project.run()
        assert [unit["result"] for unit in named_batch("b").results("succeeded")] == ["Emma"]
        shown = project.get("batches/b").json
        assert (shown["state"], shown["succeeded"], shown["failed"]) == ("completed", 0, 1)
