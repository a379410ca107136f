"""Tasks and handlers that are `async def`: they run to their end, in the thread and the context of their request."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from signalbox import DocumentEvent, Function, Problem, Request, TaskContext, Unit, batch, documents, flows
from signalbox.adapters import coroutines
from signalbox.adapters.settings import Settings
from signalbox.catalogue.derived_keys import usage_of
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness

OF_REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("of_request", default="")


class Refused(Problem):
    status = 409
    title = "Refused"


def test_a_task_of_a_unit_a_step_and_a_call_is_run_to_its_end_with_the_kits_calls(harness: Harness) -> None:
    app = Function("shop")

    @app.task
    async def put(context: TaskContext, name: str) -> str:
        await asyncio.gather(asyncio.sleep(0), asyncio.to_thread(documents.put, name, {"by": context.attempt}))
        return name.upper()

    @app.task
    async def of_unit(unit: Unit, name: str) -> str:
        await asyncio.sleep(0)
        return f"{unit.index} {name}"

    @app.flow
    async def order() -> str:
        return await put.call(name="step")

    harness.add(app)
    put.call(name="plain").enqueue()
    batch("b").populate([of_unit.call(name="x")])
    flows("order", "1").start()
    harness.run()
    assert [harness.get(f"documents/{name}").status for name in ("plain", "step")] == [200, 200]
    assert flows("order", "1").status().result == "STEP"
    assert harness.get("batches/b/units").json["units"][0]["result"] == "0 x"


def test_calls_of_a_coroutine_are_idempotent_in_a_second_delivery(harness: Harness) -> None:
    app, ran, failed = Function("shop"), list[str](), list[int]()

    @app.task
    async def inner(name: str) -> None:
        ran.append(name)

    @app.task
    async def outer() -> None:
        await asyncio.gather(*(asyncio.to_thread(inner.call(name=name).enqueue) for name in "ab"))
        inner.call(name="c").enqueue()
        if not failed:
            failed.append(1)
            raise ValueError("after its calls")

    harness.add(app)
    outer.call().enqueue()
    harness.run(raise_errors=False)
    assert sorted(ran) == ["a", "b", "c"]


def test_a_handler_answers_with_its_result_its_problem_or_an_error(harness: Harness) -> None:
    app = Function("shop")

    @app.http("GET", "/{what}")
    async def get(request: Request, what: str) -> Any:
        await asyncio.sleep(0)
        if what == "refused":
            raise Refused("as asked")
        if what == "cancelled":
            raise asyncio.CancelledError
        return {"what": what, "query": dict(request.query)}

    harness.add(app)
    assert harness.get("shop/it?a=b").json == {"what": "it", "query": {"a": "b"}}
    assert [harness.get(f"shop/{what}").status for what in ("refused", "cancelled", "it")] == [409, 500, 200]


def test_handlers_of_documents_and_of_failures_may_be_coroutines(harness: Harness) -> None:
    app, seen = Function("shop"), list[str]()

    @app.on_document("orders/{id}")
    async def ordered(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        await asyncio.sleep(0)
        seen.append(id)
        raise Refused(event.key)

    @app.on_failure
    async def page(notice: Any) -> None:
        await asyncio.sleep(0)
        seen.append(notice["detail"])

    harness.add(app)
    harness.write_record("orders/7", {})
    harness.run(raise_errors=False)
    assert seen == ["7", "7"]


def test_a_coroutine_is_cancelled_at_its_deadline_cleans_up_and_is_retried(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, seen = Function("shop"), list[str]()

    async def long() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cleaned up")
            raise

    @app.task(attempts_max=2)
    async def wait() -> None:
        await long()

    @app.http("GET")
    async def get(_: Request) -> None:
        await long()

    harness.add(app)
    monkeypatch.setattr(Settings, "timeout_of", lambda *_: 0.05)
    wait.call().enqueue()
    harness.run(raise_errors=False)
    assert harness.get("shop").status == 500
    [failure] = harness.get("failures").json["failures"]
    assert (failure["error"], failure["attempts"]) == (
        "TimeoutError: cancelled at the end of the time of its request",
        2,
    )
    assert seen == ["cleaned up"] * 3


def test_each_coroutine_runs_in_the_thread_and_a_copy_of_the_context_of_its_caller() -> None:
    async def own() -> tuple[int, str]:
        await asyncio.sleep(0)
        before = OF_REQUEST.get()
        OF_REQUEST.set("changed")
        return threading.get_ident(), before

    def handled(name: str) -> tuple[bool, str, str]:
        OF_REQUEST.set(name)
        thread, seen = coroutines.result_of(own(), "task", "own")
        return thread == threading.get_ident(), seen, OF_REQUEST.get()

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda name: contextvars.copy_context().run(handled, name), "abcd"))
    assert results == [(True, name, name) for name in "abcd"]


def test_a_thread_keeps_its_loop_and_no_later_coroutine_runs_tasks_that_an_earlier_one_has_left() -> None:
    seen: list[Any] = []

    async def left() -> None:
        try:
            await asyncio.sleep(0.01)
            seen.append("ran")
        finally:
            seen.append("ended")

    async def first() -> asyncio.AbstractEventLoop:
        seen.append(asyncio.create_task(left()))
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    async def second() -> asyncio.AbstractEventLoop:
        await asyncio.sleep(0.02)
        return asyncio.get_running_loop()

    assert coroutines.result_of(first(), "task", "first") is coroutines.result_of(second(), "task", "second")
    assert seen[1:] == ["ended"]


def test_a_generator_that_a_coroutine_has_dropped_is_closed_with_its_end_and_not_by_a_later_coroutine() -> None:
    seen: list[str] = []

    async def pages() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            seen.append("closed")

    async def first() -> None:
        async for _ in pages():
            break
        seen.append("first")

    async def second() -> None:
        await asyncio.sleep(0)
        seen.append("second")

    coroutines.result_of(first(), "task", "first")
    coroutines.result_of(second(), "task", "second")
    assert seen == ["first", "closed", "second"]


def test_a_task_that_does_not_end_when_it_is_cancelled_holds_up_neither_its_thread_nor_the_next_coroutine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coroutines, "LEFT_SECONDS_MAX", 0.02)
    cancelled, kept = list[int](), list[Any]()

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(1)

    async def leaves() -> str:
        kept.append(asyncio.create_task(stubborn()))
        await asyncio.sleep(0)
        return "done"

    async def later() -> asyncio.AbstractEventLoop:
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    assert coroutines.result_of(leaves(), "task", "leaves") == "done"
    assert coroutines.result_of(later(), "task", "later") is not kept[0].get_loop()
    assert (cancelled, kept[0].done()) == ([1], False)


def test_a_handler_that_is_an_asynchronous_generator_is_refused_with_what_it_is() -> None:
    async def pages(_: Request) -> AsyncIterator[bytes]:
        yield b""

    with pytest.raises(TypeError, match="is `async def` with `yield`, so a call would not run it"):
        Function("shop").http("GET")(pages)


def test_a_coroutine_of_a_task_runs_also_while_a_loop_runs_in_the_thread_as_in_an_async_test(harness: Harness) -> None:
    app = Function("shop")

    @app.task
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    harness.add(app)

    async def test() -> int:
        return double(21)

    assert (double(2), asyncio.run(test())) == (4, 42)


def test_the_catalogue_reads_the_arguments_and_the_queues_of_async_tasks() -> None:
    source = b"""
from signalbox import Function, Unit
app = Function("shop")

@app.task(queue="mail")
async def pay(order: str, unit: Unit, amount: int = 1) -> None: ...
"""
    usage = usage_of({"main.py": source})
    assert usage.parameters == {"pay": ["order", "amount?"]}
    assert {"batches", "tasks", "mail"} <= {*usage.queues}
    assert usage.refused == []
