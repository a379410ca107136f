"""The driver of flows: replay restores the position of the code."""

import contextlib
import gc
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, cast

import pytest

from signalbox import Function
from signalbox.batches.problems import BadBatch
from signalbox.core import problems as core_problems
from signalbox.core.problems import Problem, UnknownTask
from signalbox.flows.api import flow
from signalbox.flows.machine.commands import Lock, ObjectCall
from signalbox.flows.machine.driver import Driver, Position, replay
from signalbox.flows.machine.running_flow import is_running
from signalbox.flows.machine.stuck import Stuck
from signalbox.flows.model.log import entries_from_text, entries_to_text
from signalbox.flows.model.messages import Cancel, Event, Message, Result
from signalbox.flows.model.waits import Wait
from signalbox.flows.problems import BadFlow
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.objects.problems import NoSuchMethod
from signalbox.semaphores.problems import BadSemaphore
from tests.unit.flows.random_flows import BEGIN, done, grown, replayed, shown, step

RANDOM_FLOWS = 3_000
Code = Callable[[], Coroutine[Any, Any, Any]]


def begun(code: Code, at: datetime | None = BEGIN) -> Driver:
    return Driver(code, Position("seed")).start(at)


def has_ended(driver: Driver) -> bool:
    return driver.ended is not None


def value_of(driver: Driver) -> Any:
    assert driver.ended is not None
    assert not driver.ended.failed
    return driver.ended.value


def error_of(driver: Driver) -> BaseException | None:
    assert driver.ended is not None
    return driver.ended.exception()


def test_a_replay_of_a_random_flow_restores_its_position() -> None:
    entries = 0
    for seed in range(RANDOM_FLOWS):
        code, driver, log = grown(seed)
        assert shown(replayed(code, str(seed), list(entries_from_text(entries_to_text(log))))) == shown(driver), seed
        entries += len(log)
    assert entries > 8_000


def test_every_prefix_of_a_log_leads_to_one_place() -> None:
    for seed in range(100):
        code, _, log = grown(seed)
        driver = Driver(code, Position(str(seed))).start(BEGIN)
        for number, entry in enumerate(log, 1):
            driver.apply(entry)
            assert shown(driver) == shown(replayed(code, str(seed), log[:number])), (seed, number)


def test_a_result_resumes_the_code_which_schedules_the_next_step() -> None:
    async def code() -> Any:
        paid = await step("charge")
        return await step(f"pack_{paid}")

    driver = begun(code)
    assert [each.command.signature for each in driver.pending.values()] == ["step shop.charge"]
    driver.apply(done(driver, "0", 7))
    assert [each.command.signature for each in driver.pending.values()] == ["step shop.pack_7"]
    driver.apply(done(driver, "1", "end"))
    assert value_of(driver) == "end"


def test_an_error_of_one_of_all_cancels_the_others_and_is_raised_when_they_have_ended() -> None:
    async def other() -> Any:
        try:
            await step("a")
        except flow.Cancelled:
            await step("undo")
            raise

    async def code() -> Any:
        try:
            await flow.all(step("b"), other())
        except Problem as problem:
            return problem.detail

    driver = begun(code)
    driver.apply(done(driver, "0.0", error="broken"))
    assert not has_ended(driver)
    assert [each.command.name for each in driver.pending.values()] == ["shop.undo"]
    driver.apply(done(driver, "0.1.1"))
    assert value_of(driver) == "broken"


def test_a_cancel_reaches_code_whose_group_has_failed_before() -> None:
    async def other() -> Any:
        try:
            await step("a")
        finally:
            await step("undo")

    async def code() -> Any:
        try:
            await flow.all(step("b"), other())
        except Problem:
            return "went on"

    driver = begun(code)
    driver.apply(done(driver, "0.0", error="broken")).apply(Cancel("enough", BEGIN))
    assert [each.command.name for each in driver.pending.values()] == ["shop.undo"]
    driver.apply(done(driver, "0.1.1"))
    assert isinstance(error_of(driver), flow.Cancelled)


def test_a_branch_that_has_not_begun_when_another_fails_does_not_begin() -> None:
    async def fails() -> Any:
        raise Problem("at once")

    async def code() -> Any:
        await flow.all(fails(), _one("a"))

    driver = begun(code)
    assert isinstance(error_of(driver), Problem)
    assert driver.pending == {}


async def _one(name: str) -> Any:
    await step(name)


def test_the_first_of_any_wins_and_the_others_are_abandoned() -> None:
    async def code() -> Any:
        return await flow.first(flow.event("approved"), flow.sleep(60))

    driver = begun(code)
    driver.apply(done(driver, "0.1"))
    assert (driver.pending, driver.ended and driver.ended.value) == ({}, (1, None))


def test_an_event_is_kept_until_the_code_waits_for_it_also_if_any_has_its_first() -> None:
    async def code() -> Any:
        await step("a")
        await flow.first(flow.event("x"), flow.event("y"))
        return await flow.event("y")

    driver = begun(code)
    driver.apply(Event("x", 1, BEGIN)).apply(Event("y", 2, BEGIN))
    driver.apply(done(driver, "0"))
    assert value_of(driver) == 2


def test_settled_gives_errors_as_values() -> None:
    async def code() -> Any:
        results = await flow.settled(step("a"), step("b"))
        return [each.result if each.ok else str(each.error) for each in results]

    driver = begun(code)
    driver.apply(done(driver, "0.0", 1)).apply(done(driver, "0.1", error="no"))
    assert value_of(driver) == [1, "no"]


def test_code_that_diverges_from_its_log_is_stuck_with_the_location_and_advice() -> None:
    async def old() -> Any:
        await step("a")

    async def new() -> Any:
        await step("b")

    entry = done(begun(old), "0")
    with pytest.raises(
        Stuck, match=r"`step shop.a` was recorded at step 0, but .* `step shop.b` \(test_.*flow.patched"
    ) as stuck:
        begun(new).apply(entry)
    assert stuck.value.kind == "flow-changed"
    assert stuck.value.location.startswith("test_flow_driver.py:")
    assert stuck.value.location.endswith(" in new")


def test_an_error_other_than_a_problem_is_stuck_with_the_location() -> None:
    async def code() -> Any:
        await step("a")
        return dict[str, int]()["x"]

    driver = begun(code)
    with pytest.raises(Stuck, match="KeyError: 'x'") as stuck:
        driver.apply(done(driver, "0"))
    assert stuck.value.location.endswith(" in code")


def test_an_awaited_value_that_is_not_a_command_is_refused() -> None:
    async def code() -> Any:
        await flow.all(cast("Any", 5))

    with pytest.raises(Stuck, match="waits for int"):
        begun(code)


@pytest.mark.filterwarnings("ignore:coroutine '_(wait_for|map)' was never awaited")
@pytest.mark.parametrize(
    "forgotten",
    [
        lambda: flow.sleep(5),
        lambda: flow.first(flow.event("a")),
        lambda: flow.event("b"),
        lambda: flow.wait_for(flow.begin(flow.event("c")), 5),
        lambda: flow.map(step, ["d"]),
    ],
)
@pytest.mark.parametrize("ends", [False, True])
def test_a_command_that_is_created_and_not_awaited_is_refused_at_the_next_await_and_at_the_end(
    forgotten: Callable[[], Any], ends: bool
) -> None:
    async def code() -> Any:
        forgotten()
        if not ends:
            await step("a")

    with pytest.raises(Stuck, match="neither awaited nor sent it: flow") as stuck:
        begun(code)
    assert "test_flow_driver.py" in stuck.value.detail


def test_a_command_that_the_code_keeps_may_be_awaited_later() -> None:
    async def code() -> Any:
        undo = flow.step(step("undo"))
        await step("a")
        await undo

    driver = begun(code)
    driver.apply(done(driver, "0"))
    assert driver.pending["1"].command.name == "shop.undo"


def test_a_driver_that_is_dropped_sends_and_releases_nothing() -> None:
    async def code() -> Any:
        try:
            with await flow.lock("till"):
                await step("a")
        finally:
            flow_sends = True
            await step("undo")
            await step("undo again")
            assert flow_sends

    driver = begun(code)
    lease = {"semaphore": "till", "id": "l", "token": 1, "ends_at": "2026-01-01T00:00:00Z"}
    driver.apply(done(driver, "0", lease))
    driver.drop()
    gc.collect()
    assert (driver.sent, list(driver.held)) == ([], ["0"])


def test_a_lock_of_a_module_that_two_runs_have_entered_is_released_by_each_run_for_itself() -> None:
    till = flow.lock("till")

    async def code() -> Any:
        async with till:
            await step("a")
        await step("b")

    first, second = begun(code), begun(code)
    for number, driver in enumerate((first, second)):
        lease = {"semaphore": "till", "id": f"l{number}", "token": number, "ends_at": "2026-01-01T00:00:00Z"}
        driver.apply(done(driver, "0", lease))
    first.apply(done(first, "1"))
    assert (first.held, list(second.held)) == ({}, ["0"])
    second.apply(done(second, "1"))
    assert second.held == {}


def test_a_lock_is_held_until_its_block_ends() -> None:
    async def code() -> Any:
        with await flow.lock("till") as lease:
            await step(lease.semaphore)
        await step("after")

    driver = begun(code)
    lease = {"semaphore": "till", "id": "l", "token": 1, "ends_at": "2026-01-01T00:00:00Z"}
    driver.apply(done(driver, "0", lease))
    assert list(driver.held) == ["0"]
    driver.apply(done(driver, "1"))
    assert driver.held == {}


def test_a_lock_in_a_group_that_failed_is_released() -> None:
    async def code() -> Any:
        try:
            await flow.all(flow.lock("till"), step("a"))
        except Problem:
            await step("after")

    driver = begun(code)
    lease = {"semaphore": "till", "id": "l", "token": 1, "ends_at": "2026-01-01T00:00:00Z"}
    driver.apply(done(driver, "0.0", lease)).apply(done(driver, "0.1", error="no"))
    assert driver.held == {}


def test_a_replay_sends_nothing_again() -> None:
    async def code() -> Any:
        flow.send(step("x"))
        await step("a")
        flow.send(step("y"))
        await step("b")

    driver = begun(code)
    log = [done(driver, "0")]
    assert [call.task for call in driver.sent] == ["x"]
    again = replay(Driver(code, Position("seed")), BEGIN, log)
    assert again.sent == []


def test_time_random_numbers_and_ids_are_the_same_in_a_replay() -> None:
    async def code() -> Any:
        first = (flow.now(), flow.random(), flow.random(), flow.uuid())
        await step("a")
        return (*first, flow.now(), flow.random(), flow.uuid())

    first, second = begun(code), begun(code)
    entry = done(first, "0", at=datetime.fromisoformat("2026-01-02T00:00:00Z"))
    assert first.apply(entry).ended == second.apply(entry).ended
    assert first.ended is not None
    assert len(set(first.ended.value)) == 7
    assert 0 <= first.ended.value[1] < 1


def test_a_start_without_the_time_says_whether_the_code_asked_for_it() -> None:
    async def asks() -> Any:
        flow.now()
        await step("a")

    assert begun(asks, None).position.needs_time
    assert not begun(lambda: _one("a"), None).position.needs_time


def _loop(new: bool) -> Code:
    async def code() -> Any:
        for _ in range(2):
            await step("c" if new and flow.patched("c for a") else "a")

    return code


def test_a_patch_holds_from_its_position_on_also_in_a_loop() -> None:
    old = begun(_loop(new=False))
    log: list[Message] = [done(old, "0")]
    asked = replay(Driver(_loop(new=True), Position(committed=1)), BEGIN, [])
    assert asked.pending["0"].command.name == "shop.a", "the scheduled command does not change"
    driver = replay(Driver(_loop(new=True), Position(committed=1)), BEGIN, log)
    assert driver.pending["1"].command.name == "shop.c"
    again = replay(Driver(_loop(new=True), Position(patches=driver.position.patches, committed=2)), BEGIN, log)
    assert again.pending["1"].command.name == "shop.c"


def test_too_much_at_once_and_endless_loops_are_refused() -> None:
    async def wide() -> Any:
        await flow.all(*[step("a") for _ in range(91)])

    async def endless() -> Any:
        while True:
            await flow.all()

    with pytest.raises(Stuck, match="at most 90 commands at once"):
        begun(wide)
    with pytest.raises(Stuck, match="without waiting"):
        begun(endless)


def test_any_takes_no_coroutines() -> None:
    async def code() -> Any:
        await flow.first(_one("a"))

    with pytest.raises(Stuck, match="not coroutines"):
        begun(code)


def test_an_outcome_may_be_an_error_of_any_kind() -> None:
    outcome = CallOutcome(error={"type": "gave-up", "title": "t", "status": 500, "detail": "d"})
    entry = Result(Wait("", "0", signature="step shop.a"), outcome, BEGIN)
    driver = begun(lambda: _one("a")).apply(entry)
    assert isinstance(error_of(driver), Problem)


@pytest.mark.parametrize(
    "item",
    [lambda: flow.all(_one("a")), lambda: flow.settled(_one("a")), lambda: flow.all(flow.all(_one("a")))],
)
def test_any_takes_no_coroutines_at_any_depth(item: Callable[[], Any]) -> None:
    async def code() -> Any:
        await flow.first(flow.event("x"), item())

    with pytest.raises(Stuck, match="not coroutines"):
        begun(code)


# --- the commands of an `any` ---


def waits_of(driver: Driver) -> list[str]:
    return [f"{path} {pending.command.signature}" for path, pending in driver.pending.items()]


def test_an_any_in_a_list_schedules_all_of_its_commands_although_another_branch_has_an_event() -> None:
    async def approve(name: str) -> Any:
        return await flow.first(flow.event(name), flow.sleep(60))

    async def code() -> Any:
        await step("first")
        return await flow.all(approve("a"), approve("b"))

    driver = begun(code)
    driver.apply(Event("b", 1, BEGIN)).apply(done(driver, "0"))
    assert waits_of(driver) == ["1.0.0.0 event a", "1.0.0.1 sleep"]
    driver.apply(done(driver, "1.0.0.1"))
    assert value_of(driver) == [(1, None), (0, 1)]


def test_an_any_whose_list_has_one_event_of_two_schedules_its_time_out() -> None:
    async def code() -> Any:
        await step("first")
        return await flow.first(flow.all(flow.event("a"), flow.event("b")), flow.sleep(60))

    driver = begun(code)
    driver.apply(Event("a", 1, BEGIN)).apply(done(driver, "0"))
    assert waits_of(driver) == ["1.0.1 event b", "1.1 sleep"]
    driver.apply(done(driver, "1.1"))
    assert value_of(driver) == (1, None)


@pytest.mark.parametrize(
    ("decided", "kept"),
    [
        (lambda: flow.event("a"), ["b"]),
        (lambda: flow.all(flow.event("a"), flow.event("b")), []),
        (lambda: flow.settled(flow.event("a")), ["b"]),
        (lambda: flow.first(flow.event("c"), flow.event("a")), ["b"]),
        (flow.all, ["a", "b"]),
    ],
)
def test_an_any_that_is_decided_at_once_takes_no_other_event(decided: Callable[[], Any], kept: list[str]) -> None:
    async def code() -> Any:
        await step("first")
        await flow.first(decided(), flow.event("a"), flow.event("b"))

    driver = begun(code)
    driver.apply(Event("a", 1, BEGIN)).apply(Event("b", 2, BEGIN)).apply(done(driver, "0"))
    assert has_ended(driver)
    assert [name for name, values in sorted(driver.kept.items()) if values] == kept


# --- a driver that is dropped ---


def test_a_clean_up_of_nested_coroutines_runs_to_its_end_inside_the_flow_when_a_driver_is_dropped() -> None:
    seen: list[str] = []

    async def inner() -> Any:
        try:
            await step("a")
        except BaseException as error:  # noqa: BLE001  its frame and the error refer to each other
            seen.append(type(error).__name__)
            await step("undo")
            await step("never")
        finally:
            seen.append("inner" if is_running() else "outside")

    async def code() -> Any:
        try:
            await inner()
        finally:
            await step("undo too")
            seen.append("not reached")

    driver = begun(code)
    driver.drop()
    gc.collect()
    assert seen == ["GeneratorExit", "inner"]


def test_code_that_never_ends_is_stuck_when_its_driver_is_dropped_and_does_not_run_again() -> None:
    rounds: list[bool] = []
    over: list[bool] = []

    async def code() -> Any:
        while True:
            with contextlib.suppress(BaseException):
                await step("a")
            if over:  # the interpreter drops it too, at its end
                return
            rounds.append(is_running())

    driver = begun(code)
    with pytest.raises(Stuck, match=r"never ends. Catch `Exception` \(test_flow_driver.py"):
        driver.drop()
    ran = len(rounds)
    del driver
    gc.collect()
    assert (len(rounds), all(rounds)) == (ran, True)
    over.append(True)


# --- errors and mistakes ---


class TooFew(Problem):
    """A problem with its own constructor."""

    title = "Too few"

    def __init__(self, left: int) -> None:
        super().__init__(f"Only {left} are left.")
        self.left = left


class TooLarge(Problem):
    """A problem with the name of one of the kit's."""


@pytest.mark.parametrize(
    ("raised", "kinds"),
    [
        (TooFew(3), [TooFew]),
        (TooLarge("It is too large."), [TooLarge, core_problems.TooLarge]),
        (core_problems.TooLarge("It is too large."), [TooLarge, core_problems.TooLarge]),
        (core_problems.GaveUp("Ten times."), [core_problems.GaveUp]),
    ],
)
def test_a_problem_is_raised_in_the_code_as_its_class(raised: Problem, kinds: list[type[Problem]]) -> None:
    async def code() -> Any:
        first, _ = await flow.settled(step("a"), step("b"))
        try:
            await step("c")
        except Problem as problem:
            return [type(error) for error in (first.error, problem)], problem.detail

    driver = begun(code)
    for path in ("0.0", "0.1", "1"):
        command = driver.pending[path].command
        outcome = CallOutcome.from_json(CallOutcome.from_problem(raised).to_json())
        driver.apply(Result(Wait("", path, signature=command.signature), outcome, BEGIN))
    seen, detail = value_of(driver)
    assert detail == raised.detail
    assert all(issubclass(one, kind) for one in seen for kind in kinds)


def test_an_error_outside_of_the_code_is_stuck() -> None:
    driver = begun(lambda: _one("a"))
    driver.ready.append((None, 0, CallOutcome()))
    with pytest.raises(Stuck, match="AttributeError"):
        driver.apply(Event("x", 1, BEGIN))


def test_a_delayed_call_of_a_task_is_not_forgotten() -> None:
    @Function("bakery").task
    def bake(loaf: int) -> None: ...

    async def code() -> Any:
        await bake.call(loaf=1).after(60)
        flow.send(bake.call(loaf=2).after(60))
        delayed = flow.step(bake.call(loaf=3).after(60).after(30))
        await step("a")
        await delayed
        bake.call(loaf=4).after(60)
        await step("b")

    driver = begun(code)
    driver.apply(done(driver, "0")).apply(done(driver, "1"))
    with pytest.raises(Stuck, match=r"neither awaited nor sent it: bake.call\(\)"):
        driver.apply(done(driver, "2"))


def test_continue_as_new_that_is_not_returned_is_refused() -> None:
    async def forgets(more: bool) -> Any:
        await step("a")
        flow.continue_as_new(total=1)
        if more:
            await step("b")

    for more in (True, False):
        driver = begun(partial(forgets, more))
        with pytest.raises(Stuck, match=r"neither awaited nor returned it: flow.continue_as_new\(\).*Return it"):
            driver.apply(done(driver, "0"))


def test_a_generator_expression_is_refused() -> None:
    async def code() -> Any:
        await flow.all(cast("Any", (step(name) for name in "ab")))

    with pytest.raises(Stuck, match=r"generator expression\. Give its items: `flow\.all"):
        begun(code)


def test_the_result_of_an_any_is_compared_with_tuples_only() -> None:
    async def code() -> Any:
        first: Any = await flow.first(step("a"), step("b"))
        assert first == (1, 5)
        assert first != (0, 5)
        return "second" if first == 1 else "first"

    driver = begun(code)
    with pytest.raises(Stuck, match=r"`which, result = await flow\.first"):
        driver.apply(done(driver, "0.1", 5))


def test_a_command_that_cannot_be_is_stuck_and_a_problem_of_the_code_ends_it() -> None:
    async def code(seconds: int) -> Any:
        await step("a")
        if seconds == 0:
            raise BadFlow("The code's own.")
        await flow.sleep(seconds)

    driver = begun(partial(code, -1))
    with pytest.raises(Stuck, match=r"BadFlow: `seconds` must be .* in code\)"):
        driver.apply(done(driver, "0"))
    driver = begun(partial(code, 0))
    assert isinstance(error_of(driver.apply(done(driver, "0"))), BadFlow)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (Lock("till", permits=3), BadSemaphore("`permits` must be at most 2.")),
        (flow.batch([step("unit")]), BadBatch("The batch has no unit.")),
        (ObjectCall("shop", ObjectAddress("Till", "a"), "opne", {}), NoSuchMethod("Till has no method 'opne'.")),
        (step("chrage"), UnknownTask("The function shop has no task 'chrage'.")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_refused_command_that_ends_the_code_is_stuck_and_an_error_that_it_may_handle(
    command: Any, problem: Problem
) -> None:
    async def code(handles: bool) -> Any:
        try:
            await command
        except type(problem):
            if not handles:
                await step("undo")
                raise
        await flow.event("end")

    def refused(driver: Driver) -> Result:
        return replace(done(driver, "0"), outcome=CallOutcome.from_problem(problem))

    driver = begun(partial(code, False))
    driver.apply(refused(driver))
    with pytest.raises(Stuck, match=rf"{type(problem).__name__}: .* in code\)"):
        driver.apply(done(driver, "1"))
    driver = begun(partial(code, True))
    assert [pending.command.signature for pending in driver.apply(refused(driver)).pending.values()] == ["event end"]
