"""Units of a batch that run under permits of a semaphore: `batch.populate(…, semaphore="printers")`."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from signalbox import Call, Completion, Function, Problem, SubBatch, Unit, batch, semaphore, sub_batch
from signalbox.adapters import runtime
from signalbox.adapters.cost_meter import Cost, measure
from signalbox.batches import api
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import population
from signalbox.batches.tasks import run_batch_task
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect
from signalbox.semaphores import sweep
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.service import settings, views, waits
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.machine.waits import next_wait, unit_wait
from signalbox.tasks.model.contexts import parsed
from signalbox.tasks.service import runs
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from tests.unit.batches.batch_harness import BatchHarness
from tests.unit.cost_table import FIGURES, row_cost
from tests.unit.functions.test_functions import _away

PERMITS = 2
RAN: list[int] = []
FREE: list[int] = []
ENDED: list[Completion] = []
DOES: dict[int, Callable[[], object]] = {}


@pytest.fixture
def shop(harness: Harness) -> Any:
    """A shop whose printers have two permits; `DOES` is what the code of a sheet does."""
    for log in (RAN, FREE, ENDED):
        log.clear()
    DOES.clear()
    app = Function("shop")

    @app.task(attempts_max=2)
    def print_sheet(unit: Unit, n: int) -> Any:
        RAN.append(n)
        FREE.append(free())
        return DOES[n]() if n in DOES else n

    @app.task
    def printed(completion: Completion) -> None:
        ENDED.append(completion)

    harness.add(app)
    semaphore("printers").ensure(permits=PERMITS, lease_seconds=60)

    def sheets(count: int, **how: Any) -> None:
        options: dict[str, Any] = {"semaphore": "printers", "on_complete": printed.call()} | how
        batch("b").populate([print_sheet.call(n=n) for n in range(count)], **options)

    return SimpleNamespace(sheets=sheets, sheet=print_sheet)


def free() -> int:
    view = views.get(runtime.ports(), "printers")
    return view.semaphore.free(view.now)


def units() -> dict[int, Any]:
    return {unit["index"]: unit.get("result", unit.get("error")) for unit in batch("b").results()}


def fail(error: Exception) -> Callable[[], object]:
    def code() -> object:
        raise error

    return code


def run_kit(harness: Harness) -> None:
    """Deliver the tasks of the kit, and none of a sheet."""
    while tasks := [task for task in harness.tasks if task.task != "print_sheet"]:
        harness.advance(5)
        harness.deliver_task(tasks[0])


def run_some(harness: Harness) -> None:
    """Run what is due before a lease of 60 seconds expires."""
    harness.travel(5)


def deliver(harness: Harness) -> Effect:
    """Deliver the oldest task of a sheet, and return it."""
    task = harness.take("print_sheet")
    harness.deliver_task(task)
    return task


def test_each_unit_runs_under_a_permit_and_completes_when_its_task_does(harness: Harness, shop: Any) -> None:
    shop.sheets(7)
    harness.run()
    assert sorted(RAN) == list(range(7))
    assert all(permits < PERMITS for permits in FREE)
    assert units() == {n: n for n in range(7)}
    assert [(end.state, end.succeeded) for end in ENDED] == [("completed", 7)]
    assert free() == PERMITS


def test_units_wait_while_another_task_holds_the_permits(harness: Harness, shop: Any) -> None:
    held = semaphore("printers").acquire(permits=2)
    shop.sheets(3)
    run_some(harness)
    assert RAN == []
    assert batch("b").status()["remaining"] == 3
    assert held is not None
    semaphore("printers").signal(held)
    harness.run()
    assert sorted(RAN) == [0, 1, 2]
    assert free() == PERMITS


def test_a_failed_unit_releases_its_permit_and_a_retry_waits_for_one_again(harness: Harness, shop: Any) -> None:
    DOES[1] = fail(Problem("no paper"))
    shop.sheets(3)
    harness.run()
    assert units()[1] == "no paper"
    assert free() == PERMITS
    DOES.clear()
    assert harness.post("batches/b/retry", json={}).status == 202
    harness.run()
    assert units() == {n: n for n in range(3)}
    assert len(ENDED) == 1
    assert free() == PERMITS


def test_a_unit_that_raises_every_time_is_given_up_and_releases_its_permit(harness: Harness, shop: Any) -> None:
    DOES[0] = fail(RuntimeError("jam"))
    shop.sheets(2)
    harness.run(raise_errors=False)
    assert RAN.count(0) == 2
    assert "Gave up after 2 attempts" in units()[0]
    assert free() == PERMITS
    assert harness.get("failures").json["failures"] == []


def test_a_unit_whose_lease_expires_at_every_attempt_is_given_up(harness: Harness, shop: Any) -> None:
    DOES[0] = fail(RuntimeError("jam"))
    shop.sheets(1)
    run_kit(harness)
    deliver(harness)
    for _ in range(6):
        if units():
            break
        task = deliver(harness)  # it raises, and is delivered again when its lease has expired
        harness.advance(120)
        harness.deliver_task(task)
        run_kit(harness)
    assert RAN.count(0) == 2
    assert "Gave up after 2 attempts" in units()[0]
    for message in ("lease kept for the retry", "lease lost, unit waits again"):
        lines = [values for text, values in harness.log.infos if text == message]
        assert [(line["batch"], line["index"]) for line in lines] == [("b", 0)] * 2


def test_units_that_wait_when_the_batch_is_cancelled_do_not_run(harness: Harness, shop: Any) -> None:
    held = semaphore("printers").acquire(permits=2)
    shop.sheets(3)
    run_some(harness)
    batch("b").cancel()
    assert held is not None
    semaphore("printers").signal(held)
    harness.travel(10)
    harness.run()
    assert RAN == []
    assert free() == PERMITS
    assert [end.state for end in ENDED] == ["cancelled"]


def test_a_unit_that_is_completed_from_outside_while_it_waits_does_not_run(harness: Harness, shop: Any) -> None:
    held = semaphore("printers").acquire(permits=2)
    shop.sheets(3)
    run_some(harness)
    assert harness.post("batch-complete/b/1", json={"result": "by hand"}).status == 200
    assert held is not None
    semaphore("printers").signal(held)
    harness.run()
    assert sorted(RAN) == [0, 2]
    assert units() == {0: 0, 1: "by hand", 2: 2}
    assert free() == PERMITS


def test_leases_and_waiters_name_the_unit(harness: Harness, shop: Any) -> None:
    shop.sheets(3)
    run_kit(harness)
    for task in [task for task in harness.tasks if task.task == "print_sheet"]:
        harness.deliver_task(task)  # it waits for a permit
    shown = harness.get("semaphores/printers").json
    named = [{name: one["task"][name] for name in ("batch", "unit")} for one in (*shown["leases"], *shown["waiters"])]
    assert named == [{"batch": "b", "unit": index} for index in range(3)]


def test_a_chain_waits_for_its_permits_too(harness: Harness, shop: Any) -> None:
    shop.sheets(7, concurrency=1)
    harness.run()
    assert list(range(7)) == RAN
    assert set(FREE) == {PERMITS - 1}
    assert len(ENDED) == 1


def test_a_unit_returns_a_sub_batch_under_permits_of_its_own(harness: Harness, shop: Any) -> None:
    def parts() -> SubBatch:
        return sub_batch([shop.sheet.call(n=n) for n in (10, 11, 12)], semaphore="printers")

    DOES[0] = parts
    shop.sheets(1)
    harness.run()
    assert sorted(RAN) == [0, 10, 11, 12]
    assert units()[0]["succeeded"] == 3
    assert free() == PERMITS


def test_a_batch_that_follows_has_its_own_semaphore(harness: Harness, shop: Any) -> None:
    shop.sheets(2, then=sub_batch([shop.sheet.call(n=5)], semaphore="printers"))
    harness.run()
    assert sorted(RAN) == [0, 1, 5]
    assert set(FREE) <= {0, 1}


def test_without_the_semaphore_the_units_fail_and_say_so(harness: Harness, shop: Any) -> None:
    shop.sheets(2, semaphore="plotters")
    harness.run()
    assert RAN == []
    assert set(units().values()) == {"Semaphore 'plotters' does not exist. Create it with `PUT`, or check its name."}
    semaphore("plotters").ensure(permits=1, lease_seconds=60)
    harness.post("batches/b/retry", json={})
    harness.run()
    assert sorted(RAN) == [0, 1]


def test_units_that_wait_when_the_semaphore_is_deleted_fail_and_say_so(harness: Harness, shop: Any) -> None:
    semaphore("printers").acquire(permits=2)
    shop.sheets(3)
    run_some(harness)
    assert harness.delete("semaphores/printers").status == 204
    harness.run()
    assert RAN == []
    assert set(units().values()) == {
        "The wait for a permit of the semaphore 'printers' was ended, because the semaphore was deleted."
    }
    assert [end.failed for end in ENDED] == [3]


def test_units_whose_semaphore_is_deleted_and_created_again_fail(harness: Harness, shop: Any) -> None:
    """An admit run of the new semaphore may find the waits of the old one before the clean-up does."""
    semaphore("printers").acquire(permits=2)
    shop.sheets(3)
    run_some(harness)
    assert harness.delete("semaphores/printers").status == 204
    clean_up = harness.take("clean")
    semaphore("printers").ensure(permits=PERMITS, lease_seconds=60)
    held = semaphore("printers").acquire(permits=2)
    assert held is not None
    batch("c").populate([shop.sheet.call(n=9)], semaphore="printers")
    run_some(harness)
    semaphore("printers").signal(held)
    harness.run()
    harness.deliver_task(clean_up)
    harness.run()
    assert RAN == [9]
    assert {text.rpartition("was ")[2] for text in units().values()} == {"deleted."}
    assert [end.failed for end in ENDED] == [3]
    assert free() == PERMITS


def test_a_unit_whose_wait_is_cancelled_fails(harness: Harness, shop: Any) -> None:
    semaphore("printers").acquire(permits=2)
    shop.sheets(1)
    run_some(harness)
    [waiter] = harness.get("semaphores/printers").json["waiters"]
    assert harness.delete(f"semaphore-wait/printers/{waiter['id']}").status == 200
    harness.run()
    assert units() == {0: "The wait for a permit of the semaphore 'printers' was cancelled."}


@pytest.mark.parametrize("ended", ["", "lease", "wait"])
def test_a_unit_whose_task_is_purged_after_its_claim_ends_when_its_first_task_comes_again(
    harness: Harness, shop: Any, ended: str
) -> None:
    """Its lease has expired, or an operator has ended it; or its wait was cancelled, and the task of that is lost."""
    DOES[0] = fail(RuntimeError("jam"))
    semaphore("printers").acquire(permits=2)
    shop.sheets(1)
    run_kit(harness)
    first = deliver(harness)
    if ended == "wait":
        [waiter] = harness.get("semaphores/printers").json["waiters"]
        assert harness.delete(f"semaphore-wait/printers/{waiter['id']}").status == 200
    else:
        harness.advance(700)
        harness.run_schedule("sweep")
        harness.advance(3)
        run_kit(harness)
        assert deliver(harness).context["lease"]
    DOES.clear()
    for lease in harness.get("semaphores/printers").json["leases"] if ended == "lease" else ():
        harness.post("semaphore-signal/printers", json={"lease": lease["id"]})
    harness.tasks.clear()
    harness.advance(86_400)
    harness.deliver_task(first)
    harness.run()
    failed = "The wait for a permit of printers was cancelled."
    assert units() == {0: failed if ended == "wait" else units()[0]}
    assert (units()[0] == failed) is (ended == "wait")
    assert free() == PERMITS


@pytest.mark.parametrize("claimed", [False, True])
def test_a_unit_whose_lease_is_ended_by_hand_waits_again(harness: Harness, shop: Any, claimed: bool) -> None:
    DOES[0] = fail(RuntimeError("jam"))
    shop.sheets(1)
    run_kit(harness)
    deliver(harness)
    task = harness.take("print_sheet")
    if claimed:
        harness.deliver_task(task)
    DOES.clear()
    [lease] = harness.get("semaphores/printers").json["leases"]
    assert harness.post("semaphore-signal/printers", json={"lease": lease["id"]}).json["released"]
    harness.deliver_task(task)
    harness.run()
    assert units() == {0: 0}
    assert len(RAN) == 1 + claimed
    assert free() == PERMITS


def test_a_second_delivery_waits_once_and_a_late_one_runs_nothing(harness: Harness, shop: Any) -> None:
    shop.sheets(1)
    run_kit(harness)
    first = deliver(harness)
    harness.deliver_task(first)
    granted = deliver(harness)
    harness.deliver_task(granted)
    harness.deliver_task(first)
    harness.run()
    assert RAN == [0]
    assert free() == PERMITS


@pytest.mark.parametrize(("granted", "is_live", "left"), [(False, False, 0), (False, True, 1), (True, False, 0)])
def test_a_repeated_delivery_that_does_not_run_its_unit_ends_the_wait_of_the_one_before(
    granted: bool, is_live: bool, left: int
) -> None:
    """That one died when its wait was created, alone, and the semaphore was not closed yet."""
    harness, task = one_unit("printers")
    delivered = delivery_of(task)
    if granted:
        runs.run(harness.ports, delivered, RetryLimits(2), lambda _: True, lambda *_: None)
        delivered = delivery_of(next(task for task in harness.tasks if "lease" in task.context))
    own = delivered.context.granted
    request = next_wait(delivered, own) if own else unit_wait(delivered)
    waits.combine(harness.ports, "printers", request)
    runs.run(harness.ports, replace(delivered, retries=1), RetryLimits(2), lambda _: is_live, lambda *_: None)
    assert len(views.get(harness.ports, "printers").waiters or ()) == left


def test_a_repeated_delivery_that_does_not_run_its_unit_leaves_a_permit_under_which_it_may_run() -> None:
    harness, task = one_unit("printers")
    delivered = delivery_of(task)
    runs.run(harness.ports, delivered, RetryLimits(2), lambda _: True, lambda *_: None)
    runs.run(harness.ports, replace(delivered, retries=1), RetryLimits(2), lambda _: False, lambda *_: None)
    assert len(views.get(harness.ports, "printers").semaphore.leases) == 1


@pytest.mark.parametrize("cancels", [False, True])
def test_a_unit_whose_sub_batch_runs_does_not_fail_when_its_next_wait_ends(
    harness: Harness, shop: Any, cancels: bool
) -> None:
    """Its lease is ended by hand while its code runs, a second delivery waits again, and the code returns a batch."""
    shop.sheets(1)
    run_kit(harness)
    deliver(harness)
    granted = harness.take("print_sheet")

    def code() -> object:
        if len(RAN) == 1:
            [lease] = harness.get("semaphores/printers").json["leases"]
            harness.post("semaphore-signal/printers", json={"lease": lease["id"]})
            assert semaphore("printers").acquire(permits=PERMITS)
            harness.deliver_task(granted, executions=1)
        return sub_batch([shop.sheet.call(n=5)])

    DOES[0] = code
    assert harness.deliver_task(granted).status == 204
    [waiting] = views.get(harness.ports, "printers").waiters or ()
    if cancels:
        waits.cancel(harness.ports, "printers", waiting.id)
    harness.deliver_task(granted, executions=2)
    harness.run()
    assert (units()[0]["state"], units()[0]["succeeded"]) == ("completed", 1)


def test_both_waits_of_a_unit_whose_lease_was_lost_are_withdrawn(
    harness: Harness, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The semaphore is created again, and the unit's wait is made again in it, alone, under its old id."""
    shop.sheets(1)
    run_kit(harness)
    deliver(harness)
    granted = harness.take("print_sheet")
    harness.advance(1)
    sweep.delete(harness.ports, "printers")
    run_kit(harness)
    semaphore("printers").ensure(permits=PERMITS, lease_seconds=60)
    with monkeypatch.context() as patch:
        patch.setattr(waits, "wait", waits.combine)
        patch.setattr(waits, "confirm", _away)
        assert harness.deliver_task(granted).status == 503
    assert views.get(harness.ports, "printers").waiters
    batch("b").cancel()
    api.forget_liveness()
    assert harness.deliver_task(granted, executions=1).status == 204
    assert not views.get(harness.ports, "printers").waiters


def test_the_semaphore_is_part_of_what_a_repeat_must_repeat(harness: Harness, shop: Any) -> None:
    body = {"id": "b", "units": [{"n": 1}], "task": {"function": "shop", "task": "print_sheet"}}
    assert harness.post("batches", json=body).status == 201
    assert harness.post("batches", json=body | {"semaphore": "printers"}).status == 409


@pytest.mark.parametrize("body", [{"semaphore": 5}, {"semaphore": "a/b"}, {"semaphore": "printers", "task": None}])
def test_an_invalid_semaphore_name_is_refused(harness: Harness, shop: Any, body: dict[str, Any]) -> None:
    task = {"function": "shop", "task": "print_sheet"}
    answer = harness.post("batches", json={"id": "b", "units": [{"n": 1}], "task": task} | body)
    assert (answer.status, answer.json["field"]) == (400, "semaphore")


# --- costs ---


def test_a_unit_under_a_permit_costs_what_the_table_says() -> None:
    more = total_of("printers")
    plain = total_of("")
    assert Cost(**{name: getattr(more, name) - getattr(plain, name) for name in FIGURES}) == row_cost(
        "batches", "permit"
    )


def total_of(name: str) -> Cost:
    """Return the cost of the deliveries of one unit of a batch."""
    harness, task = one_unit(name)
    harness.tasks.append(task)
    with measure() as cost:
        while tasks := [task for task in harness.tasks if task.task == "paint"]:
            harness.tasks.remove(tasks[0])
            runs.run(harness.ports, delivery_of(tasks[0]), RetryLimits(2), lambda _: True, lambda *_: None)
    return cost


def one_unit(name: str) -> tuple[BatchHarness, Effect]:
    """Return the second of two units of a batch. Neither is in the queue any more."""
    harness = BatchHarness()
    settings.put(harness.ports, "printers", SemaphoreSettings(PERMITS, 60))
    spec = BatchSpec(units=[{"n": 1}, {"n": 2}], task=Call("painter", "paint", {}), sealed=True, semaphore=name)
    population.populate(harness.ports, "b", spec)
    run_batch_task(harness.ports, "expand", harness.tasks.pop(0).payload)
    first, second = (task for task in harness.tasks if task.task == "paint")
    harness.tasks.remove(first)
    harness.tasks.remove(second)
    return harness, second


def delivery_of(task: Effect) -> Any:
    what = task.function, task.task, task.payload, task.queue
    return parsed(Delivered(task.name, task.context, 0, 0, *what))
