"""A suspended run: nothing is lost, and nothing is applied until it is resumed."""

import pytest

from signalbox import Function, Problem, flow, flows, semaphore
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.problems import FlowEnded, NoFlow
from signalbox.flows.service import suspensions
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from tests.unit.cost_table import row_cost
from tests.unit.flows.shops import Shop, flows_of, step

app = Function("shop")
ran: list[str] = []


@app.task
def work(name: str) -> str:
    ran.append(name)
    return name


def note(name: str) -> str:
    ran.append(name)
    return name


@app.flow
async def order(inline: bool = False) -> list[str]:
    first = await (flow.run(note, name="first") if inline else work.call(name="first"))
    approved = await flow.event("approved", str)
    await flow.sleep(3600)
    async with flow.lock("till"):
        last = await work.call(name="last")
    return [first, approved, last]


@pytest.fixture(autouse=True)
def shop(harness: Harness) -> Harness:
    ran.clear()
    harness.add(app)
    semaphore("till").ensure(permits=1)
    return harness


@pytest.mark.parametrize("inline", [False, True])
def test_a_run_waits_at_each_of_its_waits_and_continues_with_all_that_came_meanwhile(
    harness: Harness, inline: bool
) -> None:
    run = flows("order", "1")
    order.start("1", inline=inline)
    run.suspend("the printer is broken")
    harness.run()
    assert run.status().log_length == 0
    run.event("approved", "by Ann")
    harness.travel(86_400)
    status = run.status()
    assert (status.state, status.ended, status.log_length) == ("suspended", False, 0)
    assert status.suspended["reason"] == "the printer is broken"
    assert ran == ([] if inline else ["first"])
    run.resume()
    harness.travel(5)
    assert (run.status().state, run.status().log_length) == ("running", 2)
    run.suspend()
    harness.travel(7200)
    assert run.status().log_length == 2
    run.resume()
    harness.run()
    assert run.status().result == ["first", "by Ann", "last"]
    assert ran == ["first", "last"]


def test_the_sweeper_does_not_wake_a_suspended_run(harness: Harness) -> None:
    order.start("1")
    harness.run()
    flows("order", "1").suspend()
    harness.travel(30 * 86_400)
    harness.run_schedule("sweep")
    assert [task for task in harness.tasks if task.task == "turn"] == []
    assert harness.get("shop/flows/order?state=suspended").json["flows"][0]["id"] == "1"
    assert harness.get("shop/flows/order?state=running").json["flows"] == []


def test_a_cancel_takes_effect_when_it_is_resumed_and_a_termination_at_once(harness: Harness) -> None:
    for number in ("1", "2"):
        order.start(number)
        harness.run()
        flows("order", number).suspend()
    flows("order", "1").cancel("too late")
    flows("order", "2").terminate("enough")
    harness.run()
    assert [flows("order", number).status().state for number in ("1", "2")] == ["suspended", "cancelled"]
    flows("order", "1").resume()
    harness.run()
    assert flows("order", "1").status().error["detail"] == "too late"


def test_a_stuck_run_that_is_suspended_is_stuck_again_when_it_is_resumed(harness: Harness) -> None:
    @app.flow
    async def broken() -> None:
        raise KeyError("x")

    harness.add(app)
    broken.start("1")
    harness.run(raise_errors=False)
    run = flows("broken", "1")
    assert run.status().state == "stuck"
    run.suspend()
    assert (run.status().state, run.status().problem["type"]) == ("suspended", "flow-failed")
    run.resume()
    assert run.status().state == "stuck"


def test_over_http(harness: Harness) -> None:
    order.start("1")
    answer = harness.post("shop/flows/order/1/suspend", json={"reason": "a check"})
    assert (answer.status, answer.json) == (200, {"flow": "order", "id": "1"})
    first = harness.get("shop/flows/order/1").json["suspended"]
    assert first["reason"] == "a check"
    assert harness.post("shop/flows/order/1/suspend", json={"reason": "another"}).status == 200
    assert harness.get("shop/flows/order/1").json["suspended"] == first
    assert harness.delete("shop/flows/order/1").status == 409
    assert harness.post("shop/flows/order/1/resume").status == 202
    assert "suspended" not in harness.get("shop/flows/order/1").json
    assert harness.post("shop/flows/order/2/suspend").status == 404
    flows("order", "1").terminate()
    assert harness.post("shop/flows/order/1/suspend").json["type"].endswith("flow-ended")
    with pytest.raises(FlowEnded):
        flows("order", "1").suspend()
    with pytest.raises(NoFlow):
        flows("order", "2").resume()


def test_a_sub_flow_of_a_suspended_run_continues(harness: Harness) -> None:
    @app.flow
    async def parent() -> list[str]:
        return await order.call(inline=True)

    harness.add(app)
    parent.start("p")
    harness.run()
    flows("parent", "p").suspend()
    [child] = [each["id"] for each in harness.get("shop/flows/order").json["flows"]]
    flows("order", child).event("approved", "by Ann")
    harness.run()
    assert (flows("order", child).status().state, flows("parent", "p").status().state) == ("completed", "suspended")
    flows("parent", "p").resume()
    harness.run()
    assert flows("parent", "p").status().result == ["first", "by Ann", "last"]


def test_costs() -> None:
    async def chain() -> None:
        await step("work")

    shop, address = Shop(flows_of(chain)), FlowAddress("chain", "1")
    shop.start("chain")
    suspended = shop.world.cost_of(lambda: suspensions.suspend(shop.ports, address))
    assert suspended == row_cost("flows", "suspend")
    assert shop.world.cost_of(lambda: suspensions.resume(shop.ports, address)) == row_cost(
        "flows", "suspend", "resumed"
    )
    with pytest.raises(Problem):
        suspensions.suspend(shop.ports, FlowAddress("chain", "2"))
