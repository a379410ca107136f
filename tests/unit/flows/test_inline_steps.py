"""Inline steps: functions that run within the turn of a flow, one commit a step."""

from signalbox import flow
from tests.unit.flows.shops import Shop, flows_of


def add(one: int, two: int = 1) -> int:
    return one + two


def test_a_chain_of_inline_steps_runs_in_one_delivery() -> None:
    async def chain() -> int:
        total = 0
        for _ in range(20):
            total = await flow.run(add, total, two=2)
        return total

    shop = Shop(flows_of(chain))
    shop.start("chain")
    wake = shop.take("turn")
    shop.deliver(wake)
    assert shop.world.tasks == []
    assert shop.status("chain")["result"] == 40
