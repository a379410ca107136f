"""A checkout whose third step fails for a bug, in a running stack: the code is fixed, and the run goes on in place."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from signalbox_tools.local.reloading.dev_loop import DevLoop
from signalbox_tools.local.stack import Stack
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

SECONDS_MAX = 90.0
CATALOGUE = """
functions:
  shop: {folder: shop, invoked_by: [people, queue], enqueues: [tasks, flows, batches]}
queues:
  tasks: &queue {dispatches_per_second: 100, concurrent_max: 4, attempts_max: -1, backoff_min_seconds: 0.1,
    backoff_max_seconds: 1, doublings_max: 4}
  links: *queue
  flows: *queue
  batches: *queue
"""
SHOP = """
from signalbox import Function, Problem, flow

app = Function("shop")
PRICES = {}


@app.task
def reserve(item: str) -> str:
    return f"{item} reserved"


@app.task
def pack(item: str) -> str:
    return f"{item} packed"


@app.task
def charge(item: str) -> int:
    if item not in PRICES:
        raise Problem(f"{item} has no price.")
    return PRICES[item]


@app.flow
async def checkout(item: str) -> list[str | int]:
    reserved = await reserve.call(item=item)
    packed = await pack.call(item=item)
    return [reserved, packed, await charge.call(item=item)]


@app.flow
async def purchase(item: str) -> list[str | int]:
    return await checkout.call_as("c-1", item)


shop = app.entry_point()
"""


def test_a_checkout_that_failed_for_a_bug_goes_on_in_place_with_its_parent(tmp_path: Path) -> None:
    main, catalogue = tmp_path / "shop" / "main.py", tmp_path / "infra" / "catalogue.yaml"
    for parent in (main.parent, catalogue.parent):
        parent.mkdir(parents=True)
    main.write_text(SHOP)
    catalogue.write_text(CATALOGUE)
    heard = threading.Semaphore(0)
    with Stack(folder=tmp_path / ".local", catalogue=catalogue) as stack:
        loop = DevLoop(stack, lambda *_: heard.release(), catalogue)
        loop.watch()
        loop.start()
        with httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as client:

            def status(run: str) -> dict[str, Any]:
                return dict(client.get(f"shop/flows/{run}").json())

            client.post("shop/flows/purchase/p-1", json={"arguments": {"item": "tea"}}).raise_for_status()
            eventually(lambda: status("purchase/p-1").get("state") == "failed", SECONDS_MAX)
            before = client.get("shop/flows/checkout/c-1/log").json()["entries"]
            main.write_text(SHOP.replace("PRICES = {}", 'PRICES = {"tea": 4}'))
            assert heard.acquire(timeout=SECONDS_MAX)
            key = {"Idempotency-Key": "R1"}
            asked = client.post("shop/flows/checkout/c-1/retry", json={"family": True}, headers=key)
            assert (asked.status_code, asked.json()["flow"], asked.json()["id"]) == (202, "purchase", "p-1")
            eventually(lambda: status("purchase/p-1").get("state") == "completed", SECONDS_MAX)
            assert status("purchase/p-1")["result"] == ["tea reserved", "tea packed", 4]
            after = client.get("shop/flows/checkout/c-1/log").json()["entries"]
            assert after[:2] == before[:2], "what succeeded has not run again"
            assert [each["entry"] for each in after] == ["done", "done", "blank", "done"]
        loop.stop()
