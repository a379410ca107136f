"""Events that a group has received, and that the code does not receive because the group is abandoned or fails."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from signalbox import Function, Problem, flow
from signalbox.flows.machine.driver import Driver, Position
from signalbox.flows.model.messages import Cancel, Event, Update
from signalbox.testing import Harness, replay
from tests.unit.flows.random_flows import BEGIN, done, step


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as cloud:
        yield cloud


def kept(driver: Driver) -> dict[str, list[Any]]:
    return {name: values for name, values in driver.kept.items() if values}


def event(driver: Driver, name: str, value: Any = 1) -> Driver:
    return driver.apply(Event(name, value, BEGIN))


def test_two_signatures_that_come_in_two_rounds_of_a_loop_with_reminders_are_both_received(harness: Harness) -> None:
    app = Function("contracts")
    day = 86_400

    @app.flow
    async def sign() -> list[Any]:
        reminders = 0
        while True:
            try:
                both = flow.all(flow.event("ann", str), flow.event("bob", str))
                return [reminders, *await flow.wait_for(both, day)]
            except flow.TimedOut:
                reminders += 1

    harness.add(app)
    run = sign.start("1")
    harness.travel(day / 2)
    run.event("ann", "A")
    harness.travel(2 * day)
    run.event("bob", "B")
    harness.run()
    assert run.status().result == [2, "A", "B"]
    replay(sign, run.log())


@pytest.mark.parametrize(
    "group",
    [
        lambda both: flow.first(both, flow.event("go")),
        lambda both: flow.first_success(flow.all(both), flow.event("go")),
        lambda both: flow.first(flow.first(flow.all(both), flow.event("go")), step("never")),
        lambda both: flow.all(both, flow.event("go", int)),  # of another type: the group fails
        lambda both: flow.first(flow.settled(flow.shield(both)), flow.event("go")),
    ],
)
def test_the_events_in_the_results_of_an_abandoned_group_are_received_by_the_next_wait(
    group: Callable[[Any], Any],
) -> None:
    async def code() -> Any:
        with suppress(Problem):
            await group(flow.all(flow.event("a"), flow.event("a"), flow.event("b")))
        return [await flow.event("a"), await flow.event("a"), await flow.event("a")]

    driver = Driver(code, Position("1")).start(BEGIN)
    for value in (1, 2):
        event(driver, "a", value)
    event(driver, "a", 3)
    event(driver, "go", "x")
    assert driver.ended is not None
    assert driver.ended.value == [1, 2, 3]


def test_a_reclaimed_event_goes_to_a_command_that_already_waits_for_it() -> None:
    async def code() -> Any:
        group = flow.begin(flow.all(flow.event("a"), flow.event("b")))
        other = flow.begin(flow.event("a"))
        await flow.event("go")
        group.cancel()
        return await other

    driver = Driver(code, Position("1")).start(BEGIN)
    event(event(driver, "a", 1), "go")
    assert driver.ended is not None
    assert driver.ended.value == 1


def test_a_handle_that_is_cancelled_keeps_the_events_it_has_received_for_the_next_line() -> None:
    async def code() -> Any:
        group = flow.begin(flow.all(flow.event("a"), flow.event("b")))
        await flow.event("go")
        group.cancel()
        return await flow.event("a")

    driver = Driver(code, Position("1")).start(BEGIN)
    event(event(driver, "a", 7), "go")
    assert driver.ended is not None
    assert driver.ended.value == 7


def test_a_cancelled_group_keeps_its_events_for_the_clean_up() -> None:
    async def code() -> Any:
        try:
            await flow.all(flow.event("a"), step("never"))
        except flow.Cancelled:
            return await flow.event("a")

    driver = event(Driver(code, Position("1")).start(BEGIN), "a", 7)
    driver.apply(Cancel("enough", BEGIN))
    assert driver.ended is not None
    assert driver.ended.value == 7


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_a_handle_received_and_the_code_did_not_is_passed_on_to_the_next_execution(is_whole: bool) -> None:
    async def code() -> Any:
        flow.begin(flow.event("a") if is_whole else flow.all(flow.event("a"), flow.event("b")))
        lost = flow.begin(flow.event("d"))
        with suppress(Problem):
            await flow.all(lost, flow.begin(step("fails")))
        await flow.begin(flow.event("c"))
        return flow.continue_as_new()

    driver = Driver(code, Position("1")).start(BEGIN)
    event(event(driver, "a", 7), "d", 9)
    [path] = [path for path, pending in driver.pending.items() if pending.command.kind == "step"]
    event(driver.apply(done(driver, path, error="no")), "c", 8)
    assert driver.ended is not None
    assert kept(driver) == {"a": [7], "d": [9]}


def test_an_event_that_is_kept_again_arrives_before_later_ones_in_the_next_execution(harness: Harness) -> None:
    app = Function("contracts")

    @app.flow
    async def sign(generation: int = 0) -> Any:
        if generation:
            return [*await flow.first(flow.event("b"), flow.event("a"))]
        await flow.first(flow.all(flow.event("a"), flow.event("never")), flow.event("go"))
        return flow.continue_as_new(generation=1)

    harness.add(app)
    run = sign.start("1")
    for name in ("a", "b", "go"):
        run.event(name, name.upper())
        harness.run()
    assert run.status().result == [1, "A"]


@pytest.mark.parametrize("renews", [True, False])
def test_a_group_that_fails_does_not_release_a_lock_that_it_has_only_renewed(renews: bool) -> None:
    async def code() -> Any:
        async with flow.lock("till") as held:
            with suppress(Problem):
                await flow.all(held.renew() if renews else step("b"), step("fails"))
            await flow.event("go")

    driver = Driver(code, Position("1")).start(BEGIN)
    lease = {"semaphore": "till", "id": "l", "token": 1, "ends_at": "2026-01-01T00:00:00Z", "granted": {}}
    driver.apply(done(driver, "0", lease))
    driver.apply(done(driver, "1.0", "2026-01-02T00:00:00Z"))
    driver.apply(done(driver, "1.1", error="no"))
    assert [lease["semaphore"] for lease in driver.held.values()] == ["till"]
    driver.drop()


@pytest.mark.parametrize("is_of_user", [True, False])
def test_an_event_that_code_of_the_user_has_received_in_a_map_is_not_kept_again(is_of_user: bool) -> None:
    async def one(name: str) -> Any:
        return await (flow.event(name) if name == "a" else step("fails"))

    def command(name: str) -> Any:
        return flow.event(name) if name == "a" else step("fails")

    async def code() -> Any:
        with suppress(Problem):
            await flow.map(one if is_of_user else command, ["a", "b"])
        await flow.event("go")

    driver = event(Driver(code, Position("1")).start(BEGIN), "a", 7)
    [path] = [path for path, pending in driver.pending.items() if pending.command.kind == "step"]
    driver.apply(done(driver, path, error="no"))
    assert kept(driver) == ({} if is_of_user else {"a": [7]})


@pytest.mark.parametrize(
    "group",
    [
        lambda: flow.first(flow.event("n", int), flow.event("never")),
        lambda: flow.wait_for(flow.event("n", int), 60),
        lambda: flow.all(flow.event("n", int)),
        lambda: flow.first_success(flow.event("n", int)),
        lambda: flow.first(flow.shield(flow.all(flow.event("n", int), step("never"))), flow.event("never")),
        lambda: flow.all(flow.begin(flow.event("n", int))),
    ],
)
def test_the_code_receives_the_error_of_a_wrong_event_once(group: Callable[[], Any]) -> None:
    async def code() -> Any:
        try:
            await group()
        except Problem as problem:
            return [str(problem.detail), await flow.event("n")]

    driver = event(Driver(code, Position("1")).start(BEGIN), "n", "five")
    event(driver, "n", 6)
    assert driver.ended is not None
    assert (driver.ended.value[0].endswith("must be int, not str."), driver.ended.value[1]) == (True, 6)


def test_a_wrong_event_whose_error_the_code_does_not_receive_is_kept() -> None:
    async def code() -> Any:
        with suppress(Problem):
            await flow.all(flow.event("n", int), flow.event("n", int), step("fails"))
        return await flow.event("n")

    driver = Driver(code, Position("1")).start(BEGIN)
    driver.apply(done(driver, "0.2", error="no"))
    event(driver, "n", "five")
    assert driver.ended is not None
    assert driver.ended.value == "five"

    async def twice() -> Any:
        with suppress(Problem):
            await flow.all(flow.event("n", int), flow.event("n", int))
        return await flow.event("n")

    driver = Driver(twice, Position("1")).start(BEGIN)
    event(event(driver, "n", "first"), "n", "second")
    assert driver.ended is not None
    assert driver.ended.value == "second"


def test_a_first_success_abandons_the_rest_although_an_item_failed_behind_a_shield_as_it_began() -> None:
    async def code() -> Any:
        await step("a")
        won = await flow.first_success(flow.first_success(flow.shield(flow.event("n", int))), step("b"), step("c"))
        return [won, await step("d")]

    driver = event(Driver(code, Position("1")).start(BEGIN), "n", "five")
    driver.apply(done(driver, "0"))
    driver.apply(done(driver, "1.1"))
    assert [pending.command.signature for pending in driver.pending.values()] == ["step shop.d"]


def test_an_event_of_an_item_that_failed_as_it_began_goes_to_the_next_item_before_later_ones() -> None:
    async def code() -> Any:
        await step("a")
        return await flow.first_success(
            flow.all(flow.event("n", int), flow.event("n", int)), flow.event("n", int), step("b")
        )

    driver = Driver(code, Position("1")).start(BEGIN)
    for value in ("one", 2, 3):
        event(driver, "n", value)
    driver.apply(done(driver, "0"))
    assert driver.ended is not None
    assert (driver.ended.value, kept(driver)) == ((1, 2), {"n": [3]})


def test_an_item_that_has_ended_is_not_cancelled_by_an_error_of_its_group() -> None:
    async def code() -> Any:
        await step("a")
        flow.begin(flow.all(flow.shield(step("b")), flow.event("n", int), flow.all(flow.event("n", int))))
        await step("c")

    driver = Driver(code, Position("1")).start(BEGIN)
    event(event(driver, "n", "one"), "n", 2)
    driver.apply(done(driver, "0"))
    assert kept(driver) == {}  # the group has not ended: it waits for the shield
    driver.apply(done(driver, "1.0"))
    assert kept(driver) == {"n": [2]}


def test_the_errors_of_wrong_events_that_were_kept_count_in_the_order_of_the_items() -> None:
    async def code() -> Any:
        await step("a")
        flow.begin(flow.all(flow.all(flow.event("n", int)), flow.event("n", int)))
        await step("b")

    driver = Driver(code, Position("1")).start(BEGIN)
    event(event(driver, "n", "one"), "n", "two")
    driver.apply(done(driver, "0"))
    assert kept(driver) == {"n": ["two"]}


def test_events_that_are_kept_again_are_passed_on_in_the_order_of_their_arrival() -> None:
    async def code() -> Any:
        flow.begin(flow.all(flow.event("m"), flow.all(step("a"), flow.event("n"))))
        return await flow.first(flow.event("m"), flow.event("n"))

    driver = Driver(code, Position("1")).start(BEGIN)
    event(event(driver, "n", 1), "m", 2)
    driver.apply(done(driver, "0.1.0", error="bad"))
    assert driver.ended is not None
    assert (driver.ended.value, kept(driver)) == ((1, 1), {"m": [2]})


def test_an_event_of_a_time_out_goes_to_a_handle_before_the_error_ends_the_wait_for_it() -> None:
    received: list[Any] = []

    async def reads() -> None:
        received.extend([await handle async for handle in flow.as_completed(flow.event("a"))])

    async def code() -> None:
        await flow.all(flow.wait_for(flow.settled(step("never"), flow.event("a")), 60), reads())

    driver = event(Driver(code, Position("1")).start(BEGIN), "a", 7)
    [path] = [path for path, pending in driver.pending.items() if pending.command.kind == "sleep"]
    driver.apply(done(driver, path))
    assert received == [7]


def test_branches_are_cancelled_in_their_order_however_deep_their_waits_are_in_groups() -> None:
    cancelled: list[str] = []

    async def branch(name: str, item: Any) -> None:
        try:
            await item
        finally:
            cancelled.append(name)

    async def code() -> None:
        deep, flat = branch("deep", flow.all(flow.event("a"))), branch("flat", flow.event("a"))
        await flow.all(step("fails"), deep, flat)

    driver = Driver(code, Position("1")).start(BEGIN)
    driver.apply(done(driver, "0.0", error="no"))
    assert cancelled == ["deep", "flat"]


def decided_as_it_begins() -> Any:
    """Return a group whose second command takes a kept event, so that the event of its first is kept again."""
    return flow.first(flow.settled(flow.event("n", int), step("never")), flow.event("n", int))


async def on_the_next_line() -> Any:
    flow.begin(decided_as_it_begins())
    return await flow.event("n")


async def in_a_next_handle() -> Any:
    flow.begin(decided_as_it_begins())
    return await flow.begin(flow.event("n"))


async def after_two() -> Any:
    flow.begin(decided_as_it_begins())
    flow.begin(decided_as_it_begins())
    return await flow.event("n")


async def in_an_all() -> Any:
    return (await flow.all(decided_as_it_begins(), flow.event("n")))[1]


async def in_a_settled() -> Any:
    return (await flow.settled(flow.shield(decided_as_it_begins()), flow.event("n")))[1].result


@pytest.mark.parametrize("code", [on_the_next_line, in_a_next_handle, after_two, in_an_all, in_a_settled])
def test_an_event_of_a_group_that_is_decided_as_it_begins_goes_to_the_next_command(
    code: Callable[[], Any],
) -> None:
    async def program() -> Any:
        await step("a")
        return await code()

    driver = Driver(program, Position("1")).start(BEGIN)
    for value in range(4):
        event(driver, "n", value)
    driver.apply(done(driver, "0"))
    assert driver.ended is not None
    assert driver.ended.value == 0


def test_an_update_of_a_group_that_is_decided_as_it_begins_goes_to_the_next_command() -> None:
    async def code() -> Any:
        await step("a")
        flow.begin(flow.first(flow.settled(flow.update("n"), step("never")), flow.update("n")))
        return (await flow.update("n")).value

    driver = Driver(code, Position("1")).start(BEGIN)
    for value in range(3):
        driver.apply(Update("n", value, str(value), BEGIN))
    driver.apply(done(driver, "0"))
    assert driver.ended is not None
    assert driver.ended.value == 0


def test_a_cancel_that_is_due_comes_before_the_errors_of_items_of_an_inner_group() -> None:
    async def code() -> Any:
        await flow.shield(step("a"))
        await flow.all(flow.shield(step("b")), flow.all(step("c"), flow.event("n", int)))

    driver = event(Driver(code, Position("1")).start(BEGIN), "n", "wrong")
    driver.apply(Cancel("enough", BEGIN)).apply(done(driver, "0"))
    assert (list(driver.pending), kept(driver)) == (["1.0"], {"n": ["wrong"]})


def test_a_cancelled_coroutine_that_has_not_begun_ends_before_the_shielded_code_beside_it_runs() -> None:
    received: list[Any] = []

    async def one() -> int:
        return 1

    async def tidy() -> None:
        received.append(await flow.event("a"))
        received.append(await flow.event("a"))

    async def code() -> Any:
        await flow.shield(step("charge"))
        await flow.settled(flow.shield(tidy()), flow.all(one(), flow.event("a")))

    driver = Driver(code, Position("1")).start(BEGIN)
    for value in (1, 2):
        event(driver, "a", value)
    driver.apply(Cancel("enough", BEGIN)).apply(done(driver, "0"))
    assert (received, kept(driver), list(driver.pending)) == ([1, 2], {}, [])


def gives_back() -> Any:
    """Return a group that a wrong event b ends: it gives an event a back, which goes to its own shield."""
    return flow.all(flow.settled(flow.event("a"), step("s")), flow.shield(flow.event("a")), flow.event("b", int))


def test_a_first_that_is_decided_by_an_event_given_back_begins_no_step_and_takes_no_event() -> None:
    async def code() -> Any:
        await step("begin")
        with suppress(Problem):
            await flow.first(gives_back(), step("t"), flow.event("a"))
        return await flow.event("c")

    driver = event(event(Driver(code, Position("1")).start(BEGIN), "a"), "b", "wrong")
    driver.apply(done(driver, "0"))
    assert (list(driver.pending), kept(driver)) == (["2"], {"a": [1]})


def test_a_first_success_abandons_what_begins_after_an_event_given_back_has_ended_an_item() -> None:
    async def code() -> Any:
        await step("begin")
        which, _ = await flow.first_success(flow.all(gives_back(), step("u")), step("t"), step("v"))
        return which, await flow.event("c")

    driver = event(event(Driver(code, Position("1")).start(BEGIN), "a"), "b", "wrong")
    driver.apply(done(driver, "0"))
    assert list(driver.pending) == ["1.1", "1.2"]
    driver.apply(done(driver, "1.1"))
    assert list(driver.pending) == ["2"]
