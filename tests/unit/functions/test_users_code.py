"""One rule for all kinds of user code: what the code raises is its error, and what it sets is seen by no other code."""

import asyncio
import re
import signal
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal, getcontext
from pathlib import Path
from typing import Any

import pytest

from signalbox import (
    Access,
    Call,
    DocumentEvent,
    Function,
    Lease,
    Problem,
    Request,
    Response,
    SectionRun,
    Unit,
    add_resource,
    batch,
    critical_section,
    documents,
    flow,
    flows,
    objects,
    semaphore,
)
from signalbox.core import user_code
from signalbox.core.user_code import CodeExited, ProcessEnded
from signalbox.testing import Harness
from signalbox.testing.deliveries import TaskFailed
from signalbox.testing.fixtures import harness as harness

MADE: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "asyncio.CancelledError": lambda: asyncio.CancelledError("x"),
    "KeyboardInterrupt": lambda: KeyboardInterrupt("x"),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("x", [SystemExit(3)]),
    "GeneratorExit": lambda: GeneratorExit("x"),
    "flow.Cancelled": lambda: flow.Cancelled("x"),
}

every_error = pytest.mark.parametrize("make", MADE.values(), ids=MADE)


@dataclass
class Order:
    """A value that cannot be made of "bad", and not be written if it is "unwritable"."""

    item: str

    def __post_init__(self) -> None:
        if self.item == "bad":
            raise SystemExit(4)

    def __getattribute__(self, name: str) -> Any:
        if name == "item" and object.__getattribute__(self, "item") == "unwritable":
            raise SystemExit(3)
        return object.__getattribute__(self, name)


def shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def last_errors(harness: Harness) -> list[tuple[str, int, str]]:
    failures = harness.get("failures").json["failures"]
    return [(each["task"], each["attempts"], each["error"]) for each in failures]


# --- what the code raises ---


@every_error
def test_a_task_that_raises_it_is_retried_and_given_up_with_its_text(
    harness: Harness, make: Callable[[], BaseException]
) -> None:
    app, starts = Function("shop"), []

    @app.task(attempts_max=2)
    def work(lease: Lease) -> None:
        starts.append(1)
        raise make()

    @app.task(attempts_max=2)
    def alone(run: SectionRun) -> None:
        starts.append(1)
        raise make()

    harness.add(app)
    semaphore("press").ensure(permits=1)
    semaphore("press").wait(work.call(), release_on_return=True)
    critical_section("till").run(alone.call())
    harness.run(raise_errors=False)
    assert len(starts) == 4
    assert sorted(last_errors(harness)) == [("alone", 2, shown(make())), ("work", 2, shown(make()))]
    assert semaphore("press").acquire() is not None


@every_error
def test_a_unit_that_raises_it_fails_alone_and_the_outcomes_of_its_group_are_kept(
    harness: Harness, make: Callable[[], BaseException]
) -> None:
    app, starts = Function("shop"), []

    @app.task(attempts_max=2)
    def work(unit: Unit) -> int:
        starts.append(unit.index)
        if unit.index == 1:
            raise make()
        return unit.index

    harness.add(app)
    batch("b").populate([work.call() for _ in range(3)], per_task=3)
    harness.run(raise_errors=False)
    outcomes = {outcome["index"]: outcome for outcome in batch("b").results()}
    assert [outcomes[index]["state"] for index in range(3)] == ["succeeded", "failed", "succeeded"]
    assert shown(make()) in outcomes[1]["error"]
    assert sorted(starts) == [0, 1, 1, 2]


@every_error
def test_a_method_that_raises_it_has_failed_and_the_object_answers_the_next_call(
    harness: Harness, make: Callable[[], BaseException]
) -> None:
    app = Function("shop")

    @app.object
    class Till:
        coins: int = 0

        def add(self, bad: bool) -> int:
            self.coins += 1
            if bad:
                raise make()
            return self.coins

    harness.add(app)
    answer = harness.post("shop/objects/Till/a/add", json={"bad": True})
    assert (answer.status, answer.json["detail"]) == (500, shown(make()))
    assert harness.post("shop/objects/Till/a/add", json={"bad": False}).json["result"] == 1


@every_error
def test_a_route_its_stream_and_a_rule_that_raise_it_answer_500(
    harness: Harness, make: Callable[[], BaseException]
) -> None:
    app = Function("shop")

    @app.http("GET", "/route")
    def route(request: Request) -> None:
        raise make()

    @app.object
    class Till:
        coins: int = 0

        def add(self) -> None: ...

    @app.access("Till")
    def rule(access: Access) -> bool:
        raise make()

    harness.add(app, public=True, exposes=["Till"])
    for answer in (harness.get("shop/route"), harness.post("shop/objects/Till/a/add", json={})):
        assert (answer.status, answer.json["type"]) == (500, "urn:signalbox:problem:internal")
    assert len([message for message, _ in harness.log.errors if message == "unhandled exception"]) == 2


@every_error
def test_a_stream_that_raises_it_ends_with_an_exception(harness: Harness, make: Callable[[], BaseException]) -> None:
    app = Function("shop")

    def lines() -> Iterator[bytes]:
        yield b"1"
        raise make()

    @app.http("GET")
    def stream(request: Request) -> Response:
        return Response(200, lines())

    harness.add(app)
    with pytest.raises(CodeExited, match=type(make()).__name__):
        harness.get("shop")


@every_error
def test_a_hook_of_a_resource_that_raises_it_answers_500(harness: Harness, make: Callable[[], BaseException]) -> None:
    app = Function("shop")

    @dataclass
    class Item:
        text: str = ""

    def authorise(request: Request, action: str, fields: Any) -> bool:
        raise make()

    add_resource(app, Item, authorise=authorise)
    harness.add(app)
    assert harness.get("shop").status == 500


@every_error
def test_an_event_whose_handler_raises_it_is_delivered_again(
    harness: Harness, make: Callable[[], BaseException]
) -> None:
    app, direct, raised = Function("shop"), Function("desk"), []

    @app.on_document("orders/{id}", attempts_max=2)
    def ordered(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        raise make()

    @app.on_document("orders/{id}", in_order=True, attempts_max=2)
    def in_order(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        raise make()

    @direct.document_written("orders/{id}")
    def written(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        raised.append(1)
        if len(raised) < 3:
            raise make()

    harness.add(app)
    harness.add(direct)
    harness.write_record("orders/7", {"item": "tea"})
    harness.run(raise_errors=False)
    assert len(raised) == 3
    assert sorted(last_errors(harness)) == [("in_order", 2, shown(make())), ("ordered", 2, shown(make()))]


@every_error
def test_steps_that_raise_it_are_retried_and_a_flow_that_raises_it_is_stuck_with_its_place(
    harness: Harness, make: Callable[[], BaseException]
) -> None:
    app, starts = Function("shop"), []

    @app.task(attempts_max=2)
    def charge() -> None:
        starts.append("step")
        raise make()

    def draw() -> None:
        starts.append("inline")
        raise make()

    @app.flow
    async def sale(inline: bool) -> str:
        try:
            await (flow.run(draw) if inline else charge.call())
        except flow.Cancelled:
            return "cancelled"
        except Problem as problem:
            return str(problem)
        return ""

    @app.flow
    async def bad() -> None:
        await flow.sleep(1)
        raise make()

    @app.flow
    async def asked() -> None:
        def answer() -> None:
            raise make()

        flow.answer("why", answer)
        await flow.event("x")

    harness.add(app)
    for inline in (False, True):
        sale.start(f"r{inline}", inline=inline)
    bad.start("b")
    asked.start("a")
    harness.run(raise_errors=False)
    for inline in (False, True):
        assert shown(make()) in str(harness.get(f"shop/flows/sale/r{inline}").json["result"])
    assert (starts.count("step"), starts.count("inline")) == (2, 10)
    status = flows("bad", "b").status()
    if isinstance(make(), flow.Cancelled):
        assert status.state == "cancelled"
    else:
        assert (status.state, shown(make())[:20] in status.problem["detail"]) == ("stuck", True)
        assert "in bad" in status.problem["detail"]
    answer = harness.get("shop/flows/asked/a/queries/why")
    assert (answer.status, type(make()).__name__ in answer.json["detail"]) == (409, True)


def test_a_value_whose_class_raises_it_is_an_error_of_its_task(harness: Harness) -> None:
    app = Function("shop")

    @app.task(attempts_max=2)
    def work(unit: Unit) -> Order:
        return Order(item="unwritable")

    @app.task(attempts_max=2)
    def check(unit: Unit, order: Order) -> None: ...

    harness.add(app)
    batch("results").populate([work.call()])
    batch("arguments").populate([Call("shop", "check", {"order": {"item": "bad"}})])
    harness.run(raise_errors=False)
    [result], [argument] = batch("results").results(), batch("arguments").results()
    assert ("SystemExit: 3" in result["error"], "SystemExit: 4" in argument["error"]) == (True, True)


def test_the_harness_raises_it_as_any_other_error(harness: Harness) -> None:
    app = Function("shop")

    @app.task
    def work() -> None:
        raise SystemExit(3)

    harness.add(app)
    work.call().enqueue()
    with pytest.raises(TaskFailed) as failed:
        harness.run()
    assert isinstance(failed.value.__cause__, CodeExited)
    assert str(failed.value.__cause__) == "SystemExit: 3"


def test_ctrl_c_ends_the_process_and_a_raised_keyboard_interrupt_does_not() -> None:
    def pressed() -> None:
        raise_in_main_thread()

    def raised() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        user_code.run(pressed)
    with pytest.raises(CodeExited, match="KeyboardInterrupt"):
        user_code.run(raised)
    with pytest.raises(ProcessEnded):
        user_code.run(die)


def die() -> None:
    raise ProcessEnded


def raise_in_main_thread() -> None:
    """Interrupt the main thread as Ctrl-C does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        signal.raise_signal(signal.SIGINT)
        for _ in range(1_000):
            pass
    finally:
        signal.signal(signal.SIGINT, before)


# --- what the code sets ---

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


def is_third() -> bool:
    """Return whether a third has three digits, and set that precision."""
    short = str(Decimal(1) / 3) == "0.333"
    getcontext().prec = 3
    return short


def seen_and_set(name: str) -> tuple[str, bool]:
    before = TENANT.get()
    TENANT.set(name)
    return before, is_third()


def test_what_code_sets_is_seen_by_no_other_code_of_its_thread(harness: Harness) -> None:
    app, seen = Function("shop"), dict[str, tuple[str, bool]]()

    @app.task
    def work(unit: Unit) -> None:
        seen[f"unit {unit.index}"] = seen_and_set("unit")

    @app.task
    def alone() -> None:
        seen["task"] = seen_and_set("task")
        objects("Till", "a").add()

    @app.http("GET")
    def route(request: Request) -> None:
        seen["route"] = seen_and_set("route")
        sale.start("s")

    @app.object
    class Till:
        coins: int = 0

        def add(self) -> None:
            seen["method"] = seen_and_set("method")

    @app.on_document("orders/{id}")
    def ordered(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        seen["event"] = seen_and_set("event")

    def draw() -> None:
        seen["inline"] = seen_and_set("inline")

    @app.flow
    async def sale() -> None:
        seen["flow"] = seen_and_set("flow")
        await alone.call()
        await flow.run(draw)

    harness.add(app)
    batch("b").populate([work.call() for _ in range(3)], per_task=3)
    harness.write_record("orders/7", {"item": "tea"})
    for _ in range(2):
        assert harness.get("shop").status == 204
        harness.run()
        harness.delete("shop/flows/sale/s")
    assert set(seen) == {"unit 0", "unit 1", "unit 2", "task", "route", "method", "event", "inline", "flow"}
    assert seen == dict.fromkeys(seen, ("nobody", False))
    assert (TENANT.get(), str(Decimal(1) / 3) == "0.333") == ("nobody", False)


def test_a_stream_sees_what_its_handler_has_set(harness: Harness) -> None:
    app = Function("shop")

    def lines() -> Iterator[bytes]:
        yield TENANT.get().encode()
        documents.put("a", {})

    @app.http("GET")
    def route(request: Request) -> Response:
        TENANT.set("ann")
        return Response(200, lines())

    harness.add(app)
    assert harness.get("shop").body == b"ann"
    assert TENANT.get() == "nobody"


def test_the_kits_context_has_only_the_kits_variables() -> None:
    context = user_code.run(lambda: (TENANT.set("ann"), user_code.kit_context())[1])
    assert {variable.name.partition(".")[0] for variable in context} <= {"signalbox"}


def test_every_context_variable_of_the_kit_is_named_as_such() -> None:
    """Else the code of a flow or a method would begin without it."""
    package = Path(user_code.__file__).parents[2]
    names = [name for path in package.rglob("*.py") for name in re.findall(r'ContextVar\("([^"]*)"', path.read_text())]
    assert len(names) > 10
    assert [name for name in names if not name.startswith(user_code.KIT)] == []


def test_arguments_results_and_events_of_a_flow_whose_class_raises_an_exit_do_not_end_the_process(
    harness: Harness,
) -> None:
    app = Function("shop")

    @app.flow
    async def sale(order: Order) -> Order:
        return await flow.event("other", Order)

    harness.add(app)
    refused = harness.post("shop/flows/sale/a", json={"arguments": {"order": {"item": "bad"}}})
    assert (refused.status, "SystemExit: 4" in refused.json["detail"]) == (400, True)
    sale.start("b", order=Order("tea"))
    flows("sale", "b").event("other", {"item": "unwritable"})
    harness.run(raise_errors=False)
    status = flows("sale", "b").status()
    assert (status.state, "SystemExit: 3" in status.error["detail"]) == ("failed", True)
