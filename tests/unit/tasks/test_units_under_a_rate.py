"""Units of a batch that take permits of a rate: `batch.populate(…, rate="openai")`."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from signalbox import Function, Problem, SubBatch, Unit, batch, rate, sub_batch
from signalbox.adapters import runtime
from signalbox.adapters.cost_meter import Cost, measure
from signalbox.batches.api import forget_liveness
from signalbox.batches.problems import BadBatch
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import population
from signalbox.batches.tasks import run_batch_task
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect
from signalbox.rates import service
from signalbox.rates import tasks as rates_tasks
from signalbox.rates.model import RateSettings, waits_of
from signalbox.rates.requests import WAIT_IDS
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.contexts import parsed
from signalbox.tasks.service import group_runs, runs
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from tests.unit.batches.batch_harness import BatchHarness
from tests.unit.cost_table import FIGURES, row_cost

RAN: list[tuple[int, float]] = []
DOES: dict[int, Any] = {}


@pytest.fixture
def shop(harness: Harness) -> Any:
    """A shop that asks once a second, two at once at first; `DOES` is what the code of a question does."""
    RAN.clear()
    DOES.clear()
    app = Function("shop")
    began = harness.clock.now

    @app.task(attempts_max=2)
    def ask(unit: Unit, n: int, tokens: int = 1) -> Any:
        RAN.append((n, (harness.clock.now - began) / timedelta(seconds=1)))
        return DOES[n]() if n in DOES else n

    harness.add(app)
    rate("openai").ensure(per_minute=60, burst=2)

    def questions(count: int, **how: Any) -> None:
        calls = [ask.call(n=n) for n in range(count)]
        batch("b").populate(calls, **{"rate": "openai"} | how)

    return SimpleNamespace(questions=questions, ask=ask)


def units() -> dict[int, Any]:
    return {unit["index"]: unit.get("result", unit.get("error")) for unit in batch("b").results()}


def waiting() -> int:
    view = service.get(runtime.ports(), "openai")
    return view.waiting or 0


def fail(error: Exception) -> Any:
    def code() -> object:
        raise error

    return code


def deliver_first(harness: Harness) -> list[Effect]:
    """Deliver the units' own tasks, which wait, and return them."""
    for kit in [task for task in harness.tasks if task.task in ("expand", "check")]:
        harness.deliver_task(kit)
    tasks = [task for task in harness.tasks if task.task == "ask"]
    for task in tasks:
        harness.deliver_task(task)
    return tasks


def granted(harness: Harness) -> list[Effect]:
    """Run admit runs only, and return the units' tasks that they enqueued."""
    harness.advance(1)
    for task in [task for task in harness.tasks if task.task == "rate_admit"]:
        harness.deliver_task(task)
    return [task for task in harness.tasks if task.task == "ask"]


def test_units_start_at_the_rate_and_complete_when_their_tasks_do(harness: Harness, shop: Any) -> None:
    shop.questions(6)
    harness.run()
    times = sorted(at for _, at in RAN)
    assert sorted(n for n, _ in RAN) == list(range(6))
    assert times[-1] - times[0] >= 3.9
    assert units() == {n: n for n in range(6)}
    assert batch("b").status()["state"] == "completed"


def test_a_unit_takes_its_weight_which_an_argument_may_have(harness: Harness, shop: Any) -> None:
    calls = [shop.ask.call(n=n, tokens=tokens) for n, tokens in enumerate((2, 1, 2))]
    batch("b").populate(calls, rate="openai", weight="tokens")
    harness.run()
    times = sorted(at for _, at in RAN)
    assert times[-1] - times[0] >= 2.9
    assert len(units()) == 3


@pytest.mark.parametrize(
    ("how", "field"),
    [
        ({"semaphore": "printers"}, "rate"),
        ({"weight": 0}, "weight"),
        ({"weight": 1.5}, "weight"),
        ({"weight": "n"}, "units[0].n"),
        ({"weight": "words"}, "units[0].words"),
        ({"rate": "", "weight": 2}, "weight"),
        ({"rate": "a/b"}, "rate"),
    ],
)
def test_what_cannot_be_is_refused(harness: Harness, shop: Any, how: dict[str, Any], field: str) -> None:
    with pytest.raises(BadBatch) as raised:
        shop.questions(1, **how)
    assert raised.value.field == field


def test_a_rate_needs_a_task() -> None:
    with pytest.raises(BadBatch, match="`rate` needs a `task`"):
        BatchSpec(units=[1], rate="openai")


def test_a_unit_that_is_delivered_twice_waits_once(harness: Harness, shop: Any) -> None:
    shop.questions(3)
    for task in deliver_first(harness):
        harness.deliver_task(task)
    assert waiting() == 3
    harness.run()
    assert sorted(n for n, _ in RAN) == [0, 1, 2]


def test_a_grant_runs_the_unit_and_a_late_repeat_of_its_own_task_does_not(harness: Harness, shop: Any) -> None:
    shop.questions(1)
    [own] = deliver_first(harness)
    [_] = granted(harness)
    harness.advance(5)
    harness.deliver_task(own)
    assert RAN == []
    harness.run()
    harness.deliver_task(own)
    assert [n for n, _ in RAN] == [0]
    assert units() == {0: 0}


def test_a_lost_task_of_a_grant_is_enqueued_again_by_the_units_own(harness: Harness, shop: Any) -> None:
    shop.questions(1)
    [own] = deliver_first(harness)
    [lost] = granted(harness)
    harness.tasks.remove(lost)
    harness.queue.names.remove(lost.name)
    harness.advance(5)
    harness.deliver_task(own)
    assert [task.name for task in harness.tasks if task.task == "ask"] == [lost.name]
    harness.run()
    assert units() == {0: 0}


def test_a_unit_that_raises_runs_again_under_its_permits(harness: Harness, shop: Any) -> None:
    DOES[0] = fail(RuntimeError("timeout"))
    shop.questions(1)
    harness.run(raise_errors=False)
    assert [n for n, _ in RAN] == [0, 0]
    assert "Gave up after 2 attempts" in units()[0]
    assert len(harness.ids(waits_of("openai"))) == 1


def test_a_failed_unit_waits_again_when_it_is_retried(harness: Harness, shop: Any) -> None:
    DOES[1] = fail(Problem("no answer"))
    shop.questions(3)
    harness.run()
    assert units()[1] == "no answer"
    DOES.clear()
    assert harness.post("batches/b/retry", json={}).status == 202
    harness.run()
    assert units() == {n: n for n in range(3)}
    assert len(harness.ids(waits_of("openai"))) == 4


def test_without_the_rate_units_fail_and_say_so(harness: Harness, shop: Any) -> None:
    shop.questions(2, rate="claude")
    harness.run()
    assert all("Rate 'claude' does not exist" in error for error in units().values())


def test_units_of_a_deleted_rate_fail(harness: Harness, shop: Any) -> None:
    shop.questions(5)
    deliver_first(harness)
    service.delete(runtime.ports(), "openai")
    harness.run()
    assert RAN == []
    assert len(units()) == 5
    assert all("does not exist" in error for error in units().values())


def test_units_of_a_rate_that_is_created_again_wait_for_the_new_one(harness: Harness, shop: Any) -> None:
    shop.questions(5)
    deliver_first(harness)
    service.delete(runtime.ports(), "openai")
    rate("openai").ensure(per_minute=600, burst=1)
    harness.run()
    assert units() == {n: n for n in range(5)}
    assert len(RAN) == 5


def test_a_wait_that_is_cancelled_fails_its_unit(harness: Harness, shop: Any) -> None:
    shop.questions(4)
    last = deliver_first(harness)[-1]
    assert rate("openai").cancel(WAIT_IDS.derived(last.name))
    harness.run()
    assert "was cancelled" in units()[3]
    assert len(RAN) == 3


def test_the_waits_of_a_cancelled_batch_leave_the_queue(harness: Harness, shop: Any) -> None:
    shop.questions(200)
    deliver_first(harness)
    assert waiting() == 200
    forget_liveness()
    batch("b").cancel()
    harness.travel(2)
    assert waiting() == 0
    rate("openai").wait(shop.ask.call(n=7))
    harness.travel(30)
    assert len(RAN) <= 4


def test_waits_behind_those_of_a_cancelled_batch_are_granted_as_soon_as_their_own_permits_are_there(
    harness: Harness, shop: Any
) -> None:
    rate("openai").ensure(per_minute=6, burst=2)
    assert rate("openai").acquire(weight=2)
    shop.questions(1, weight=2)
    deliver_first(harness)
    rate("openai").wait(shop.ask.call(n=7))
    harness.travel(1)
    assert waiting() == 2
    forget_liveness()
    batch("b").cancel()
    harness.travel(11)  # a permit comes back in 10 seconds, two in 20
    assert waiting() == 0


def test_a_grant_answers_a_repeat_although_the_rate_was_deleted(harness: Harness, shop: Any) -> None:
    rate("openai").wait(Call("shop", "ask", {"n": 1}), id="w")
    harness.travel(2)
    service.delete(runtime.ports(), "openai")
    assert rate("openai").wait(Call("shop", "ask", {"n": 1}), id="w") == "w"


def test_sub_batches_take_permits_too(harness: Harness, shop: Any) -> None:
    def parts() -> SubBatch:
        return sub_batch([shop.ask.call(n=n) for n in (10, 11)], rate="openai")

    DOES[0] = parts
    shop.questions(1)
    harness.run()
    assert sorted(n for n, _ in RAN) == [0, 10, 11]
    assert batch("b").status()["state"] == "completed"


def test_a_unit_with_a_rate_costs_what_the_table_says(harness: Harness) -> None:
    plain, rated = total_of(""), total_of("openai")
    assert Cost(**{name: getattr(rated, name) - getattr(plain, name) for name in FIGURES}) == row_cost(
        "batches", "rated"
    )


def test_a_group_with_a_rate_costs_what_the_table_says(harness: Harness) -> None:
    plain, rated = total_of("", per_task=2), total_of("openai", per_task=2)
    assert Cost(**{name: getattr(rated, name) - getattr(plain, name) for name in FIGURES}) == row_cost(
        "batches", "rated_group"
    )


# --- units that share a task ---


def permits_taken(harness: Harness) -> list[int]:
    """Return how many permits each task has taken, the fewest first."""
    waits = [harness.record(f"{waits_of('openai')}/{id_}") for id_ in harness.ids(waits_of("openai"))]
    return sorted(wait["weight"] for wait in waits if wait["state"] == "granted")


def test_a_task_of_several_units_takes_the_permits_of_all_of_them_and_at_most_the_burst(
    harness: Harness, shop: Any
) -> None:
    rate("openai").ensure(per_minute=60, burst=8)
    calls = [shop.ask.call(n=n, tokens=tokens) for n, tokens in enumerate((1, 2, 5, 1, 3, 4))]  # groups 0 2 4, 1 3 5
    batch("b").populate(calls, rate="openai", weight="tokens", per_task=3)
    harness.run()
    assert permits_taken(harness) == [7, 8]
    assert units() == {n: n for n in range(6)}
    at_once = {at: sorted(n for n, ran_at in RAN if ran_at == at) for _, at in RAN}
    assert sorted(at_once.values()) == [[0, 2, 4], [1, 3, 5]]


def test_a_task_of_several_units_waits_once_however_often_it_is_delivered(harness: Harness, shop: Any) -> None:
    shop.questions(4, per_task=2)
    for task in deliver_first(harness):
        harness.deliver_task(task)
        harness.deliver_task(task)
    assert waiting() == 2
    harness.run()
    assert sorted(n for n, _ in RAN) == list(range(4))
    assert permits_taken(harness) == [2, 2]


def test_a_unit_of_a_task_that_raises_runs_again_with_the_permits_of_the_task(harness: Harness, shop: Any) -> None:
    DOES[0] = fail(RuntimeError("timeout"))
    shop.questions(2, per_task=2)
    harness.run(raise_errors=False)
    assert "Gave up after 2 attempts" in units()[0]
    assert permits_taken(harness) == [2]


def test_a_failed_unit_of_a_task_waits_alone_when_it_is_retried(harness: Harness, shop: Any) -> None:
    DOES[1] = fail(Problem("no answer"))
    shop.questions(2, per_task=2)
    harness.run()
    DOES.clear()
    assert harness.post("batches/b/retry", json={}).status == 202
    harness.run()
    assert units() == {0: 0, 1: 1}
    assert permits_taken(harness) == [1, 2]


def test_all_units_of_a_task_fail_if_its_wait_does(harness: Harness, shop: Any) -> None:
    shop.questions(4, per_task=2, rate="claude")
    harness.run()
    assert all("Rate 'claude' does not exist" in error for error in units().values())
    assert len(units()) == 4


def test_all_units_of_a_task_fail_if_its_wait_is_cancelled(harness: Harness, shop: Any) -> None:
    shop.questions(4, per_task=2)
    deliver_first(harness)
    assert rate("openai").cancel(harness.ids(waits_of("openai"))[0])
    harness.run()
    assert sorted("was cancelled" in str(found) for found in units().values()) == [False, False, True, True]
    assert len(RAN) == 2


def test_tasks_of_units_of_a_rate_that_is_created_again_wait_for_the_new_one(harness: Harness, shop: Any) -> None:
    shop.questions(4, per_task=2)
    deliver_first(harness)
    service.delete(runtime.ports(), "openai")
    rate("openai").ensure(per_minute=600, burst=1)
    harness.run()
    assert units() == {n: n for n in range(4)}
    assert permits_taken(harness) == [1, 1]


def total_of(name: str, per_task: int | None = None) -> Cost:
    """Return the cost of the deliveries of one unit or group; its admit run is its own, which many may share."""
    world = BatchHarness()
    service.put(world.ports, "openai", RateSettings(60, 2))
    units = [{"n": 1}, {"n": 2}] * (per_task or 1)
    spec = BatchSpec(units=units, task=Call("painter", "paint", {}), sealed=True, rate=name, per_task=per_task)
    population.populate(world.ports, "b", spec)
    run_batch_task(world.ports, "expand", world.tasks.pop(0).payload)
    world.tasks.remove(next(task for task in world.tasks if task.task == "paint"))
    with measure() as cost:
        while tasks := [task for task in world.tasks if task.task in ("paint", "rate_admit")]:
            world.tasks.remove(tasks[0])
            if tasks[0].task == "rate_admit":
                world.clock.advance(1)
                rates_tasks.TASKS["rate_admit"](world.ports, tasks[0].payload)
                continue
            what = tasks[0].function, tasks[0].task, tasks[0].payload, tasks[0].queue
            delivered: Any = parsed(Delivered(tasks[0].name, tasks[0].context, 0, 0, *what))
            own = world.ports, delivered, RetryLimits(2), lambda _: True, lambda *_: None
            if per_task:
                group_runs.run_group(*own, group_runs.GroupTime(lambda: False, lambda: lambda: False))
            else:
                runs.run(*own)
    return cost
