"""The machines of the example on the real stack while its parts are killed: each goes along its graph.

A few machines; `MACHINES=40 pytest tests/emulator/kills/test_kill_machines.py` makes more.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from examples.machines.main import CHANGES_AT_ONCE, GRAPH
from signalbox.client import Client
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

CLIENTS = 10
MACHINES = int(os.environ.get("MACHINES", "8"))
ORDERS = 25
"""Events of each machine: more than a run takes before it continues as new."""
SECONDS_MAX = 120 + 15 * MACHINES


@pytest.mark.marathon
@pytest.mark.timeout(SECONDS_MAX * 3)
@pytest.mark.parametrize("part", ["functions", "cloud-tasks"])
def test_every_machine_goes_along_its_graph_although_a_part_is_killed_twice(
    killable: Stack, client: Client, part: str
) -> None:
    client.request("POST", "machines/provider")
    names = [f"{'broken-' if number % 4 == 3 else ''}{part}-{number}" for number in range(MACHINES)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        living = [pool.submit(_live, client, name) for name in names]
        for share in (MACHINES // 3, 2 * MACHINES // 3):
            eventually(lambda share=share: sum(each.done() for each in living) >= share, SECONDS_MAX)  # type: ignore[misc]  # mypy infers no type for a lambda with a default
            kill(killable, part)
        for each in living:
            each.result(SECONDS_MAX)
    for name in names:
        result = _result(client, name)
        path = ["stopped", *(_node(client, name, number) for number in range(1, result["changes"] + 1))]
        for before, after in pairwise(path):
            assert after in {each.to for each in GRAPH[before].values()} | {"failed"}, path
        assert path[-1] == result["state"] == "deleted"
    eventually(lambda: client.request("GET", "semaphores/provider")["free"] == CHANGES_AT_ONCE, SECONDS_MAX)
    assert client.request("GET", "machines/flows/machine?state=stuck")["flows"] == []


def _live(client: Client, name: str) -> None:
    """Start a machine and send it orders, known to its node or not, in a row; at last those that lead to its end."""
    draw = Random(name)
    client.request("POST", f"machines/flows/machine/{name}", body={"arguments": {"name": name}})
    orders = [draw.choice(["start", "stop", "start", "reset", "nonsense"]) for _ in range(ORDERS)]
    for number, order in enumerate([*orders, "stop", "reset", "delete"]):
        headers = {"Idempotency-Key": f"{name} {number}"}
        value = {"order": order, "sure": order == "delete"}
        client.request("POST", f"machines/flows/machine/{name}/events/order", body={"value": value}, headers=headers)


def _result(client: Client, name: str) -> dict[str, Any]:
    """Return the result of a machine's flow after it has ended."""

    def look() -> dict[str, Any] | None:
        status = client.request("GET", f"machines/flows/machine/{name}")
        assert status["state"] in ("running", "completed"), status
        return dict(status["result"]) if status["state"] == "completed" else None

    found: dict[str, Any] = eventually(look, SECONDS_MAX)
    return found


def _node(client: Client, name: str, number: int) -> str:
    """Return a node that a machine reached; every number up to the last has one, of this machine."""
    node = client.request("GET", f"documents/node-{name}-{number}")
    assert (node["machine"], node["number"]) == (name, number)
    return str(node["state"])
