"""A run's time-out: at its deadline it is cancelled, once, whatever tasks are lost."""

from collections.abc import Iterator
from typing import Any

import pytest

from signalbox import Function, Problem, flow, flows
from signalbox.adapters import runtime
from signalbox.core.ports import Query
from signalbox.core.problems import OtherBody
from signalbox.flows import sweep
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.definitions import Flows
from signalbox.flows.model.labels import NO_LABELS
from signalbox.flows.problems import BadFlow
from signalbox.flows.service import reads, starts
from signalbox.mailboxes.model.messages import collection_of
from signalbox.testing import Harness
from tests.unit.flows.shops import FUNCTION, Shop, flows_of

shop = Function("shop")
undone: list[str] = []


@shop.task
def undo(what: str) -> None:
    undone.append(what)


@shop.flow
async def order(what: str = "order") -> str:
    try:
        return await flow.event("paid", str)
    except flow.Cancelled:
        await undo.call(what)
        raise


@shop.flow
async def rounds(number: int = 0) -> Any:
    await flow.sleep(60)
    return flow.continue_as_new(number=number + 1) if number < 100 else number


@shop.flow
async def around() -> str:
    return await order.with_(timeout_seconds=60).call()


@pytest.fixture
def harness() -> Iterator[Harness]:
    undone.clear()
    with Harness() as harness:
        harness.add(shop)
        yield harness


def test_a_run_is_cancelled_at_its_deadline_and_cleans_up(harness: Harness) -> None:
    run = order.with_(timeout_seconds=3_600).start("1", "order 1")
    harness.travel(3_590)
    status = run.status()
    assert (status.state, undone) == ("running", [])
    assert status.deadline_at is not None
    assert 0 < (status.deadline_at - harness.clock.now).total_seconds() <= 10
    harness.travel(20)
    assert (run.status().state, undone) == ("cancelled", ["order 1"])
    assert run.status().error["detail"] == "The run's time-out of 3,600 seconds is over."
    assert [entry["entry"] for entry in run.log()["entries"]] == ["cancel", "done"]


def test_a_run_that_ends_before_its_deadline_is_not_cancelled(harness: Harness) -> None:
    run = order.with_(timeout_seconds=3_600).start("1")
    run.event("paid", "yes")
    harness.travel(7_200)
    assert (run.status().state, undone) == ("completed", [])


def test_continue_as_new_does_not_extend_the_time(harness: Harness) -> None:
    run = rounds.with_(timeout_seconds=630).start("1")
    harness.travel(600)
    before = reads.get(runtime.ports(), run._address)
    assert before.generation >= 8
    harness.travel(60)
    assert run.status().state == "cancelled"


def test_a_deadline_may_be_further_away_than_a_task_can_be(harness: Harness) -> None:
    run = order.with_(timeout_seconds=100 * 86_400).start("1")
    harness.travel(99 * 86_400)
    assert run.status().state == "running"
    harness.travel(2 * 86_400)
    assert run.status().state == "cancelled"


def test_a_repeated_start_must_have_the_same_time_out(harness: Harness) -> None:
    order.with_(timeout_seconds=60).start("1")
    order.with_(timeout_seconds=60).start("1")
    flows("order", "1").with_(timeout_seconds=60).start()
    for other in (order, order.with_(timeout_seconds=61)):
        with pytest.raises(OtherBody, match="other arguments or options"):
            other.start("1")


@pytest.mark.parametrize("seconds", [0, -1, "60", True, float("nan"), LIMITS.flow_timeout_seconds_max + 1])
def test_impossible_time_outs_are_refused(harness: Harness, seconds: Any) -> None:
    with pytest.raises(BadFlow, match="`timeout_seconds` must be a number above 0"):
        order.with_(timeout_seconds=seconds).start("1")


def test_a_start_over_http_has_a_time_out(harness: Harness) -> None:
    answer = harness.call("shop", "/flows/order/1", method="POST", json={"timeout_seconds": 60})
    assert answer.status_code == 201
    shown: Any = harness.call("shop", "/flows/order/1").json
    assert "deadline_at" in shown
    refused = harness.call("shop", "/flows/order/2", method="POST", json={"timeout_seconds": None, "other": 1})
    assert refused.status_code == 400
    harness.travel(70)
    shown = harness.call("shop", "/flows/order/1").json
    assert shown["state"] == "cancelled"


def test_a_sub_flow_has_no_time_out_of_its_own(harness: Harness) -> None:
    run = around.start("1")
    harness.run(raise_errors=False)
    assert "flow.wait_for(order.call(…), seconds)" in run.status().problem["detail"]


def test_a_start_whose_code_is_elsewhere_has_a_time_out(harness: Harness) -> None:
    address = flows("order", "1")._address
    starts.start(runtime.ports(), Flows("other"), "shop", address, {}, None, NO_LABELS, 60)
    harness.travel(70)
    assert flows("order", "1").status().state == "cancelled"


def test_a_chain_of_inline_steps_is_cancelled_between_them() -> None:
    async def chain() -> Any:
        for _ in range(60):
            await flow.run(platform.world.pass_time, 1)

    platform = Shop(flows_of(chain))
    address = flows("chain", "1")._address
    starts.start(platform.ports, platform.flows, FUNCTION, address, {}, timeout_seconds=5)
    platform.settle()
    status = platform.status("chain")
    assert (status["state"], status["error"]["detail"]) == ("cancelled", "The run's time-out of 5 seconds is over.")
    assert 3 < status["log_length"] < 12


def test_a_first_turn_that_ends_the_run_leaves_no_message() -> None:
    async def quick() -> str:
        return "end"

    platform = Shop(flows_of(quick))
    address = flows("quick", "1")._address
    starts.start(platform.ports, platform.flows, FUNCTION, address, {}, timeout_seconds=60)
    assert (platform.status("quick")["result"], platform.world.tasks) == ("end", [])
    assert len(platform.world.store.query(Query(collection_of(address.base)))) == 1


def test_a_lost_wake_up_of_a_deadline_is_enqueued_again() -> None:
    async def waiting() -> Any:
        try:
            await flow.event("never")
        except flow.Cancelled:
            raise Problem("It was late.") from None

    platform = Shop(flows_of(waiting))
    address = flows("waiting", "1")._address
    starts.start(platform.ports, platform.flows, FUNCTION, address, {}, timeout_seconds=10 * 86_400)
    assert [task.task for task in platform.world.tasks] == ["turn"]
    platform.world.tasks.clear()  # a purge, whose names are free a day later
    platform.world.queue.names.clear()
    platform.world.pass_time(LIMITS.flow_patient_seconds + 1)
    sweep.sweep(platform.ports)
    platform.settle()
    assert platform.status("waiting")["error"]["detail"] == "It was late."
