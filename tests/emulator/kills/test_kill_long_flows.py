"""Flows of thirty steps with events, sleeps and locks on the real stack while functions and queue are killed.

A dozen flows; `FLOW_RUNS=200 pytest tests/emulator/kills/test_kill_long_flows.py` makes more.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from signalbox.client import Client
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.kills.marathon import ALONE, BESIDE, PERMITS, STEPS
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

CLIENTS = 10
RUNS = int(os.environ.get("FLOW_RUNS", "12"))
SECONDS_MAX = 120 + 8 * RUNS
PARTS = ("functions", "cloud-tasks")
KILLS = 6


@pytest.mark.marathon
@pytest.mark.timeout(SECONDS_MAX * 2)
def test_every_flow_ends_once_with_each_outcome_taken_once_although_parts_are_killed(
    killable: Stack, client: Client
) -> None:
    client.request("POST", "marathon/track")
    runners = [f"runner-{number}" for number in range(RUNS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda runner: client.request("POST", f"marathon/runners/{runner}"), runners))
        going = [pool.submit(_go, client, runner) for runner in runners]
        for number in range(KILLS):
            kill(killable, PARTS[number % 2])
            share = (number + 1) * _told_in_all() // (KILLS + 1)
            eventually(lambda share=share: _told(client, runners) >= share, SECONDS_MAX)  # type: ignore[misc]  # mypy infers no type for a lambda with a default
        for each in going:
            each.result(SECONDS_MAX)
    results = [_result(client, runner) for runner in runners]
    for runner, result in zip(runners, results, strict=True):
        _check_laps(runner, result["laps"])
        _check_log(client, runner, result["laps"])
    assert len({result["token"] for result in results}) == RUNS
    finish = "marathon/objects/Finish/all"
    eventually(lambda: len(_shown(client, finish)) == RUNS, SECONDS_MAX)
    eventually(lambda: client.request("GET", finish)["waiting"] == 0, SECONDS_MAX)
    assert _shown(client, finish) == dict.fromkeys(runners, 1)
    eventually(lambda: client.request("GET", "semaphores/track")["free"] == PERMITS, SECONDS_MAX)
    assert client.request("GET", "marathon/flows/run?state=stuck")["flows"] == []


def _go(client: Client, runner: str) -> None:
    """Send a flow the event it waits for, or will wait for; twice, as the same one."""
    for _ in range(2):
        headers = {"Idempotency-Key": f"go {runner}"}
        client.request(
            "POST", f"marathon/flows/run/{runner}/events/go", body={"value": f"go {runner}"}, headers=headers
        )


def _told_in_all() -> int:
    """Return how many entries the logs of all flows have in the end: steps, an event, a lock and a sleep."""
    return RUNS * (STEPS + 3)


def _told(client: Client, runners: list[str]) -> int:
    """Return how many entries the logs have."""
    return sum(int(client.request("GET", f"marathon/flows/run/{runner}")["log_length"]) for runner in runners)


def _result(client: Client, runner: str) -> dict[str, Any]:
    """Return a flow's result after it has ended."""

    def look() -> dict[str, Any] | None:
        status = client.request("GET", f"marathon/flows/run/{runner}")
        assert status["state"] in ("running", "completed"), status
        return dict(status["result"]) if status["state"] == "completed" else None

    found: dict[str, Any] = eventually(look, SECONDS_MAX)
    return found


def _check_laps(runner: str, laps: list[dict[str, Any]]) -> None:
    """Check that each step ended once, and received the result of the one before."""
    assert [lap["number"] for lap in laps] == list(range(STEPS))
    assert len({lap["mark"] for lap in laps}) == STEPS
    assert (laps[0]["before"], laps[ALONE - 1]["before"]) == (runner, f"go {runner}")
    alone, beside = laps[:-BESIDE], laps[-BESIDE:]
    for number, (before, after) in enumerate(pairwise(alone), 1):
        assert after["before"] == before["mark"] or number == ALONE - 1
    assert {lap["before"] for lap in beside} == {alone[-1]["mark"]}


def _check_log(client: Client, runner: str, laps: list[dict[str, Any]]) -> None:
    """Check that the log has each step once, with the outcome that the code received, and everything else once."""
    entries = client.request("GET", f"marathon/flows/run/{runner}/log")["entries"]
    steps = [each["result"]["mark"] for each in entries if each.get("command", "").startswith("step ")]
    assert sorted(steps) == sorted(lap["mark"] for lap in laps)
    others = sorted(each.get("command", each["entry"]) for each in entries if "step " not in each.get("command", ""))
    assert others == ["event", "lock track", "sleep"]


def _shown(client: Client, finish: str) -> dict[str, int]:
    return dict(client.request("POST", f"{finish}/show", body={})["result"])
