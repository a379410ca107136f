"""50 clients yoke one item on the real stack while its parts are killed; the standings end exact."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from signalbox.client import Client
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

CLIENTS = 50
SECONDS_MAX = 90
PARTS = ("functions", "events-deliver", pytest.param("cloud-tasks", marks=pytest.mark.marathon))


def yoke(client: Client, item: str, user: int) -> None:
    """Put a value, then another; every third client takes its yoke away again."""
    address = f"yokes/u{user}/{item}"
    for value in (user, user + 0.5):
        client.request("PUT", address, body={"value": value})
    if user % 3 == 0:
        client.request("DELETE", address)


def expected(item: str) -> dict[str, Any]:
    values = [user + 0.5 for user in range(CLIENTS) if user % 3]
    numbers = {"count": len(values), "sum": sum(values), "average": sum(values) / len(values)}
    return {"kind": "item", "id": item, **numbers, "min": min(values), "max": max(values), "pending": 0}


@pytest.mark.parametrize("part", PARTS)
def test_standings_end_exact_although_a_part_is_killed_twice(killable: Stack, client: Client, part: str) -> None:
    with ThreadPoolExecutor(CLIENTS) as clients:
        running = [clients.submit(yoke, client, part, user) for user in range(CLIENTS)]
        for _ in range(2):
            kill(killable, part)
        for each in running:
            each.result()
    eventually(lambda: client.request("GET", f"standings/item/{part}") == expected(part), SECONDS_MAX)
    for user in (1, 3):
        shown = client.request("GET", f"standings/user/u{user}")
        assert shown["count"] == len(client.request("GET", f"yokes?user=u{user}")["yokes"])
