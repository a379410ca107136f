"""Orders of the checkout example on the real stack while its parts are killed: each ends once, whole or undone.

A few dozen orders; `FLOW_ORDERS=200 pytest tests/emulator/kills/test_kill_flows.py` makes more.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from examples.checkout.main import DOCKS
from signalbox.client import Client
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

CLIENTS = 10
ORDERS = int(os.environ.get("FLOW_ORDERS", "60"))
SECONDS_MAX = 120 + 3 * ORDERS
LARGE = 3_000
"""An amount that a person has to approve: every third order has it."""


@pytest.mark.marathon
@pytest.mark.timeout(SECONDS_MAX * 3)
@pytest.mark.parametrize("part", ["functions", "cloud-tasks"])
def test_every_order_ends_once_shipped_or_undone_although_a_part_is_killed_twice(
    killable: Stack, client: Client, part: str
) -> None:
    item = f"tea-{part}"
    client.request("POST", "shop/stock", body={"item": item, "count": ORDERS})
    orders = [f"{part}-{number}" for number in range(ORDERS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda number: _order(client, item, orders[number], number), range(ORDERS)))
        for share in (ORDERS // 3, 2 * ORDERS // 3):
            eventually(lambda share=share: _ended(client, orders) >= share, SECONDS_MAX)  # type: ignore[misc]  # mypy infers no type for a lambda with a default
            kill(killable, part)
    ends = {order: _end(client, order) for order in orders}
    assert {each["state"] for each in ends.values()} <= {"completed", "failed", "cancelled"}
    states = {order: client.request("GET", f"shop/orders/{order}")["state"] for order in orders}
    shipped = {order for order, state in states.items() if state == "shipped"}
    assert {order for order, end in ends.items() if end["state"] == "completed"} <= shipped
    assert {states[order] for order, end in ends.items() if end["state"] == "failed"} <= {"undone"}
    stock = eventually(lambda: _stock(client, item), SECONDS_MAX)
    assert (stock["reserved"].keys(), stock["left"]) == (shipped, ORDERS - len(shipped))
    eventually(lambda: client.request("GET", "semaphores/dock")["free"] == DOCKS, SECONDS_MAX)
    assert client.request("GET", "shop/flows/checkout?state=stuck")["flows"] == []


def _order(client: Client, item: str, order: str, number: int) -> None:
    """Order; approve every third order, decline some of these, and cancel every tenth."""
    amount = LARGE if number % 3 == 0 else 30
    arguments = {"order": order, "item": item, "count": 1, "amount": amount}
    client.request("POST", f"shop/flows/checkout/{order}", body={"arguments": arguments})
    if amount == LARGE:
        value = {"by": "ann", "approved": number % 2 == 0}
        headers = {"Idempotency-Key": f"approval {order}"}
        path = f"shop/flows/checkout/{order}/events/approval"
        client.request("POST", path, body={"value": value}, headers=headers)
    if number % 10 == 5:
        client.request("POST", f"shop/flows/checkout/{order}/cancel", body={"reason": "too late"})


def _ended(client: Client, orders: list[str]) -> int:
    """Return how many orders have ended."""
    found = (client.request("GET", f"shop/flows/checkout/{order}")["state"] for order in orders)
    return sum(state not in ("running", "stuck") for state in found)


def _end(client: Client, order: str) -> dict[str, Any]:
    """Return the status of an order's flow when it has ended."""
    path = f"shop/flows/checkout/{order}"

    def look() -> dict[str, Any] | None:
        status: dict[str, Any] = client.request("GET", path)
        return status if status["state"] not in ("running", "stuck") else None

    found: dict[str, Any] = eventually(look, SECONDS_MAX)
    return found


def _stock(client: Client, item: str) -> dict[str, Any] | None:
    """Return the stock of an item once no call waits for it: a reservation of a cancelled order may come late."""
    if client.request("GET", f"shop/objects/Stock/{item}")["waiting"]:
        return None
    shown: dict[str, Any] = client.request("POST", f"shop/objects/Stock/{item}/show", body={})["result"]
    return shown
