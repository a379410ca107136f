"""Failures that wait for a person: which of them the code of `on_failure` is notified of, and how often."""

from typing import Any

import pytest

from signalbox import (
    FailureNotice,
    Function,
    Lease,
    Problem,
    TaskContext,
    Unit,
    batch,
    flow,
    flows,
    objects,
    semaphore,
    sub_batch,
)
from signalbox.core.kit_names import FAILURE_NOTICE_TASK
from signalbox.objects import service
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness


class Refused(Problem):
    title = "Refused"


broken: set[str] = set()


def act(name: str) -> str:
    if name in broken:
        raise Refused(f"{name} is broken")
    return name


def shop() -> tuple[Function, list[FailureNotice]]:
    """Return a function whose tasks and flows fail while `broken` has their names, and its notices."""
    app, pages = Function("shop"), list[FailureNotice]()

    @app.on_failure
    def page(notice: FailureNotice, context: TaskContext) -> None:
        assert context.operation
        act("pager")
        pages.append(notice)

    @app.task
    def work(name: str) -> str:
        return act(name)

    @app.task
    def of_unit(unit: Unit, name: str) -> Any:
        if not name.startswith("outer"):
            return act(name)
        return sub_batch([of_unit.call(name="inner")], failures_max=0 if name == "outer 0" else None)

    @app.task
    def hold(lease: Lease) -> None:
        act("hold")

    @app.flow
    async def order(then: str = "") -> str:
        await flow.lock("till")
        await work.call(name="step")
        if then == "raise":
            raise ValueError("the code is wrong")
        if then == "fail":
            act("order")
        if then == "child":
            return await order.call(then="fail")
        return then

    @app.flow
    async def rest() -> None:
        await flow.sleep(1_000)

    @app.object
    class Stock:
        count: int = 0

        def take(self) -> None:
            self.count += 1

    return app, pages


@pytest.fixture
def pages(harness: Harness) -> list[FailureNotice]:
    broken.clear()
    app, pages = shop()
    harness.add(app)
    semaphore("till").ensure(permits=9)
    return pages


def task_of(harness: Harness, name: str) -> Any:
    return harness.functions.task("shop", name)


def start(harness: Harness, id_: str, then: str = "") -> None:
    flows("order", id_).start(then=then)
    harness.run(raise_errors=False)


def test_a_stuck_run_is_told_once_with_its_place_and_the_locks_it_holds(
    harness: Harness, pages: list[FailureNotice]
) -> None:
    start(harness, "7", then="raise")
    [notice] = pages
    assert (notice.subject, notice.reason, notice.name, notice.id) == ("flow", "stuck", "order", "7")
    assert (notice.problem, notice.locks) == ("flow-failed", ("till",))
    assert notice.detail.startswith("ValueError: the code is wrong")
    assert "in order" in notice.place
    harness.travel(3_600)
    harness.run_schedule("sweep")
    harness.run(raise_errors=False)
    assert pages == [notice]


def test_a_run_that_fails_is_told_and_what_its_parent_receives_is_not(
    harness: Harness, pages: list[FailureNotice]
) -> None:
    broken.update(("order",))
    start(harness, "7", then="child")
    assert pages == [FailureNotice("flow", "failed", "order", "7", "refused", "order is broken")]


def test_a_run_whose_step_fails_is_told_once_and_the_step_is_not(harness: Harness, pages: list[FailureNotice]) -> None:
    broken.update(("step",))
    start(harness, "7")
    assert pages == [FailureNotice("flow", "failed", "order", "7", "refused", "step is broken")]


def test_a_run_that_completes_or_is_cancelled_is_not_told(harness: Harness, pages: list[FailureNotice]) -> None:
    start(harness, "7")
    flows("order", "8").start()
    flows("order", "8").cancel("by its caller")
    harness.run()
    assert flows("order", "8").status().state == "cancelled"
    assert pages == []


def test_a_run_that_its_time_out_ends_is_told(harness: Harness, pages: list[FailureNotice]) -> None:
    for id_ in "78":
        started = harness.post(f"shop/flows/rest/{id_}", json={"arguments": {}, "timeout_seconds": 60})
        assert started.status == 201
    flows("rest", "8").cancel("by its caller")
    harness.travel(90)
    assert [flows("rest", id_).status().state for id_ in "78"] == ["cancelled"] * 2
    detail = "The run's time-out of 60 seconds is over."
    assert pages == [FailureNotice("flow", "failed", "rest", "7", "flow-cancelled", detail)]


def test_a_task_that_is_given_up_is_told_with_the_id_of_its_failure(
    harness: Harness, pages: list[FailureNotice]
) -> None:
    broken.update(("paper", "hold"))
    operation = harness.post("tasks", json={"function": "shop", "task": "work", "payload": {"name": "paper"}}).json
    semaphore("till").wait(task_of(harness, "hold").call())
    harness.run(raise_errors=False)
    assert sorted((notice.name, notice.detail) for notice in pages) == [
        ("hold", "hold is broken"),
        ("work", "paper is broken"),
    ]
    assert {(notice.subject, notice.reason, notice.problem) for notice in pages} == {("task", "failed", "refused")}
    [failure] = [notice.id for notice in pages if notice.name == "work"]
    assert harness.get(f"failures/{failure}").json["task"] == "work", operation


def test_a_pager_that_fails_has_no_notice_and_is_kept_as_a_failure(
    harness: Harness, pages: list[FailureNotice]
) -> None:
    broken.update(("step", "pager"))
    start(harness, "7")
    assert pages == []
    assert [one["task"] for one in harness.get("failures").json["failures"]] == [FAILURE_NOTICE_TASK]


def test_a_batch_without_success_is_told_unless_its_failures_are_tolerated_or_a_caller_ends_it(
    harness: Harness, pages: list[FailureNotice]
) -> None:
    broken.update(("unit",))
    of_unit = task_of(harness, "of_unit")
    batch("pages").populate([of_unit.call(name="unit"), of_unit.call(name="fine")])
    batch("tolerant").populate([of_unit.call(name="unit")], failures_max=1)
    batch("cancelled").populate([of_unit.call(name="unit")])
    batch("cancelled").cancel()
    harness.run(raise_errors=False)
    assert pages == [FailureNotice("batch", "failed", "", "pages", "failures", "1 of 2 units failed.")]


@pytest.mark.parametrize("failures_max", [None, 0])
def test_a_sub_batch_without_success_is_told_unless_its_unit_fails_with_it(
    harness: Harness, pages: list[FailureNotice], failures_max: int | None
) -> None:
    broken.update(("inner",))
    batch("pages").populate([task_of(harness, "of_unit").call(name=f"outer {failures_max}")])
    harness.run(raise_errors=False)
    [notice] = pages
    assert (notice.id == "pages", notice.problem) == (failures_max == 0, "failures")


def test_a_batch_at_its_deadline_is_told(harness: Harness, pages: list[FailureNotice]) -> None:
    call = {"function": "shop", "task": "work", "payload": {"name": "closed"}}
    made = harness.post("batches", json={"id": "b", "units": [{}], "on_complete": call, "deadline_seconds": 60})
    assert made.status == 201, made.json
    harness.travel(120)
    harness.run_schedule("sweep")
    harness.run()
    detail = "The deadline is over; 1 units without an outcome are known. 0 of 1 units failed."
    assert pages == [FailureNotice("batch", "failed", "", "b", "deadline", detail)]


def test_an_object_whose_messages_cannot_be_applied_is_told(
    harness: Harness, pages: list[FailureNotice], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Refused("the state is unreadable")

    objects("Stock", "tea").take()
    monkeypatch.setattr(service, "run", refuse)
    wake_up = harness.take("turn")
    harness.advance(5)
    assert [harness.deliver_task(wake_up).status for _ in range(2)] == [503, 503]
    harness.run()
    assert pages == [FailureNotice("object", "stuck", "Stock", "tea", "refused", "the state is unreadable")]


def test_a_function_without_the_code_has_no_such_tasks(harness: Harness) -> None:
    app = Function("quiet")

    @app.task
    def fail() -> None:
        raise Refused("as it is written")

    harness.add(app)
    fail.call().enqueue()
    harness.run(raise_errors=False)
    assert [one["task"] for one in harness.get("failures").json["failures"]] == ["fail"]


def test_code_with_other_arguments_and_a_second_pager_are_refused() -> None:
    app = Function("shop")
    with pytest.raises(TypeError, match=r"def page\(notice: FailureNotice\)"):

        @app.on_failure
        def page(run: str) -> None: ...

    @app.on_failure
    def first(notice: FailureNotice) -> None: ...

    with pytest.raises(ValueError, match="handle the notices in one"):

        @app.on_failure
        def second(notice: FailureNotice) -> None: ...


def test_a_decorator_for_stuck_runs_alone_is_refused_with_the_one_for_all_failures() -> None:
    app: Any = Function("shop")
    with pytest.raises(AttributeError, match=r"no attribute 'on_stuck': use `@app.on_failure`, which is also called"):
        app.on_stuck(print)
    with pytest.raises(AttributeError) as refused:
        app.on_failur(print)
    assert (str(refused.value), refused.value.name) == ("'Function' object has no attribute 'on_failur'", "on_failur")
    assert not hasattr(app, "on_stuck")
