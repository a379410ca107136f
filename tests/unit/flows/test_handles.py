"""Handles: commands that a flow begins now and awaits later, as they complete, or until the first success."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from signalbox import Function, Problem, flow, flows, semaphore
from signalbox.adapters import runtime
from signalbox.flows import sweep
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.machine.driver import Driver, Position
from signalbox.flows.machine.stuck import Stuck
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.messages import Cancel, Event
from signalbox.flows.problems import BadFlow
from signalbox.flows.service import reads
from signalbox.testing import Harness, replay
from tests.unit.flows.random_flows import BEGIN, done, step
from tests.unit.flows.shops import FUNCTION, Shop, flows_of


def begun(code: Callable[[], Any]) -> Driver:
    return Driver(code, Position("seed")).start(BEGIN)


def value_of(driver: Driver) -> Any:
    assert driver.ended is not None
    if driver.ended.raised:
        raise driver.ended.raised
    return driver.ended.value


def waits(driver: Driver) -> dict[str, str]:
    return {path: pending.command.signature for path, pending in driver.pending.items()}


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as entered:
        yield entered


def test_what_was_begun_is_pending_next_to_what_is_awaited() -> None:
    async def code() -> Any:
        handle = flow.begin(step("a"))
        before = handle.done
        got = await step("b")
        return [before, handle.done, got, await handle, await handle]

    driver = begun(code)
    assert waits(driver) == {"0": "step shop.a", "1": "step shop.b"}
    driver.apply(done(driver, "0", "A"))
    assert driver.ended is None
    driver.apply(done(driver, "1", "B"))
    assert value_of(driver) == [False, True, "B", "A", "A"]


def test_the_place_of_a_begun_command_stays_that_of_its_begin() -> None:
    async def code() -> Any:
        handle = flow.begin(flow.all(step("a"), flow.shield(step("b"))))
        await flow.all(step("c"), flow.shield(step("d")))
        return await handle

    driver, line = begun(code), code.__code__.co_firstlineno
    places = {pending.command.signature: pending.location for pending in driver.pending.values()}
    begin, wait = (f"test_handles.py:{line + after} in code" for after in (1, 2))
    assert places == {"step shop.a": begin, "step shop.b": begin, "step shop.c": wait, "step shop.d": wait}
    driver.apply(done(driver, "1.0")).apply(done(driver, "1.1"))
    assert {pending.location for pending in driver.pending.values()} == {begin}


def test_a_problem_of_a_handle_is_raised_at_each_await() -> None:
    async def code() -> Any:
        handle = flow.begin(step("a"))
        (one,) = await flow.settled(handle)
        try:
            await handle
        except Problem as problem:
            return [str(one.error), problem.detail]

    driver = begun(code)
    driver.apply(done(driver, "0", error="bad"))
    assert value_of(driver) == ["bad", "bad"]


def test_a_handle_that_loses_a_first_continues() -> None:
    async def code() -> Any:
        handle = flow.begin(step("a"))
        which, _ = await flow.first(done=handle, late=flow.sleep(60))
        return [which, await handle]

    driver = begun(code)
    driver.apply(done(driver, "1.1"))
    assert waits(driver) == {"0": "step shop.a"}
    driver.apply(done(driver, "0", "A"))
    assert value_of(driver) == ["late", "A"]


def test_a_cancel_ends_the_wait_and_not_what_was_begun() -> None:
    async def code() -> Any:
        handle = flow.begin(step("charge"))
        try:
            await handle
        except flow.Cancelled:
            return ["refund", await handle]

    driver = begun(code)
    driver.apply(Cancel("too late", BEGIN))
    assert waits(driver) == {"0": "step shop.charge"}
    driver.apply(done(driver, "0", "paid"))
    assert value_of(driver) == ["refund", "paid"]


def test_the_end_of_the_code_abandons_what_was_begun() -> None:
    async def code() -> Any:
        flow.begin(flow.all(step("a"), flow.first(step("b"), flow.lock("till"))))
        flow.begin(flow.event("x"))
        await step("c")
        return "over"

    driver = begun(code)
    driver.apply(done(driver, "2"))
    assert (value_of(driver), driver.pending) == ("over", {})


def test_a_handle_can_be_cancelled() -> None:
    async def code() -> Any:
        handle = flow.begin(step("a"))
        await step("b")
        answers = [handle.cancel(), handle.cancel(), handle.done]
        try:
            await handle
        except flow.CommandCancelled as problem:
            return [*answers, problem.slug()]

    driver = begun(code)
    driver.apply(done(driver, "1"))
    assert value_of(driver) == [True, False, True, "command-cancelled"]


def test_several_branches_may_await_one_handle() -> None:
    async def branch(handle: flow.Handle[str]) -> str:
        return (await handle) + "!"

    async def code() -> Any:
        handle: flow.Handle[str] = flow.begin(step("a"))
        return await flow.all(branch(handle), branch(handle), handle)

    driver = begun(code)
    driver.apply(done(driver, "0", "A"))
    assert value_of(driver) == ["A!", "A!", "A"]


def test_a_kept_event_ends_a_handle_at_once() -> None:
    async def code() -> Any:
        await step("a")
        handle = flow.begin(flow.event("x"))
        which, got = await flow.first(handle, flow.event("x"))
        return [which, got, await flow.event("x")]

    driver = begun(code)
    driver.apply(Event("x", 1, BEGIN))
    driver.apply(Event("x", 2, BEGIN))
    driver.apply(done(driver, "0"))
    assert value_of(driver) == [0, 1, 2]


def test_a_handle_that_a_kept_event_has_decided_is_done_and_not_cancelled() -> None:
    async def code() -> Any:
        await step("a")
        handle = flow.begin(flow.event("x"))
        return [handle.done, handle.cancel(), await handle]

    driver = begun(code)
    driver.apply(Event("x", 1, BEGIN))
    driver.apply(done(driver, "0"))
    assert value_of(driver) == [True, False, 1]


def test_a_first_success_that_is_cancelled_begins_nothing_after_a_kept_event_of_another_type() -> None:
    async def fails(handle: Any) -> Any:
        await handle
        raise Problem("no")

    async def code() -> Any:
        go = flow.begin(flow.event("go"))

        async def after() -> Any:
            await go
            return await flow.first_success(flow.event("x", int), step("b"))

        return await flow.all(fails(go), after())

    driver = begun(code)
    driver.apply(Event("x", "not a number", BEGIN))
    driver.apply(Event("go", 1, BEGIN))
    assert driver.pending == {}
    assert driver.ended is not None
    assert str(driver.ended.exception()) == "no"


def test_a_lock_of_a_handle_outlives_a_group_that_fails() -> None:
    async def code() -> Any:
        handle = flow.begin(flow.lock("till"))
        try:
            await flow.all(handle, step("a"))
        except Problem:
            return (await handle).release()

    driver = begun(code)
    lease = {"semaphore": "till", "id": "l", "token": 1, "ends_at": "2026-01-01T00:00:00Z", "granted": {"id": "l"}}
    driver.apply(done(driver, "0", lease))
    driver.apply(done(driver, "1.1", error="bad"))
    assert value_of(driver) is True


def test_as_completed_yields_handles_in_the_order_of_the_log() -> None:
    async def code() -> Any:
        kept = flow.begin(step("c"))
        seen = []
        async for handle in flow.as_completed(step("a"), step("b"), kept):
            seen.append(["c" if handle is kept else "", *(str(one.error or one.result) for one in await both(handle))])
            if len(seen) == 1:
                await step("between")
        return seen

    async def both(handle: flow.Handle[Any]) -> Any:
        return await flow.settled(handle)

    driver = begun(code)
    driver.apply(done(driver, "2", "B"))
    [between] = [path for path, command in waits(driver).items() if command.endswith("between")]
    driver.apply(done(driver, "0", "C"))
    driver.apply(done(driver, "1", error="A"))
    driver.apply(done(driver, between))
    assert value_of(driver) == [["", "B"], ["c", "C"], ["", "A"]]


def test_first_success_waits_for_the_first_that_does_not_raise() -> None:
    async def code() -> Any:
        return await flow.first_success(a=step("a"), b=step("b"), c=step("c"))

    driver = begun(code)
    driver.apply(done(driver, "0.1", error="down"))
    assert waits(driver) == {"0.0": "step shop.a", "0.2": "step shop.c"}
    driver.apply(done(driver, "0.2", "C"))
    assert (value_of(driver), driver.pending) == (("c", "C"), {})


def test_first_success_raises_all_problems_if_all_fail() -> None:
    async def code() -> Any:
        try:
            await flow.first_success(a=step("a"), b=flow.first(step("b")))
        except flow.AllFailed as failed:
            return [failed.detail, {name: error.detail for name, error in failed.errors.items()}]

    driver = begun(code)
    driver.apply(done(driver, "0.1.0", error="down"))
    driver.apply(done(driver, "0.0", error="shut"))
    assert value_of(driver) == ["None of 2 commands succeeded. a: shut; b: down", {"a": "shut", "b": "down"}]


def test_first_success_takes_a_second_event_only_if_the_first_is_not_of_its_type() -> None:
    async def code() -> Any:
        await step("a")
        which, got = await flow.first_success(flow.event("x", int), flow.event("x", str), flow.event("x", str))
        return [which, got, await flow.event("x")]

    driver = begun(code)
    for value in ("no number", "one", "two"):
        driver.apply(Event("x", value, BEGIN))
    driver.apply(done(driver, "0"))
    assert value_of(driver) == [1, "one", "two"]


def test_a_cancel_reaches_a_first_success() -> None:
    async def code() -> Any:
        await flow.first_success(step("a"), step("b"))

    driver = begun(code)
    driver.apply(done(driver, "0.0", error="down"))
    driver.apply(Cancel("late", BEGIN))
    assert driver.pending == {}
    with pytest.raises(flow.Cancelled, match="late"):
        value_of(driver)


def test_coroutines_cannot_be_begun_and_nothing_begins_outside_of_a_flow() -> None:
    async def branch() -> None: ...

    for refused in (flow.begin, flow.as_completed, flow.first_success):
        code = branch()
        with pytest.raises(TypeError, match="takes commands, not coroutines"):
            refused(code)
        code.close()
    with pytest.raises(BadFlow, match="only inside"):
        flow.begin(flow.sleep(1))


def test_a_handle_of_another_run_is_refused() -> None:
    handles = []

    async def code() -> Any:
        handles.append(flow.begin(step("a")))
        return await handles[0]

    begun(code)
    with pytest.raises(Stuck, match="a handle of another run"):
        begun(code)


def test_more_handles_than_a_flow_may_wait_for_make_it_stuck() -> None:
    async def code() -> Any:
        handles = [flow.begin(step("a")) for _ in range(91)]
        return await flow.all(*handles)

    with pytest.raises(Stuck, match="at most 90 commands"):
        begun(code)


def test_a_run_begins_steps_sub_flows_and_inline_steps_and_abandons_the_rest(harness: Harness) -> None:
    app = Function("shop")
    seen: list[str] = []

    @app.task
    def charge(order: str) -> str:
        seen.append(order)
        return f"receipt of {order}"

    @app.flow
    async def inner() -> str:
        try:
            return await flow.event("never", str)
        except flow.Cancelled:
            seen.append("inner was cancelled")
            raise

    @app.flow
    async def outer() -> list[str]:
        paid, made = flow.begin(charge.call("7")), flow.begin(flow.run(str.upper, "label"))
        flow.begin(inner.call())
        lock = flow.begin(flow.lock("till"))
        await flow.sleep(60)
        held = await lock
        return [await paid, await made, held.semaphore]

    harness.add(app)
    semaphore("till").ensure(permits=1, lease_seconds=600)
    run = outer.start("o")
    harness.travel(30)
    assert seen == ["7"]
    assert [wait["command"] for wait in run.status().waiting_for] == ["flow inner", "sleep"]
    log = run.log()
    harness.run()
    assert run.status().result == ["receipt of 7", "LABEL", "till"]
    assert seen == ["7", "inner was cancelled"]
    assert semaphore("till").acquire(id="free again")
    replay(outer, log)


def test_what_was_begun_does_not_outlive_an_execution(harness: Harness) -> None:
    app = Function("shop")

    @app.flow
    async def rounds(number: int = 0) -> Any:
        handle, begun_at = flow.begin(flow.sleep(60)), flow.now()
        await flow.sleep(30)
        if number == 0:
            return flow.continue_as_new(number=1)
        await handle
        return (flow.now() - begun_at).total_seconds()

    harness.add(app)
    run = rounds.start("r")
    harness.run()
    assert 60 <= run.status().result < 61


def test_a_closed_turn_begins_nothing(harness: Harness) -> None:
    app = Function("shop")

    @app.flow
    async def careful() -> None:
        try:
            await flow.event("x")
        finally:
            handle = flow.begin(flow.sleep(60))
            await handle

    harness.add(app)
    run = careful.start("c")
    harness.run()
    assert [wait["command"] for wait in run.status().waiting_for] == ["event x"]


# --- an id for a sub-flow ---


def ships(harness: Harness) -> dict[str, Any]:
    app = Function("shop")
    seen: list[str] = []

    @app.flow
    async def ship(order: str) -> str:
        try:
            return await flow.event("shipped", str)
        except flow.Cancelled:
            seen.append(f"{order} was cancelled")
            raise

    @app.flow
    async def purchase(order: str, ids: list[str]) -> list[str]:
        shipped = await flow.settled(*[ship.call_as(each, order) for each in ids])
        return [str(each.error or each.result) for each in shipped]

    @app.flow
    async def patient(taken: str) -> str:
        for attempt in range(200):
            try:
                return await ship.call_as(taken if attempt == 0 else f"{taken}-{attempt}", "x")
            except Problem as problem:
                if problem.slug() != "flow-exists":
                    raise
        return "none is free"

    @app.flow
    async def chain(key: str) -> str:
        await flow.run(str.upper, "a")
        return await ship.call_as(key, "x")

    harness.add(app)
    return {"ship": ship, "purchase": purchase, "patient": patient, "chain": chain, "seen": seen}


def test_a_sub_flow_has_the_id_that_the_code_gives_it(harness: Harness) -> None:
    shop = ships(harness)
    run = shop["purchase"].start("p", "7", ["ship-7"])
    harness.run()
    assert run.status().waiting_for[0]["command"] == "flow ship"
    flows("ship", "ship-7").event("shipped", "yes")
    harness.run()
    assert run.status().result == ["yes"]
    replay(shop["purchase"], run.log())


def test_an_id_that_is_in_use_is_a_problem_that_the_code_can_handle(harness: Harness) -> None:
    shop = ships(harness)
    shop["ship"].start("taken", "other")
    run = shop["purchase"].start("p", "7", ["taken", "free", "free"])
    harness.run()
    flows("ship", "free").event("shipped", "yes")
    harness.run()
    refused = "There is a run {!r} of ship. Choose another id, or delete it if it has ended."
    assert run.status().result == [refused.format("taken"), "yes", refused.format("free")]
    assert (flows("ship", "taken").status().state, shop["seen"]) == ("running", [])
    replay(shop["purchase"], run.log())


def test_the_code_may_choose_another_id_in_the_same_turn(harness: Harness) -> None:
    shop = ships(harness)
    for taken in ("a", "a-1", "a-2"):
        shop["ship"].start(taken, "other")
    run = shop["patient"].start("p", "a")
    harness.run()
    flows("ship", "a-3").event("shipped", "yes")
    harness.run()
    assert run.status().result == "yes"


def test_a_chain_of_inline_steps_looks_the_id_up(harness: Harness) -> None:
    shop = ships(harness)
    shop["ship"].start("taken", "other")
    for key in ("taken", "free"):
        shop["chain"].start(key, key)
    harness.run()
    assert flows("chain", "taken").status().error["type"] == "flow-exists"
    flows("ship", "free").event("shipped", "yes")
    harness.run()
    assert flows("chain", "free").status().result == "yes"


def test_a_named_sub_flow_is_cancelled_with_its_parent_by_a_cancel_and_a_termination(harness: Harness) -> None:
    shop = ships(harness)
    for how in ("cancel", "terminate"):
        run = shop["purchase"].start(how, how, [f"of {how}"])
        harness.run()
        getattr(run, how)()
        harness.run()
        assert flows("ship", f"of {how}").status().state == "cancelled"
    assert shop["seen"] == ["cancel was cancelled", "terminate was cancelled"]


def test_a_parent_cancels_no_other_run_that_has_the_id_now(harness: Harness) -> None:
    shop = ships(harness)
    shop["purchase"].start("p", "7", ["s"])
    harness.run()
    header = reads.get(runtime.ports(), FlowAddress("purchase", "p"))
    flows("ship", "s").terminate()
    flows("ship", "s").delete()
    shop["ship"].start("s", "another")
    sweep.cancel_sub_flows(runtime.ports(), header)
    harness.run()
    assert (flows("ship", "s").status().state, shop["seen"]) == ("running", [])


def test_an_impossible_id_of_a_sub_flow_is_refused(harness: Harness) -> None:
    run = ships(harness)["purchase"].start("p", "7", ["a/b"])
    harness.run(raise_errors=False)
    assert run.status().problem["type"] == "flow-failed"


def test_a_wait_that_is_abandoned_late_cancels_no_other_run_that_has_the_id_now() -> None:
    async def waiting() -> Any:
        return await flow.event("never")

    async def around() -> Any:
        which, _ = await flow.first(SubFlow(FUNCTION, "waiting", {}, id="w"), flow.sleep(60))
        return which

    shop = Shop(flows_of(waiting, around))
    named = FlowAddress("waiting", "w")
    shop.start("around")
    shop.deliver(shop.take("turn"))
    shop.world.pass_time(61)  # the sleep is over, and no turn has read that
    sweep.terminate(shop.ports, named)
    sweep.delete(shop.ports, named)
    shop.start("waiting", "w")
    shop.settle()
    assert (shop.status("around")["result"], shop.status("waiting", "w")["state"]) == (1, "running")


def test_a_handle_that_is_cancelled_has_ended_whatever_awaits_it_at_once() -> None:
    seen = []

    async def code() -> Any:
        first = flow.begin(step("a"))
        second = flow.begin(flow.shield(first))
        first.cancel()
        seen.append(second.done)

    Driver(code, Position("1")).start(BEGIN)
    assert seen == [True]


def test_a_branch_that_makes_its_group_fail_is_cancelled_at_its_next_await() -> None:
    seen = []

    async def branch(handle: Any) -> None:
        handle.cancel()
        try:
            await handle
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    async def code() -> Any:
        handle = flow.begin(step("a"))
        await flow.all(branch(handle), handle)

    Driver(code, Position("1")).start(BEGIN)
    assert seen == ["Cancelled"]


def test_a_cancel_that_waits_for_shields_leaves_a_group_whose_shields_have_ended_its_results() -> None:
    async def code() -> Any:
        handle = flow.begin(step("a"))
        await flow.shield(step("b"))
        return await flow.all(flow.shield(handle))

    driver = Driver(code, Position("1")).start(BEGIN)
    driver.apply(Cancel("enough", BEGIN))
    driver.apply(done(driver, "0", 5))
    driver.apply(done(driver, "1"))
    assert driver.ended is not None
    assert driver.ended.value == [5]


def test_all_that_await_a_handle_receive_its_outcome_also_a_branch_whose_group_it_fails() -> None:
    seen = []

    async def branch(handle: Any) -> None:
        try:
            await handle
        except BaseException as error:
            seen.append(str(error))
            raise

    async def code() -> Any:
        handle = flow.begin(step("a"))
        await flow.all(branch(handle), handle)

    driver = begun(code)
    driver.apply(done(driver, "0", error="bad"))
    assert seen == ["bad"]


@pytest.mark.parametrize(
    ("group", "raised"),
    [
        (lambda handle: flow.all(flow.first_success(handle), handle), flow.AllFailed),
        (lambda handle: flow.all(handle, flow.first_success(handle)), Problem),
    ],
)
def test_the_outcome_of_a_handle_passes_through_all_groups_around_one_await_before_the_next_receives_it(
    group: Callable[[Any], Any], raised: type[Problem]
) -> None:
    async def code() -> Any:
        await group(flow.begin(step("a")))

    driver = begun(code)
    driver.apply(done(driver, "0", error="bad"))
    with pytest.raises(Problem) as caught:
        value_of(driver)
    assert type(caught.value) is raised


def test_an_await_that_the_outcome_of_its_own_handle_abandons_does_not_receive_it() -> None:
    async def code() -> Any:
        both = flow.begin(flow.all(flow.event("n"), step("a")))
        which, _ = await flow.first(flow.settled(both), both)
        return [which, await both]

    driver = begun(code)
    driver.apply(Event("n", 1, BEGIN))
    driver.apply(done(driver, "0.1", 2))
    assert value_of(driver) == [0, [1, 2]]
