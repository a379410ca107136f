"""20 workers fight for 2 permits on the real stack while its parts are killed."""

from collections import Counter
from typing import Any

import pytest

from examples.gazetteer.client import Documents
from infra.local.stack import Stack
from tests.emulator.killing import kill
from tests.emulator.waiting import eventually

WORKERS = 20
SECONDS_MAX = 60
PARTS = ("functions", "events-deliver", pytest.param("cloud-tasks", marks=pytest.mark.slow))
"""The last takes longer: what its death keeps from being handed over is the sweeper's, ten seconds later."""


def visits(client: Documents, door: str, kind: str) -> list[dict[str, Any]]:
    return list(client.find({"door": door, "kind": kind}))


def workers_out(client: Documents, door: str) -> set[int]:
    return {visit["worker"] for visit in visits(client, door, "out")}


def at_once(client: Documents, door: str) -> int:
    """Count the workers who were inside at once, at most, by the server's times with which their entity tags begin.

    Of a worker who was called in twice, only the visit under the last token counts: the other's was void.
    """
    last = {visit["worker"]: visit for visit in sorted(visits(client, door, "out"), key=lambda visit: visit["token"])}
    moments = []
    for visit in last.values():
        key = visit["key"].removesuffix("-out")
        entered, left = (client.call("GET", f"documents/{key}-{which}").headers["ETag"] for which in ("in", "out"))
        moments += [(entered, 1), (left, -1)]
    inside = most = 0
    for _, change in sorted(moments):
        inside += change
        most = max(most, inside)
    return most


@pytest.mark.parametrize("part", PARTS)
def test_all_come_in_two_at_a_time_and_both_permits_are_back_although_a_part_is_killed_twice(
    killable: Stack, client: Documents, part: str
) -> None:
    client.call("POST", f"contest/{part}/{WORKERS}")
    for few in (4, 10):
        eventually(lambda few=few: len(workers_out(client, part)) >= few, SECONDS_MAX)  # type: ignore[misc]
        kill(killable, part)
    eventually(lambda: len(workers_out(client, part)) == WORKERS, SECONDS_MAX)
    eventually(lambda: _is_free(client.call("GET", f"semaphores/{part}").json()), SECONDS_MAX)
    times = Counter(visit["worker"] for visit in visits(client, part, "out"))
    assert sum(times.values()) - WORKERS <= 4, "only who was inside at one of the two kills may come in again"
    assert at_once(client, part) <= 2


def _is_free(shown: dict[str, Any]) -> bool:
    return shown["permits"] == 2 and not shown["leases"] and not shown["waiters"]
