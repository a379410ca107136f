"""What large values of flows cost in addition: requests to Cloud Storage, and the reads and writes with them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.adapters.kept_payloads import KeptPayloads
from signalbox.core.limits import DECLARED
from signalbox.flows import sweep as flows_sweep
from signalbox.flows.machine.commands import batch_of
from signalbox.payloads import sweep
from signalbox.tasks.api import Call
from tests.unit.cost_table import row_cost
from tests.unit.flows.shops import FUNCTION, Shop, flows_of
from tests.unit.flows.test_large_values import DAY_SECONDS, LARGE, parent, relay, returns, takes, waits


@pytest.fixture(autouse=True)
def stored() -> Iterator[None]:
    with mock.patch.dict(DECLARED, {"payloads": "on"}):
        yield


def shop(value: str, *codes: Any) -> Shop:
    return Shop(flows_of(*codes), {"make": lambda _: value, "measure": lambda payload: len(payload["text"])})


def added(work: Callable[[str], Cost]) -> Cost:
    """Return what an operation costs more with a large value than with a small one."""
    large, small = work(LARGE), work("x")
    names = ("round_trips", "reads", "writes", "deletes", "tasks")
    return Cost(**{name: getattr(large, name) - getattr(small, name) for name in names})


def forgotten(at: Shop) -> None:
    assert isinstance(at.ports.payloads, KeptPayloads)
    at.ports.payloads.forget()


def test_a_large_result_is_stored_and_read_by_nothing_else_in_its_process() -> None:
    def result(value: str) -> Cost:
        at = shop(value, relay)
        at.start("relay")
        return at.world.cost_of(lambda: at.deliver(at.take("make")))

    def passed_on(value: str) -> Cost:
        at = shop(value, relay)
        at.start("relay")
        at.deliver(at.take("make"))
        return at.world.cost_of(lambda: at.deliver(at.take("measure")))

    assert added(result) == row_cost("payloads", "result")
    assert added(passed_on) == row_cost("payloads", "passed_on")


async def batches(letters: int) -> None:
    await batch_of([Call(FUNCTION, "make", {"text": f"{part}" * letters}) for part in range(2)], None, "")


def test_the_units_of_a_batch_that_a_run_awaits_are_stored_together() -> None:
    def awaits(value: str) -> Cost:
        at = shop("x", batches)
        start = partial(at.start, "batches", letters=len(value))
        return at.world.cost_of(start)

    assert added(awaits) == row_cost("payloads", "batch", "begun")


def test_another_process_opens_a_large_value_once() -> None:
    def opened(value: str) -> Cost:
        at = shop(value, relay)
        at.start("relay")
        at.deliver(at.take("make"))
        forgotten(at)
        return at.world.cost_of(lambda: at.deliver(at.take("measure")))

    assert added(opened) == row_cost("payloads", "opened")


def test_a_large_result_of_a_sub_flow_is_copied_for_its_parent() -> None:
    def ends(value: str) -> Cost:
        at = shop(value, parent, returns)
        at.start("parent")
        at.deliver(at.take("turn"))
        at.world.ports.payloads.create("x", b"", "")  # type: ignore[union-attr]  # the process has stored something
        return at.world.cost_of(lambda: at.deliver(at.take("make")))

    result = ends(LARGE)
    assert (result.stored, result.copied, result.opened) == (1, 1, 0)
    assert added(ends) == row_cost("payloads", "child")


def test_a_start_with_a_large_argument_and_an_event_with_a_large_value_are_stored_once() -> None:
    def start(value: str) -> Cost:
        at = shop("x", takes)
        return at.world.cost_of(lambda: at.start("takes", text=value))

    def event(value: str) -> Cost:
        at = shop("x", waits)
        at.start("waits")
        return at.world.cost_of(lambda: at.event("waits", "text", value))

    assert added(start) == row_cost("payloads", "start")
    assert added(event) == row_cost("payloads", "event")


def test_a_removal_and_the_sweep_after_it() -> None:
    at = shop(LARGE, relay)
    at.start("relay")
    at.settle()
    at.world.pass_time(40 * DAY_SECONDS)
    sweep.sweep(at.ports)
    idle = at.world.cost_of(lambda: sweep.sweep(at.ports))
    assert idle == row_cost("payloads", "sweep")

    def removal(value: str) -> Cost:
        other = shop(value, relay)
        other.start("relay")
        other.settle()
        other.world.pass_time(40 * DAY_SECONDS)
        return other.world.cost_of(lambda: flows_sweep.sweep(other.ports))

    assert added(removal) == row_cost("payloads", "removal")
    flows_sweep.sweep(at.ports)
    assert at.world.cost_of(lambda: sweep.sweep(at.ports)) == row_cost("payloads", "swept")


def test_a_walk_reads_a_header_for_each_run_with_large_values() -> None:
    at = shop("x", takes)
    for number in range(3):
        at.start("takes", str(number), text=f"{LARGE}{number}")
    at.world.pass_time(2 * DAY_SECONDS)
    walk = at.world.cost_of(lambda: sweep.sweep(at.ports))
    expected = row_cost("payloads", "sweep", "walk", n=3)
    assert walk == replace(expected, writes=1, round_trips=expected.round_trips + 1), "and the place of the walk"
