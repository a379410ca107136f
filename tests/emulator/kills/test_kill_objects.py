"""50 clients call objects of the accounts example on the real stack while its parts are killed: each call counts once.

A few hundred calls; `OBJECT_CALLS=10000 pytest tests/emulator/kills/test_kill_objects.py` makes more. Google's emulator
answers a query by looking at all records there are, so each call takes longer than those before it (a query among
20,000 records nine times as long as one among 400): 10,000 calls take minutes, for each part that is killed.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

from signalbox.client import ApiError, Client
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.polling_until import eventually

CLIENTS = 50
CALLS = int(os.environ.get("OBJECT_CALLS", "300"))
ACCOUNTS = 50
AMOUNT = 100
SECONDS_MAX = 60 + CALLS / 5
"""The limit of a wait. On an idle machine with two cores, 50 clients make about 50 calls a second."""

pytestmark = [pytest.mark.slow, pytest.mark.marathon, pytest.mark.timeout(4 * SECONDS_MAX)]

Call = Callable[[int], str]
"""Make the call of a number; return the path of its placeholder."""


@pytest.fixture
def client(killable: Stack) -> Iterator[Client]:
    with Client(killable.base_url) as calling:
        yield calling


@pytest.mark.parametrize("part", ["functions", "cloud-tasks"])
def test_every_call_of_one_object_counts_once_although_a_part_is_killed_twice(
    killable: Stack, client: Client, part: str
) -> None:
    account = f"accounts/objects/Account/one-{part}"
    calls = _call_and_kill(killable, part, lambda number: _call(client, account, "deposit", number, amount=1))
    results = [_result(client, call)["result"] for call in calls]
    assert sorted(results) == list(range(1, CALLS + 1))
    assert client.request("POST", f"{account}/show", body={})["result"] == CALLS


@pytest.mark.parametrize("part", ["functions", "cloud-tasks"])
def test_transfers_between_fifty_objects_keep_the_sum_although_a_part_is_killed_twice(
    killable: Stack, client: Client, part: str
) -> None:
    bank = f"fifty-{part}"
    client.request("POST", "accounts/opening", body={"bank": bank, "accounts": ACCOUNTS, "amount": AMOUNT})

    def transfer(number: int) -> str:
        draw = Random(number)
        first, other = draw.sample(range(ACCOUNTS), 2)
        account = f"accounts/objects/Account/{bank}-{first}"
        return _call(client, account, "transfer", number, to=f"{bank}-{other}", amount=draw.randint(1, AMOUNT))

    calls = _call_and_kill(killable, part, transfer)
    refused = [
        call for call in calls if _result(client, call).get("error", {"type": "too-little"})["type"] != "too-little"
    ]
    assert refused == []
    accounts = [f"accounts/objects/Account/{bank}-{number}" for number in range(ACCOUNTS)]
    eventually(lambda: not any(client.request("GET", each)["waiting"] for each in accounts), SECONDS_MAX)
    shown = client.request("GET", f"accounts/banks/{bank}?accounts={ACCOUNTS}")
    assert shown["sum"] == ACCOUNTS * AMOUNT
    assert min(shown["balances"]) >= 0


def _call_and_kill(stack: Stack, part: str, call: Call) -> list[str]:
    """Make all calls, 50 at a time; kill a part when a third and when two thirds are made."""
    made: list[str] = []
    with ThreadPoolExecutor(CLIENTS) as pool:
        futures = [pool.submit(lambda number=number: made.append(call(number))) for number in range(CALLS)]  # type: ignore[misc]  # mypy infers no type for a lambda with a default
        for share in (CALLS // 3, 2 * CALLS // 3):
            eventually(lambda share=share: len(made) >= share, SECONDS_MAX)  # type: ignore[misc]  # mypy infers no type for a lambda with a default
            kill(stack, part)
        for future in futures:
            future.result(SECONDS_MAX)
    assert len(made) == CALLS
    return made


def _call(client: Client, account: str, method: str, number: int, **arguments: object) -> str:
    """Call a method, every second time only to leave it; a call that was refused by its method was made."""
    wait = 0 if number % 2 else 1
    headers = {"Idempotency-Key": f"c{number}"}
    try:
        client.request("POST", f"{account}/{method}?wait_seconds={wait}", body=arguments, headers=headers)
    except ApiError as refused:
        if refused.status != 402:
            raise
    return f"{account}/calls/c{number}"


def _result(client: Client, call: str) -> dict[str, Any]:
    """Return the outcome of a call, when it is there."""
    return dict(eventually(lambda: (seen := client.request("GET", call))["ready"] and seen, SECONDS_MAX))
