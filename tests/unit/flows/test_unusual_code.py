"""Flows whose code is unusual: it handles refusals, shares commands, uses Python's own tools, or is wrong."""

import gc
import logging
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import pytest

from signalbox import Function, Problem, flow, flows, semaphore
from signalbox.testing import Harness, TaskFailed, replay


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as entered:
        yield entered


app = Function("yard")
did: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    did.clear()


@app.task
def load(crate: str, count: int = 1) -> str:
    if crate == "broken":
        raise Problem("It is broken.")
    did.append(crate)
    return f"loaded {crate}"


def started(harness: Harness, code: Callable[..., Any], **arguments: Any) -> Any:
    """Return a run of a flow of a function of its own, after its first turn."""
    host = Function("port")
    run = host.flow(code).start("r", **arguments)
    harness.add(app)
    harness.add(host)
    return run


def result_of(harness: Harness, code: Callable[..., Any], **arguments: Any) -> Any:
    """Return the result of a run."""
    run = started(harness, code, **arguments)
    harness.run()
    return run.status().result


def stuck_at(harness: Harness, code: Callable[..., Any], **arguments: Any) -> str:
    """Return why a run is stuck."""
    started(harness, code, **arguments)
    with pytest.raises(TaskFailed):
        harness.run()
    return str(flows(code.__name__, "r").status().problem["detail"])


# --- refused calls ---


@pytest.mark.parametrize(("letters", "count"), [(1, "many"), (200_000, 1)])
def test_a_refused_call_that_the_code_handles_is_refused_by_each_replay(
    harness: Harness, letters: int, count: Any
) -> None:
    async def handles(letters: int, count: Any) -> list[str]:
        got = []
        for each, number in (("x", 1), ("a" * letters, count), ("y", 1)):
            try:
                got.append(await load.call(each, count=number))
            except (Problem, TypeError):
                got.append(await load.call("instead"))
        await flow.sleep(1)
        return got

    run = started(harness, handles, letters=letters, count=count)
    harness.run()
    assert run.status().result == ["loaded x", "loaded instead", "loaded y"]
    assert did == ["x", "instead", "y"]


def test_a_log_with_a_refused_call_is_replayed(harness: Harness) -> None:
    host = Function("port")

    @host.flow
    async def handles(count: Any) -> str:
        try:
            await load.call("a", count=count)
        except TypeError:
            await flow.sleep(1)
        await flow.sleep(1)
        return str(await flow.event("end"))

    run = handles.start("r", count="many")
    harness.add(app)
    harness.add(host)
    harness.run()
    replay(handles, run.log())


def test_commands_on_the_line_of_a_refused_call_are_not_forgotten_ones(harness: Harness) -> None:
    async def handles(count: Any) -> str:
        try:
            await flow.all(load.call("a"), load.call("b", count=count))
        except TypeError:
            await flow.sleep(1)
        return "handled"

    assert result_of(harness, handles, count="many") == "handled"


# --- commands and coroutines that branches share ---


def test_branches_that_enter_one_lock_release_their_own_leases(harness: Harness) -> None:
    async def two() -> Any:
        crane = flow.lock("crane", lease_seconds=600)

        async def lift(seconds: float) -> int:
            async with crane as lease:
                await flow.sleep(seconds)
                return (await lease.renew()).token

        return await flow.all(lift(5), lift(50))

    semaphore("crane").ensure(permits=2, lease_seconds=600)
    assert len(set(result_of(harness, two))) == 2


@pytest.mark.parametrize("at_once", [True, False])
def test_a_coroutine_that_two_branches_wait_for_is_named(harness: Harness, at_once: bool) -> None:
    async def shares(at_once: bool) -> Any:
        async def one() -> str:
            return await load.call("a")

        shared = one()
        return await flow.all(shared, shared) if at_once else [await flow.all(shared), await flow.all(shared)]

    detail = stuck_at(harness, shares, at_once=at_once)
    assert detail.startswith("The code waits twice for one call of one(). Call it once for each (test_unusual_code.py:")


def test_an_event_on_its_way_to_a_first_is_received_before_a_cancel(harness: Harness) -> None:
    async def two() -> Any:
        await flow.sleep(5)
        got: list[Any] = []

        async def fails() -> None:
            raise Problem("One of two.")

        async def waits() -> None:
            got.append(await flow.first(flow.event("ready"), flow.sleep(100)))

        try:
            await flow.all(fails(), waits())
        except Problem:
            return [list(first) for first in got]

    run = started(harness, two)
    run.event("ready", 7)
    harness.run()
    assert run.status().result == [[0, 7]]


def test_events_are_received_in_their_order_by_the_branches_in_theirs(harness: Harness) -> None:
    async def waits() -> Any:
        kept = [await flow.event("kept"), await flow.event("kept")]
        return [kept, await flow.all(flow.event("next"), flow.event("next"))]

    run = started(harness, waits)
    for value in (1, 2, 3):
        run.event("kept" if value < 3 else "other", value)
    harness.run()
    run.event("next", 4)
    harness.run()
    run.event("next", 5)
    harness.run()
    assert run.status().result == [[1, 2], [4, 5]]


def test_a_branch_of_settled_that_raises_a_cancel_raises_it_for_all(harness: Harness) -> None:
    async def waits() -> Any:
        async def gives_up() -> None:
            raise flow.Cancelled("enough")

        try:
            await flow.settled(gives_up(), flow.sleep(100))
        except flow.Cancelled as error:
            return str(error)

    assert result_of(harness, waits) == "enough"


def test_a_branch_that_is_cancelled_before_it_begins_does_not_begin(harness: Harness) -> None:
    async def waits() -> Any:
        async def later() -> None:
            did.append("begun")

        await flow.sleep(1)
        with suppress(Problem):
            await flow.all(flow.event("kept", int), later())
        return "not an int"

    run = started(harness, waits)
    run.event("kept", "x")
    harness.run()
    assert (run.status().result, did) == ("not an int", [])


def test_a_map_begins_nothing_more_after_an_error(harness: Harness) -> None:
    async def loads() -> Any:
        async def each(crate: str) -> str:
            try:
                return await load.call(crate)
            except flow.Cancelled:
                return "not loaded"

        return await flow.map(each, ["a", "broken", *map(str, range(20))], at_once=2)

    started(harness, loads)
    harness.run()
    assert flows("loads", "r").status().error["detail"] == "It is broken."
    assert len(did) < 5


def test_a_map_of_what_cannot_be_awaited_is_stuck_where_it_is_awaited(harness: Harness) -> None:
    async def counts() -> Any:
        return await flow.map(lambda number: number, [1])  # type: ignore[arg-type, return-value]  # what is wrong

    assert "int can't be used in 'await' expression (test_unusual_code.py:" in stuck_at(harness, counts)


def test_a_lock_in_a_group_that_is_not_the_first_is_released_at_once(harness: Harness) -> None:
    async def waits() -> Any:
        await flow.first(flow.all(flow.lock("crane"), flow.event("never")), flow.sleep(3))
        return await flow.event("end")

    semaphore("crane").ensure(permits=1, lease_seconds=600)
    started(harness, waits)
    harness.travel(2)
    assert not semaphore("crane").acquire(id="other")
    harness.travel(2)
    assert semaphore("crane").acquire(id="another")


def test_a_coroutine_that_a_due_cancel_does_not_let_begin_is_closed(harness: Harness) -> None:
    async def loads() -> None:
        async def later() -> None:
            await flow.sleep(1)

        await flow.shield(flow.sleep(5))
        await flow.all(later(), later())

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = started(harness, loads)
        harness.travel(1)
        run.cancel()
        harness.run()
        gc.collect()
    assert (run.status().state, [str(each.message) for each in caught if each.category is RuntimeWarning]) == (
        "cancelled",
        [],
    )


# --- continue_as_new ---


@pytest.mark.parametrize("arguments", [{"unknown": 1}, {"left": "many"}])
def test_a_flow_that_cannot_continue_with_its_arguments_is_stuck_before_it_does(
    harness: Harness, arguments: dict[str, Any]
) -> None:
    async def rounds(arguments: dict[str, Any], left: int = 0) -> Any:
        await flow.sleep(1)
        return flow.continue_as_new(**arguments)

    detail = stuck_at(harness, rounds, arguments=arguments)
    assert detail.startswith("WrongArguments: rounds")
    assert "in rounds)" in detail


def test_a_branch_that_continues_as_new_alone_is_noticed(harness: Harness) -> None:
    async def rounds(left: int = 1) -> int:
        async def last() -> Any:
            await flow.sleep(1)
            return flow.continue_as_new(left=left - 1)

        await flow.all(last())
        return left

    assert stuck_at(harness, rounds).startswith("A branch returned `flow.continue_as_new()`")


def test_a_shielded_coroutine_may_end_with_continue_as_new(harness: Harness) -> None:
    async def rounds(left: int = 1) -> Any:
        async def last() -> Any:
            await flow.sleep(1)
            return flow.continue_as_new(left=left - 1) if left else "done"

        return await flow.shield(last())

    assert result_of(harness, rounds) == "done"


# --- Python's own tools ---


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_dropped_context_manager_runs_its_clean_up_without_effects_and_without_an_error(harness: Harness) -> None:
    @asynccontextmanager
    async def moored() -> AsyncIterator[None]:
        try:
            yield
        finally:
            try:
                await load.call("cast off")
            finally:
                flow.send(load.call("sailed"))

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(3):
                await flow.event("next")
                yield number
        finally:
            await flow.sleep(1)

    async def mooring() -> list[int]:
        async with moored(), moored():
            return [number async for number in numbers()]

    run = started(harness, mooring)
    for _ in range(3):
        harness.travel(1)
        run.event("next")
    harness.run()
    gc.collect()
    assert (run.status().result, sorted(did)) == ([0, 1, 2], ["cast off"] * 2 + ["sailed"] * 2)


@pytest.mark.parametrize(
    ("error", "detail"),
    [(StopIteration("x"), "RuntimeError: coroutine raised StopIteration"), (SystemExit(2), "SystemExit: 2")],
)
def test_an_error_that_ends_more_than_the_flow_is_stuck_with_its_place(
    harness: Harness, error: BaseException, detail: str
) -> None:
    async def ends() -> None:
        await flow.sleep(1)
        raise error

    assert stuck_at(harness, ends).startswith(f"{detail} (test_unusual_code.py:")


def test_a_result_that_no_text_can_hold_is_an_error_of_the_code(harness: Harness) -> None:
    async def counts() -> int:
        await flow.sleep(1)
        return 10**5_000

    assert stuck_at(harness, counts).startswith("The flow's result cannot be written as JSON: Exceeds the limit")


# --- the log ---


def test_a_line_has_the_values_of_its_time_and_any_id(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    host = Function("port")

    @host.flow
    async def logs() -> None:
        crates = ["a"]
        flow.log.info("crates %s", crates)
        crates.append("b")
        flow.log.info("%d", "no number")
        await flow.sleep(1)

    with caplog.at_level(logging.INFO):
        harness.add(host)
        logs.start("50%s")
        harness.run()
    first, second = (line.getMessage() for line in caplog.records if line.name == "signalbox.flow")
    assert first == "logs/50%s: crates ['a']"
    assert second.startswith("logs/50%s: '%d' % ('no number',)")


# --- asynchronous generators ---


async def crates() -> AsyncGenerator[str, None]:
    try:
        for number in range(3):
            yield await load.call(str(number))
    finally:
        await load.call("rest")


async def numbers() -> AsyncIterator[str]:
    try:
        for number in range(3):
            yield await load.call(str(number))
    finally:
        did.append("closed")


async def leaves_a_loop() -> None:
    async for _ in crates():
        break
    await flow.sleep(1)


async def returns_from_a_loop() -> None:
    crates_of_yard = crates()
    async for _ in crates_of_yard:
        return


async def closes_a_generator() -> None:
    async with aclosing(crates()) as crates_of_yard:
        async for _ in crates_of_yard:
            break


async def leaves_one_without_a_wait() -> None:
    async for _ in numbers():
        break
    await load.call("next")


@pytest.mark.parametrize("code", [leaves_a_loop, returns_from_a_loop])
def test_a_generator_that_is_left_early_and_whose_clean_up_waits_is_stuck_with_its_place(
    harness: Harness, code: Callable[..., Any]
) -> None:
    run = started(harness, code)
    harness.run(raise_errors=False)
    problem = run.status().problem
    assert run.status().state == "stuck"
    assert "left crates() early" in problem["detail"]
    assert "aclosing" in problem["detail"]
    assert problem["place"].endswith("in crates")


def test_a_generator_that_is_closed_or_whose_clean_up_does_not_wait_ends(harness: Harness) -> None:
    for code, expected in (
        (closes_a_generator, {"0", "rest"}),
        (leaves_one_without_a_wait, {"0", "closed", "next"}),
    ):
        did.clear()
        run = started(harness, code)
        harness.run()
        assert (run.status().state, {*did}) == ("completed", expected)


# --- results of `first`, and arguments of inline steps ---


@app.task
def weigh(pair: tuple[str, int]) -> tuple[str, int]:
    return pair


def test_the_result_of_first_is_a_tuple_for_results_and_arguments(harness: Harness) -> None:
    async def decides() -> tuple[str, int]:
        return await weigh.call(await flow.first(weight=flow.event("weight", int), late=flow.event("late", int)))

    async def of_any_length() -> tuple[str, ...]:
        return await flow.first(weight=flow.event("weight", str), late=flow.event("late", str))

    for code, value in ((decides, 3), (of_any_length, "3")):
        run = started(harness, code)
        run.event("weight", value)
        harness.run()
        assert run.status().result == ["weight", value]


def test_an_inline_step_cannot_change_lists_of_the_code_so_a_replay_has_the_same_result(harness: Harness) -> None:
    def add(found: list[Any], by_name: dict[str, list[int]]) -> int:
        found.append(1)
        by_name["a"].append(1)
        return len(found)

    async def collects() -> list[Any]:
        found: list[Any] = []
        by_name: dict[str, list[int]] = {"a": []}
        found.append(found)
        lengths = [await flow.run(add, found, by_name=by_name) for _ in range(2)]
        await flow.run(found.append, 3)
        await flow.event("go")
        return [*lengths, len(found), by_name]

    run = started(harness, collects)
    harness.run()
    run.event("go")
    harness.run()
    assert run.status().result == [2, 2, 1, {"a": []}]


class Pair(NamedTuple):
    words: list[str]


def test_an_inline_step_cannot_change_a_received_set_nor_what_is_in_a_named_tuple_or_a_partial(
    harness: Harness,
) -> None:
    def change(tags: set[str], pair: Pair) -> int:
        tags.add("x")
        pair.words.append("x")
        return len(tags) + len(pair.words)

    async def tagged(tags: set[str]) -> list[Any]:
        pair = Pair([])
        seen = [await flow.run(change, tags, pair), await flow.run(partial(change, tags, pair=pair))]
        await flow.run(tags.add, "y")
        return [*seen, sorted(tags), pair.words]

    assert result_of(harness, tagged, tags={"a"}) == [3, 3, ["a"], []]


def test_thousands_of_coroutines_that_do_not_wait_are_not_a_loop(harness: Harness) -> None:
    async def square(number: int) -> int:
        return number * number

    async def squares() -> int:
        return sum(await flow.all(*[square(number) for number in range(6_000)]))

    run = started(harness, squares)
    harness.run()
    assert run.status().result == sum(number * number for number in range(6_000))
