"""Flows that wait for permits of a rate."""

from functools import partial
from typing import Any

import pytest

from signalbox.core.problems import WaitOfFlow
from signalbox.flows.api import flow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.service import suspensions
from signalbox.rates import service
from signalbox.rates.model import RateSettings, waits_of
from signalbox.rates.requests import AcquireRequest
from signalbox.rates.storage import wait_of
from signalbox.rates.tasks import TASKS
from tests.unit.flows.shops import Shop, flows_of


async def ask() -> str:
    """Take three permits, one after the other, and then two at once."""
    for _ in range(3):
        await flow.rate("openai")
    await flow.rate("openai", weight=2)
    return "asked"


async def hurry() -> str:
    """Wait for a permit or for a second, whatever comes first."""
    first = await flow.first(permit=flow.rate("openai"), late=flow.sleep(1))
    return str(first[0])


def shop_of(code: Any) -> Shop:
    shop = Shop(flows_of(code))
    shop.tasks["rate_admit"] = partial(TASKS["rate_admit"], shop.ports)
    service.put(shop.ports, "openai", RateSettings(60, 2))
    return shop


def states(shop: Shop) -> list[str]:
    return sorted(wait.state for id_ in shop.world.ids(waits_of("openai")) if (wait := wait_of(read(shop, id_))))


def read(shop: Shop, id_: str) -> Any:
    [snapshot] = shop.ports.store.read(f"{waits_of('openai')}/{id_}")
    return snapshot


def test_a_flow_waits_for_permits() -> None:
    shop = shop_of(ask)
    shop.start("ask")
    shop.settle()
    assert shop.status("ask")["result"] == "asked"
    assert states(shop) == ["granted"] * 4


def test_what_a_flow_does_is_paused_by_the_rate_that_its_code_begins_with() -> None:
    shop = shop_of(ask)
    service.pause(shop.ports, "openai")
    shop.start("ask")
    shop.settle()
    assert (shop.status("ask")["state"], states(shop)) == ("running", ["waiting"])
    service.resume(shop.ports, "openai")
    shop.settle()
    assert shop.status("ask")["result"] == "asked"


def test_a_flow_that_does_not_wait_any_more_cancels_its_wait() -> None:
    shop = shop_of(hurry)
    service.put(shop.ports, "openai", RateSettings(1 / 60, 1))
    service.acquire(shop.ports, "openai", AcquireRequest())
    shop.start("hurry")
    shop.settle()
    assert shop.status("hurry")["result"] == "late"
    assert states(shop) == ["cancelled"]


def test_a_rate_that_does_not_exist_makes_a_flow_stuck() -> None:
    shop = shop_of(ask)
    service.delete(shop.ports, "openai")
    shop.start("ask")
    shop.settle()
    assert shop.status("ask")["state"] == "stuck"


def test_a_result_whose_task_is_lost_is_posted_by_the_repeat_of_the_command() -> None:
    shop = shop_of(ask)
    shop.start("ask")
    command = shop.take("flow_command")
    shop.deliver(command)
    shop.deliver(command, 1)
    assert states(shop) == ["waiting"]
    shop.world.pass_time(1)
    shop.deliver(shop.take("rate_admit"))
    shop.take("flow_result")  # the queue was purged
    shop.deliver(command, 2)
    shop.settle()
    assert shop.status("ask")["result"] == "asked"


def test_the_wait_of_a_flow_is_ended_by_its_flow_only() -> None:
    shop = shop_of(ask)
    service.put(shop.ports, "openai", RateSettings(1 / 60, 1))
    shop.start("ask")
    shop.deliver(shop.take("flow_command"))
    [wait] = shop.world.ids(waits_of("openai"))
    with pytest.raises(WaitOfFlow, match="The flow ask/1 waits here"):
        service.cancel(shop.ports, "openai", wait)


@pytest.mark.parametrize("again", [False, True])
def test_a_flow_whose_rate_is_deleted_is_stuck_or_waits_for_the_next_one(again: bool) -> None:
    shop = shop_of(ask)
    service.put(shop.ports, "openai", RateSettings(1 / 60, 2))
    service.acquire(shop.ports, "openai", AcquireRequest(2))
    shop.start("ask")
    shop.deliver(shop.take("flow_command"))
    service.delete(shop.ports, "openai")
    if not again:
        shop.settle()
        assert shop.status("ask")["problem"]["detail"].startswith("NoRate")
    service.put(shop.ports, "openai", RateSettings(60, 2))
    suspensions.resume(shop.ports, FlowAddress("ask", "1"))
    shop.settle()
    assert shop.status("ask")["result"] == "asked"
