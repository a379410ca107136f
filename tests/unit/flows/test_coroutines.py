"""Flows as coroutines: what they await, what a type checker relies on, and what is refused when they are loaded."""

import asyncio
import gc
import types
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any

import pytest

from signalbox import Function, Lease, Problem, Task, flow, flows, parse, semaphore
from signalbox.core.problems import BadArgument
from signalbox.flows.machine.commands import BatchResult
from signalbox.flows.machine.driver import Driver, Position
from signalbox.flows.machine.stuck import Stuck
from signalbox.flows.model.messages import Cancel, Event, Message
from signalbox.flows.problems import BadFlow
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.tasks.requests.signatures import WrongArguments
from signalbox.testing import Faults, Harness, TaskFailed, replay
from tests.unit.flows.random_flows import BEGIN, done, shown, step

Shop = dict[str, Any]


def shop() -> Shop:
    """Return the parts of a function whose flows are coroutines."""
    app = Function("shop")
    undone: list[str] = []

    @app.task
    def charge(order: str, amount: int = 1) -> str:
        if amount < 0:
            raise Problem("An amount is positive.")
        return f"receipt of {order}"

    @app.task
    def refund(order: str) -> None:
        undone.append(order)

    async def approval() -> str:
        match await flow.first(approved=flow.event("approved", str), late=flow.sleep(86_400)):
            case ("approved", str(who)):
                return who
        raise Problem("There was no answer in a day.")

    @app.flow
    async def purchase(order: str, amount: int) -> list[str]:
        paid = await charge.call(order, amount)
        try:
            async with flow.lock("till", lease_seconds=600):
                copy, _ = await flow.all(charge.call(f"copy of {order}"), flow.sleep(5))
            return [paid, copy, await approval()]
        except (Problem, flow.Cancelled):
            await refund.call(order)
            raise

    @app.flow
    async def bundle(orders: list[str]) -> list[str]:
        each = await flow.settled(*[purchase.call(order=order, amount=1) for order in orders])
        return [str(settled.result or settled.error) for settled in each]

    return {"app": app, "purchase": purchase, "bundle": bundle, "charge": charge, "undone": undone}


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as entered:
        yield entered


@pytest.fixture
def parts(harness: Harness) -> Shop:
    """Return the parts of a function in a harness with a free lock."""
    parts = shop()
    harness.add(parts["app"])
    semaphore("till").ensure(permits=1, lease_seconds=600)
    return parts


def test_a_coroutine_awaits_steps_groups_locks_events_and_coroutines(harness: Harness, parts: Shop) -> None:
    run = parts["purchase"].start("7", order="7", amount=3)
    harness.travel(60)
    assert [wait["command"] for wait in run.status().waiting_for] == ["event approved", "sleep"]
    assert semaphore("till").acquire(id="the lock is free again")
    run.event("approved", "ann")
    harness.run()
    assert run.status().result == ["receipt of 7", "receipt of copy of 7", "ann"]
    replay(parts["purchase"], run.log())


def test_first_returns_the_name_of_the_command_that_was_first(harness: Harness, parts: Shop) -> None:
    run = parts["purchase"].start("7", order="7", amount=3)
    harness.travel(2 * 86_400)
    assert run.status().error["detail"] == "There was no answer in a day."
    assert parts["undone"] == ["7"]


def test_a_cancel_is_raised_at_the_await_of_a_nested_coroutine(harness: Harness, parts: Shop) -> None:
    run = parts["purchase"].start("7", order="7", amount=3)
    harness.travel(60)
    run.cancel("too late")
    harness.run()
    assert (run.status().state, parts["undone"]) == ("cancelled", ["7"])


def test_a_lock_is_released_where_its_async_with_is_cancelled(harness: Harness, parts: Shop) -> None:
    run = parts["purchase"].start("7", order="7", amount=3)
    harness.travel(3)  # it holds the lock, for two more seconds
    assert not semaphore("till").acquire(id="other")
    run.cancel()
    harness.run()
    assert semaphore("till").acquire(id="another")


def test_a_sub_flow_is_awaited_and_its_problem_is_raised(harness: Harness, parts: Shop) -> None:
    run = parts["bundle"].start("b", orders=["1", "2"])
    harness.travel(2 * 86_400)
    assert run.status().result == ["There was no answer in a day."] * 2


def test_a_problem_of_a_step_fails_the_run_and_does_not_make_it_stuck(harness: Harness, parts: Shop) -> None:
    run = parts["purchase"].start("7", order="7", amount=-1)
    harness.run()
    assert (run.status().state, run.status().error["detail"]) == ("failed", "An amount is positive.")


def test_an_event_of_another_type_is_raised_where_it_is_awaited(harness: Harness, parts: Shop) -> None:
    run = parts["purchase"].start("7", order="7", amount=3)
    harness.travel(60)
    run.event("approved", {"by": "ann"})
    harness.run()
    assert run.status().error["detail"] == "the event approved must be str, not dict."
    assert parts["undone"] == ["7"]


def test_an_event_that_was_kept_is_checked_too() -> None:
    async def code() -> Any:
        await step("a")
        try:
            await flow.event("e", int)
        except BadArgument as error:
            return str(error)

    driver = Driver(code, Position("1")).start(BEGIN)
    driver.apply(Event("e", "text", BEGIN))
    driver.apply(done(driver, "0"))
    assert driver.ended is not None
    assert driver.ended.value == "the event e must be int, not str."


def test_the_type_of_an_event_has_a_codec() -> None:
    with pytest.raises(TypeError, match="the event 'e' is a Thread, which JSON does not have: write a dataclass"):
        flow.event("e", Thread)


def test_a_kept_and_raised_again_problem_of_a_step_is_not_the_kits_refusal(harness: Harness) -> None:
    app = Function("late")

    @app.task
    def fail() -> None:
        raise Problem("no")

    @app.flow
    async def later() -> None:
        try:
            await fail.call()
        except Problem as problem:
            kept = problem
        await flow.sleep(1)
        raise kept

    harness.add(app)
    later.start("1")
    harness.run()
    assert flows("later", "1").status().state == "failed"


# --- branches, and generators, which are refused ---


async def in_branches() -> list[Any]:
    """Wait in two branches and in a group."""
    return [await flow.all(_branch("a"), _branch("b")), await flow.first(flow.event("go"), flow.sleep(9))]


async def _branch(name: str) -> str:
    await step(name)
    async with flow.lock("till"):
        await flow.sleep(1)
    return name


@types.coroutine
def _as_a_generator() -> Any:
    yield step("a")


def test_a_generator_is_refused_where_a_flow_is_registered_and_where_its_code_waits() -> None:
    def before() -> Iterator[Any]:
        yield step("a")

    with pytest.raises(TypeError, match="before is a generator: write `async def`, and `await` instead of `yield`"):
        Function("shop").flow(before)  # type: ignore[arg-type]  # what is refused

    async def waits(branch: Any) -> None:
        await flow.all(branch)

    for branch in (before(), _as_a_generator()):
        with pytest.raises(Stuck, match=r"waits for the generator .*Write `async def`, with `await`"):
            Driver(partial(waits, branch), Position("1")).start(BEGIN)


def test_the_place_is_the_innermost_of_the_users_code() -> None:
    driver = Driver(in_branches, Position("1")).start(BEGIN)
    driver.apply(done(driver, "0.0.0"))
    first_line = _branch.__code__.co_firstlineno
    assert driver.pending["0.0.1"].location == f"test_coroutines.py:{first_line + 2} in _branch"


def test_a_dropped_coroutine_runs_its_clean_up_without_effects_and_without_a_warning() -> None:
    ran: list[str] = []

    async def code() -> None:
        try:
            async with flow.lock("till"):
                await flow.all(_branch("a"), _branch("b"))
        finally:
            ran.append("closed")
            await step("undo")
            ran.append("never")

    driver = Driver(code, Position("1")).start(BEGIN)
    lease = {"semaphore": "till", "id": "1", "token": 1, "ends_at": "2026-01-01T00:10:00Z"}
    driver.apply(done(driver, "0", lease))
    driver.drop()
    assert (ran, set(driver.held)) == (["closed"], {"0"})


@pytest.mark.filterwarnings("error")
def test_a_coroutine_that_a_clean_up_creates_while_it_is_closed_is_closed_too() -> None:
    async def code() -> None:
        try:
            await flow.sleep(1)
        finally:
            await flow.shield(flow.all(_branch("a"), _branch("b")))

    Driver(code, Position("1")).start(BEGIN).drop()
    gc.collect()


# --- what is refused ---


async def sleeps_in_asyncio() -> None:
    await asyncio.sleep(1)


async def awaits_a_future() -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("code", [sleeps_in_asyncio, awaits_a_future])
def test_an_await_of_asyncio_is_stuck_with_what_to_write(code: Callable[[], Any]) -> None:
    with pytest.raises(Stuck, match=r"write `flow.sleep` instead of `asyncio.sleep`") as stuck:
        Driver(code, Position("1")).start(BEGIN)
    assert stuck.value.location.startswith("test_coroutines.py:")


def test_asyncio_is_refused_when_the_flow_is_loaded() -> None:
    with pytest.raises(TypeError, match=r"test_coroutines.py:\d+: in a flow, asyncio.sleep\(\) needs an event loop"):
        Function("f").flow(sleeps_in_asyncio)


def test_a_flow_is_a_coroutine_function() -> None:
    def plain() -> int:
        return 1

    async def both() -> Any:
        yield 1

    with pytest.raises(TypeError, match="plain is not `async def`"):
        Function("f").flow(plain)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match="both has `yield` in `async def`"):
        Function("f").flow(both)
    with pytest.raises(TypeError, match="is not a function: write the flow as `async def`"):
        Function("f").flow(partial(helper))


def pack(item: str) -> str:
    return item


packing: Task[[str], str] = Function("packing").task(pack)


async def helper() -> None:
    await flow.sleep(1)


async def forgets_a_command() -> None:
    flow.sleep(1)
    await flow.sleep(2)


async def forgets_a_call() -> None:
    packing.call("tea")
    await flow.sleep(2)


async def forgets_a_coroutine() -> None:
    helper()  # type: ignore[unused-coroutine]  # what is refused
    await flow.sleep(2)


def yields() -> Iterator[Any]:
    yield flow.sleep(1)


async def yields_in_a_loop() -> AsyncIterator[int]:
    await flow.sleep(1)
    yield 1


async def forgets_a_generator() -> None:
    yields()
    await flow.sleep(2)


async def forgets_an_asynchronous_generator() -> None:
    yields_in_a_loop()
    await flow.sleep(2)


async def forgets_a_callback() -> None:
    flow.callback("approved", expires_seconds=60, through="shop")
    await flow.sleep(2)


async def misspells() -> None:
    await flow.sleeep(2)  # type: ignore[attr-defined]  # what is refused


async def waits_for_a_text() -> None:
    await flow.event("go", "str")


async def waits_for_an_event_of_asyncio() -> None:
    await flow.event("go", asyncio.Event)


async def waits_for_an_update_with_a_thread() -> None:
    await flow.first(flow.sleep(2), flow.update("go", type=Thread))


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        (waits_for_a_text, r"the type of flow.event\(\) is the text 'str': write the type itself, without quotes"),
        (waits_for_an_event_of_asyncio, r"the type of flow.event\(\) is a Event, which JSON does not have"),
        (waits_for_an_update_with_a_thread, r"the type of flow.update\(\) is a Thread, which JSON does not have"),
        (forgets_a_command, r"flow.sleep\(\) has no effect without `await`: write await flow.sleep\(…\)"),
        (forgets_a_call, r"packing.call\(\) has no effect without `await`"),
        (forgets_a_coroutine, r"helper\(\) has no effect without `await`"),
        (forgets_a_generator, r"yields\(\) has no effect: a function with `yield` runs only in a loop"),
        (forgets_an_asynchronous_generator, r"yields_in_a_loop\(\) has no effect"),
        (forgets_a_callback, r"flow.callback\(\) has no effect without `await`"),
        (misspells, r"flow.sleeep does not exist: did you mean flow.sleep\?"),
    ],
)
def test_a_visible_mistake_is_refused_when_the_flow_is_loaded(code: Callable[[], Any], detail: str) -> None:
    line = code.__code__.co_firstlineno + 1
    with pytest.raises(TypeError, match=rf"test_coroutines.py:{line}: in a flow, {detail}"):
        Function("f").flow(code)


@dataclass
class Parcel:
    lines: list["Line"]  # its class is defined below the flow


async def waits_for_what_is_defined_below() -> Any:
    return await flow.event("go", Parcel)


def test_a_type_that_uses_a_class_below_the_flow_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as loading:
        loading.delitem(globals(), "Line")
        Function("f").flow(waits_for_what_is_defined_below)
    with pytest.raises(TypeError, match="is the text 'str'"):
        flow.update("go", "str")
    assert Parcel([Line("tea")]) == parse({"lines": [{"item": "tea"}]}, Parcel)


@dataclass
class Line:
    item: str


async def hides_flow_in_a_lambda(flights: list[Any]) -> Any:
    return sorted(flights, key=lambda flow: flow.total)


async def hides_flow_in_a_comprehension(flights: list[Any]) -> Any:
    return [flow.total for flow in flights]


async def hides_flow_in_a_nested_function(flights: list[Any]) -> Any:
    def total(flow: Any) -> Any:
        return flow.total

    return total(flights[0])


def hiding_flow_around_it(flow: Any) -> Callable[[], Any]:
    async def hidden() -> Any:
        return flow.total

    return hidden


@pytest.mark.parametrize(
    "code",
    [
        hides_flow_in_a_lambda,
        hides_flow_in_a_comprehension,
        hides_flow_in_a_nested_function,
        hiding_flow_around_it(None),
    ],
)
def test_a_name_that_hides_flow_is_not_refused(code: Callable[..., Any]) -> None:
    Function("f").flow(code)


def test_a_forgotten_command_that_the_source_does_not_show_is_stuck_at_the_next_await(harness: Harness) -> None:
    app = Function("f")
    create = flow.sleep

    @app.flow
    async def forgets() -> None:
        create(1)
        await flow.sleep(2)

    harness.add(app)
    forgets.start("1")
    with pytest.raises(TaskFailed, match=r"neither awaited nor sent it: flow.sleep\(\)"):
        harness.run()


def test_first_takes_its_commands_by_position_or_by_name() -> None:
    first: Callable[..., Any] = flow.first
    for items, named in (((), {}), ((flow.sleep(1),), {"late": flow.sleep(2)})):
        with pytest.raises(TypeError, match="by position, or all by name"):
            first(*items, **named)


# --- calls ---


def test_arguments_of_a_call_may_be_passed_by_position(parts: Shop) -> None:
    charge: Task[..., str] = parts["charge"]
    assert charge.call("7", 3).payload == {"order": "7", "amount": 3}
    for args, kwargs in ((("7", 3, 4), {}), (("7",), {"order": "8"})):
        with pytest.raises(WrongArguments):
            charge.call(*args, **kwargs)


def test_what_the_kit_fills_is_not_passed_by_position() -> None:
    @Function("press").task
    def stamp(lease: Lease, sheet: int) -> int:
        return sheet

    assert stamp.call(5).payload == {"sheet": 5}


# --- shields ---


def shielded(what: Callable[[], Any]) -> Callable[[], Any]:
    """Return a flow that shields what it waits for, and then waits for an event."""

    async def code() -> Any:
        seen: list[Any] = []
        try:
            seen.append(await flow.shield(what()))
            seen.append(await flow.event("next"))
        except flow.Cancelled:
            seen.append("cancelled")
        return seen

    return code


async def undoing() -> str:
    await step("a")
    await flow.sleep(1)
    return "undone"


@pytest.mark.parametrize(
    ("what", "paths", "result"),
    [
        (lambda: step("a"), ("0",), 5),
        (undoing, ("0.0", "0.1"), "undone"),
        (lambda: flow.all(step("a"), undoing()), ("0.0", "0.1.0", "0.1.1"), [5, "undone"]),
        (lambda: flow.first(flow.sleep(5), flow.shield(step("a"))), ("0.1",), (1, 5)),
    ],
)
def test_a_cancel_waits_for_what_is_shielded_and_is_raised_at_the_next_await(
    what: Callable[[], Any], paths: tuple[str, ...], result: Any
) -> None:
    driver = Driver(shielded(what), Position("1")).start(BEGIN)
    driver.apply(Cancel("", BEGIN))
    for path in paths:
        assert driver.ended is None
        driver.apply(done(driver, path, 5))
    assert driver.ended is not None
    assert driver.ended.value == [result, "cancelled"]


def test_a_cancel_waits_for_a_shielded_part_of_a_group_and_is_raised_at_the_group() -> None:
    async def code() -> Any:
        try:
            await flow.all(flow.shield(step("a")), flow.sleep(60))
        except flow.Cancelled:
            return "cancelled"

    driver = Driver(code, Position("1")).start(BEGIN)
    driver.apply(Cancel("", BEGIN))
    assert (set(driver.pending), driver.ended) == ({"0.0"}, None)
    driver.apply(done(driver, "0.0", 5))
    assert driver.ended is not None
    assert driver.ended.value == "cancelled"


def test_an_error_of_another_branch_waits_for_what_is_shielded() -> None:
    async def code() -> Any:
        await flow.all(flow.shield(step("a")), step("b"))

    driver = Driver(code, Position("1")).start(BEGIN)
    driver.apply(done(driver, "0.1", error="no"))
    assert (set(driver.pending), driver.ended) == ({"0.0"}, None)
    driver.apply(done(driver, "0.0", 5))
    assert driver.ended is not None
    assert "no" in str(driver.ended.exception())


def test_a_shield_is_added_around_what_a_run_waits_for() -> None:
    async def without() -> Any:
        return [await step("a"), await flow.event("next")]

    entries: list[Message] = [done(Driver(without, Position("1")).start(BEGIN), "0", 5), Event("next", 6, BEGIN)]
    old, new = (Driver(code, Position("1")).start(BEGIN) for code in (without, shielded(lambda: step("a"))))
    for entry in entries:
        assert shown(old.apply(entry)) == shown(new.apply(entry))


def test_a_shielded_coroutine_is_not_taken_by_first() -> None:
    code = undoing()
    with pytest.raises(TypeError, match="not coroutines"):
        flow.first(flow.shield(code), flow.sleep(1))
    code.close()


def test_a_cancelled_flow_waits_for_its_step_and_then_undoes_it(harness: Harness) -> None:
    app = Function("till")
    did: list[str] = []

    @app.task
    def charge() -> None:
        run.cancel()  # while it is charged
        did.append("charged")

    @app.task
    def undo() -> None:
        did.append("undone")

    @app.flow
    async def sale() -> None:
        try:
            await flow.shield(charge.call())
            await flow.sleep(60)
        except flow.Cancelled:
            await flow.shield(undo.call())
            raise

    harness.add(app)
    run = sale.start("1")
    harness.run()
    assert (did, run.status().state) == (["charged", "undone"], "cancelled")


@pytest.mark.parametrize("seconds", [0, 3])
def test_a_cancel_that_is_due_when_a_flow_continues_as_new_is_raised_in_the_next_generation(
    harness: Harness, seconds: float
) -> None:
    app = Function("loops")
    cleaned_up: list[int] = []

    @app.task
    def clean_up(number: int) -> None:
        cleaned_up.append(number)

    @app.flow
    async def loop(number: int) -> Any:
        if number < 1:
            await flow.shield(flow.sleep(10))
            return flow.continue_as_new(number=number + 1)
        try:
            await flow.event("never")
        finally:
            await clean_up.call(number)

    harness.add(app)
    run = loop.start("1", number=0)
    harness.travel(seconds)
    run.event("kept", 5)
    run.cancel("enough")
    harness.run()
    assert (run.status().state, cleaned_up) == ("cancelled", [1])
    replay(loop, run.log())


def with_due_cancel(code: Callable[[], Any]) -> Driver:
    """Return code that begins with a shielded command, which ends after a cancel."""
    driver = Driver(code, Position("1")).start(BEGIN)
    driver.apply(Cancel("enough", BEGIN))
    return driver.apply(done(driver, "0"))


def test_a_cancel_that_is_due_is_raised_before_what_is_not_shielded() -> None:
    for after in (lambda: step("b"), lambda: flow.all(step("b"), _branch("c")), flow.all):

        async def code(after: Callable[[], Any] = after) -> Any:
            await flow.shield(step("a"))
            await after()

        driver = with_due_cancel(code)
        assert (driver.pending, ended_with(driver)) == ({}, "cancelled: enough")


def ended_with(driver: Driver) -> Any:
    if driver.ended is None:
        return None
    error = driver.ended.exception()
    return f"cancelled: {error}" if isinstance(error, flow.Cancelled) else error or driver.ended.value


def test_a_shielded_clean_up_runs_although_a_cancel_is_due_from_the_shield_before_it() -> None:
    async def code() -> Any:
        try:
            await flow.shield(step("charge"))
            await flow.event("never")
        finally:
            await flow.shield(step("unlock"))

    async def at_once() -> Any:
        try:
            return await flow.shield(step("charge"))
        finally:
            await flow.shield(step("unlock"))
            await flow.shield(step("tell"))

    driver = with_due_cancel(code)
    assert list(driver.pending) == ["2"]
    assert ended_with(driver.apply(done(driver, "2"))) == "cancelled: enough"
    driver = with_due_cancel(at_once)
    for path in ("1", "2"):
        assert list(driver.pending) == [path]
        driver.apply(done(driver, path))
    assert driver.ended == CallOutcome(None)


def test_a_clean_up_after_a_shielded_failure_runs_although_a_cancel_is_due() -> None:
    async def code() -> Any:
        try:
            await flow.shield(step("charge"))
        except (Problem, flow.Cancelled):
            await flow.shield(step("refund"))
            raise

    driver = Driver(code, Position("1")).start(BEGIN)
    driver.apply(Cancel("enough", BEGIN))
    driver.apply(done(driver, "0", error="no"))
    assert list(driver.pending) == ["1"]
    driver.apply(done(driver, "1"))
    assert isinstance(ended_with(driver), Problem)


def test_the_shielded_parts_of_a_group_begin_although_a_cancel_is_due() -> None:
    groups: list[tuple[Callable[[], Any], list[str]]] = [
        (lambda: flow.all(flow.shield(step("b")), flow.shield(step("c")), step("d"), _branch("e")), ["1.0", "1.1"]),
        (lambda: flow.settled(flow.shield(step("b")), flow.all(step("c"), flow.shield(step("d")))), ["1.0", "1.1.1"]),
        (lambda: flow.wait_for(flow.shield(step("b")), 60), ["1.0", "1.1"]),
    ]
    for group, begun in groups:

        async def code(group: Callable[[], Any] = group) -> Any:
            await flow.shield(step("a"))
            await group()
            await flow.event("never")

        driver = with_due_cancel(code)
        assert (sorted(driver.pending), driver.ended) == (begun, None)
        for path in begun:
            if path in driver.pending:
                driver.apply(done(driver, path))
        assert (driver.pending, ended_with(driver)) == ({}, "cancelled: enough")


def test_a_patch_of_an_earlier_generation_does_not_run_its_old_code_in_the_next_one(harness: Harness) -> None:
    app = Function("patches")

    @app.flow
    async def loop(seen: list[bool]) -> Any:
        if not seen:
            await flow.sleep(1)
            await flow.sleep(1)
        seen.append(flow.patched("discount"))
        await flow.sleep(1)
        return flow.continue_as_new(seen=seen) if len(seen) < 3 else seen

    harness.add(app)
    run = loop.start("1", seen=[])
    harness.run()
    assert run.status().result == [True, True, True]


def test_a_cancel_ends_a_loop_over_generations_in_which_every_wait_is_shielded(harness: Harness) -> None:
    app = Function("polls")
    worked: list[int] = []

    @app.task
    def work(number: int) -> None:
        worked.append(number)
        if number == 2:
            run.cancel("enough")

    @app.flow
    async def poll(number: int = 0) -> Any:
        try:
            await flow.shield(work.call(number))
        except flow.Cancelled as cancel:
            await flow.shield(work.call(-1))
            raise flow.Cancelled(f"{cancel} of it") from cancel
        return flow.continue_as_new(number=number + 1) if number < 50 else worked

    harness.add(app)
    run = poll.start("1", number=0)
    harness.run()
    status = run.status()
    assert (status.state, worked) == ("cancelled", [0, 1, 2, -1])
    assert status.error is not None
    assert status.error["detail"] == "enough of it"
    assert [entry["command"] for entry in run.log()["entries"] if "command" in entry] == ["step polls.work"]
    replay(poll, run.log())


@pytest.mark.parametrize(
    "group",
    [
        lambda inner: flow.wait_for(inner, 86_400),
        lambda inner: flow.first(inner, flow.event("other")),
        lambda inner: flow.first_success(inner, flow.event("other")),
        lambda inner: flow.all(flow.first(inner, flow.event("other")), flow.event("more")),
        lambda inner: flow.first(flow.first(inner, flow.sleep(5)), flow.event("other")),
    ],
)
def test_a_cancel_is_raised_once_the_shielded_part_of_what_the_code_waits_for_has_ended(group: Any) -> None:
    for cancelled_first in (True, False):

        async def code() -> Any:
            await group(flow.all(flow.shield(step("charge")), flow.event("approved")))

        driver = Driver(code, Position("1")).start(BEGIN)
        [path] = [path for path, pending in driver.pending.items() if pending.command.kind == "step"]
        entries: list[Message] = [Cancel("enough", BEGIN), done(driver, path)]
        for entry in entries if cancelled_first else reversed(entries):
            assert driver.ended is None
            driver.apply(entry)
        assert (driver.pending, ended_with(driver)) == ({}, "cancelled: enough")


def test_a_first_success_whose_shielded_command_fails_is_cancelled_then() -> None:
    async def code() -> Any:
        await flow.first_success(flow.shield(step("a")), flow.event("b"))

    driver = Driver(code, Position("1")).start(BEGIN)
    driver.apply(Cancel("enough", BEGIN))
    driver.apply(done(driver, "0.0", error="no"))
    assert (driver.pending, ended_with(driver)) == ({}, "cancelled: enough")


def test_an_error_in_a_group_ends_a_sibling_whose_shielded_part_has_ended() -> None:
    async def code() -> Any:
        await flow.all(step("bad"), flow.wait_for(flow.all(flow.shield(step("a")), flow.event("b")), 86_400))

    for first, then in (("0.0", "0.1.0.0.0"), ("0.1.0.0.0", "0.0")):
        driver = Driver(code, Position("1")).start(BEGIN)
        for path in (first, then):
            driver.apply(done(driver, path, error="no") if path == "0.0" else done(driver, path))
        assert driver.pending == {}
        assert isinstance(ended_with(driver), Problem)


def test_the_first_of_several_is_cancelled_only_after_its_shielded_command() -> None:
    async def code() -> Any:
        seen: list[Any] = []
        try:
            seen.append(await flow.first(flow.sleep(5), flow.shield(step("a"))))
            await flow.sleep(1)
        except flow.Cancelled:
            seen.append("cancelled")
        return seen

    driver = Driver(code, Position("1")).start(BEGIN)
    driver.apply(Cancel("", BEGIN))
    assert (set(driver.pending), driver.ended) == ({"0.0", "0.1"}, None)
    driver.apply(done(driver, "0.1", 5))
    assert driver.ended is not None
    assert driver.ended.value == [(1, 5), "cancelled"]


def test_a_shielded_command_that_is_not_the_first_is_abandoned() -> None:
    async def code() -> Any:
        await flow.first(flow.sleep(5), flow.shield(step("a")))
        await flow.sleep(1)

    driver = Driver(code, Position("1")).start(BEGIN)
    driver.apply(done(driver, "0.0"))
    assert set(driver.pending) == {"1"}


def test_a_shielded_event_that_is_kept_decides_before_another_is_taken() -> None:
    async def code() -> Any:
        await step("first")
        return [await flow.first(flow.shield(flow.event("a")), flow.event("b")), await flow.event("b")]

    driver = Driver(code, Position("1")).start(BEGIN)
    for entry in (Event("a", 1, BEGIN), Event("b", 2, BEGIN), done(driver, "0")):
        driver.apply(entry)
    assert driver.ended is not None
    assert driver.ended.value == [(0, 1), 2]


# --- what a run knows of itself, and many steps ---


def test_the_context_names_the_run_its_generation_and_its_parent(harness: Harness) -> None:
    app = Function("nested")

    @app.flow
    async def inner() -> list[Any]:
        known = flow.context()
        return [known.flow, known.parent.key if known.parent else None]

    @app.flow
    async def outer(times: int) -> Any:
        if times:
            return flow.continue_as_new(times=times - 1)
        return [flow.context().flow, flow.context().id, flow.context().generation, await inner.call()]

    harness.add(app)
    run = outer.start("o", times=2)
    harness.run()
    assert run.status().result == ["outer", "o", 2, ["inner", "o"]]
    with pytest.raises(BadFlow, match="works only inside"):
        flow.context()


def test_a_line_is_logged_once_with_the_name_of_its_run(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    app = Function("logs")

    @app.flow
    async def noisy() -> None:
        flow.log.info("begun")
        for number in range(3):
            await flow.sleep(1)
            flow.log.info("slept %d", number)

    harness.add(app)
    with caplog.at_level("INFO", "signalbox.flow"):
        noisy.start("n")
        harness.run()
        flow.log.info("outside")
    assert [record.getMessage() for record in caplog.records if record.name == "signalbox.flow"] == [
        "noisy/n: begun",
        "noisy/n: slept 0",
        "noisy/n: slept 1",
        "noisy/n: slept 2",
        "outside",
    ]


def test_wait_for_abandons_what_takes_too_long(harness: Harness) -> None:
    app = Function("clinic")
    treated: list[str] = []

    @app.task
    def treat(name: str) -> str:
        treated.append(name)
        if name == "bob":
            raise Problem("He is not ready.")
        return "well"

    @app.flow
    async def visit() -> list[str]:
        seen = [await flow.wait_for(flow.event("arrived", str), 60), await flow.wait_for(treat.call("ann"), 60)]
        try:
            await flow.wait_for(flow.step(treat.call("bob"), attempts_max=9, pause_seconds=40), 60)
        except flow.TimedOut as late:
            seen.append(late.slug())
        await flow.sleep(600)
        return seen

    @app.flow
    async def hasty() -> str:
        return await flow.wait_for(flow.event("never", str), 5)

    harness.add(app)
    run = visit.start("1")
    run.event("arrived", "ann")
    harness.run(Faults(duplicate=0.2, reorder=True, seed=5))
    assert run.status().result == ["ann", "well", "timed-out"]
    assert treated.count("bob") <= 4  # two attempts, and their duplicates
    replay(visit, run.log())
    failed = hasty.start("1")
    harness.run()
    assert (failed.status().state, failed.status().error["type"]) == ("failed", "timed-out")


def test_wait_for_takes_no_coroutine() -> None:
    inner = flow.map(step, [])
    with pytest.raises(TypeError, match="not coroutines"):
        flow.wait_for(inner, 5).send(None)
    inner.close()


def test_map_waits_for_many_a_few_at_a_time_and_keeps_their_order(harness: Harness) -> None:
    app = Function("sizes")

    @app.task
    def size_of(file: str) -> int:
        if not file:
            raise Problem("It has no name.")
        return len(file)

    @app.flow
    async def total(files: list[str], at_once: int) -> list[int]:
        return await flow.map(size_of.call, files, at_once=at_once)

    harness.add(app)
    files = ["x" * number for number in range(1, 201)]
    run = total.start("1", files=files, at_once=20)
    assert len(run.status().waiting_for) == 20
    harness.run(Faults(duplicate=0.2, reorder=True, seed=3))
    assert run.status().result == list(range(1, 201))
    replay(total, run.log())
    few = total.start("2", files=["a", "bb"], at_once=90)
    none = total.start("3", files=[], at_once=1)
    bad = total.start("4", files=["a", "", "b"], at_once=2)
    harness.run()
    assert (few.status().result, none.status().result) == ([1, 2], [])
    assert bad.status().error["detail"] == "It has no name."


@pytest.mark.parametrize("at_once", [0, 91])
def test_map_takes_as_many_at_once_as_a_flow_may_wait_for(at_once: int) -> None:
    with pytest.raises(ValueError, match="at_once must be from 1 to 90"):
        flow.map(step, ["a"], at_once=at_once).send(None)


def test_the_units_of_a_flows_batch_run_under_permits(harness: Harness) -> None:
    app = Function("press")
    free: list[bool] = []

    @app.task
    def print_page(page: int) -> int:
        free.append(bool(semaphore("printers").acquire(id=f"between {page}")))
        return page

    @app.flow
    async def printing(pages: int) -> int:
        ended = await flow.batch([print_page.call(page) for page in range(pages)], semaphore="printers")
        return ended["succeeded"]

    harness.add(app)
    semaphore("printers").ensure(permits=1, lease_seconds=600)
    run = printing.start("1", pages=3)
    harness.run()
    assert (run.status().result, free) == (3, [False] * 3)
    assert semaphore("printers").acquire(id="afterwards")


def test_the_units_of_a_flows_batch_fail_without_their_semaphore(harness: Harness) -> None:
    app = Function("press")

    @app.task
    def print_page(page: int) -> int:
        return page

    @app.flow
    async def printing() -> BatchResult:
        return await flow.batch([print_page.call(1)], semaphore="printers")

    harness.add(app)
    run = printing.start("1")
    harness.run()
    assert (run.status().result["succeeded"], run.status().result["failed"]) == (0, 1)


@pytest.mark.parametrize("others", [[], [lambda: step("c")]])
def test_a_cancel_that_is_due_comes_before_what_ends_as_its_group_begins_unless_all_of_the_group_has_ended(
    others: list[Callable[[], Any]],
) -> None:
    async def code() -> Any:
        await flow.shield(step("a"))
        try:
            await flow.all(flow.shield(flow.event("n", int)), *[other() for other in others])
        except (Problem, flow.Cancelled) as error:
            await flow.shield(step("b"))
            return type(error).__name__

    driver = Driver(code, Position("1")).start(BEGIN)
    driver.apply(Event("n", "one", BEGIN))
    driver.apply(Cancel("enough", BEGIN))
    driver.apply(done(driver, "0"))
    assert {name: values for name, values in driver.kept.items() if values} == ({"n": ["one"]} if others else {})
    driver.apply(done(driver, "2"))
    assert driver.ended is not None
    assert driver.ended.value == ("Cancelled" if others else "BadArgument")
