"""Wrong values of callers: an event or a parsed value that does not fit fails the flow, which can handle it."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from signalbox import Function, Problem, flow, flows, parse, semaphore
from signalbox.core.limits import LIMITS
from signalbox.core.problems import BadArgument
from signalbox.flows.machine.commands import NextEvent
from signalbox.flows.machine.driver import Driver, Position
from signalbox.flows.model.messages import Event
from signalbox.testing import Harness
from tests.unit.flows.shops import Shop, flows_of

app = Function("desk")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass
class Approval:
    by: str
    reason: str = ""


@app.flow
async def parsed() -> Any:
    async with flow.lock("till"):
        return parse(await flow.event("approved"), int)


@app.flow
async def careful() -> Any:
    try:
        return parse(await flow.event("approved"), Approval).by
    except BadArgument as error:
        return [error.detail, error.field]


@app.flow
async def typed() -> Any:
    return (await flow.event("approved", Approval)).reason


@app.flow
async def maybe() -> Any:
    approval = await flow.event("approved", Approval | None)
    return approval and approval.by


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        harness.add(app)
        semaphore("till").ensure(permits=1)
        yield harness


def ended(harness: Harness, name: str, *values: Any) -> Any:
    flows(name, "1").start()
    harness.run()
    for value in values:
        flows(name, "1").event("approved", value)
        harness.run()
    return flows(name, "1").status()


def test_a_parsed_value_of_a_caller_fails_the_flow_which_releases_its_lock(harness: Harness) -> None:
    status = ended(harness, "parsed", "not a number")
    assert (status.state, status.error["type"]) == ("failed", "bad-argument")
    assert status.error["detail"] == "value must be int, not str."
    assert harness.get("/semaphores/till").json["free"] == 1
    assert ended(harness, "careful", {"by": 7}).result == ["value.by must be str, not int.", "value"]


def test_an_event_whose_field_its_type_does_not_have_fails_the_flow(harness: Harness) -> None:
    status = ended(harness, "typed", {"by": "ann", "reson": "late"})
    assert (status.state, status.error["detail"]) == (
        "failed",
        "the event approved.reson is not a field of Approval.",
    )


def test_an_event_may_be_of_a_union(harness: Harness) -> None:
    assert ended(harness, "maybe", {"by": "ann"}).result == "ann"


def outcomes(kinds: tuple[type, ...], values: list[Any], position: Position) -> list[Any]:
    """Run code that waits for events of these types, and return the results or the names of the unknown fields."""
    seen: list[Any] = []

    async def code() -> None:
        for kind in kinds:
            try:
                seen.append(await NextEvent("e", kind))
            except BadArgument as error:
                seen.append(error.detail)

    driver = Driver(code, position).start(None)
    for value in values:
        driver.apply(Event("e", value, NOON))
    return seen


def test_a_field_that_newer_code_has_removed_is_ignored_in_a_replay_and_a_refused_event_stays_refused() -> None:
    @dataclass
    class Shorter:
        by: str

    values = [{"by": "ann", "reason": "late"}, {"by": "bob", "x": 1}]
    first = Position()
    assert outcomes((Approval, Approval), values, first) == [
        Approval("ann", "late"),
        "the event e.x is not a field of Approval.",
    ]
    again = replace(first, number=0, committed=3)
    assert outcomes((Shorter, Approval), values, again) == [
        Shorter("ann"),
        "the event e.x is not a field of Approval.",
    ]
    assert outcomes((Approval, Approval), values, Position(committed=3)) == [Approval("ann", "late"), Approval("bob")]


RESULT_BYTES = LIMITS.result_bytes_max - len('""')


@pytest.mark.parametrize(("size", "fits"), [(RESULT_BYTES, True), (RESULT_BYTES + 1, False)])
def test_results_of_steps_and_flows_and_values_of_events_have_one_limit(
    harness: Harness, size: int, fits: bool
) -> None:
    sizes = Function("sizes")

    def long() -> str:
        return "x" * size

    @sizes.task
    def made() -> str:
        return long()

    @sizes.flow
    async def steps() -> list[bool]:
        return [each.ok for each in await flow.settled(made.call(), flow.run(long))]

    @sizes.flow
    async def returns() -> str:
        return long()

    @sizes.flow
    async def waits() -> None:
        await flow.event("long", str)

    harness.add(sizes)
    runs = [code.start("1") for code in (steps, returns, waits)]
    harness.run(raise_errors=False)
    with nullcontext() if fits else pytest.raises(Problem):
        runs[2].event("long", long())
    harness.run(raise_errors=False)
    assert runs[0].status().result == [fits, fits]
    assert [run.status().state for run in runs[1:]] == (["completed"] * 2 if fits else ["stuck", "running"])


@pytest.mark.parametrize("receive", [flow.event, flow.update])
def test_a_name_of_a_caller_that_utf8_cannot_encode_fails_the_run_instead_of_making_it_stuck(receive: Any) -> None:
    async def named() -> Any:
        return await receive(await flow.event("name", str))

    shop = Shop(flows_of(named))
    shop.start("named")
    shop.event("named", "name", "a\udc80")
    shop.settle()
    status = shop.status("named")
    assert (status["state"], status["error"]["type"]) == ("failed", "bad-flow")
