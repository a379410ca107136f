"""Workers fight for permits on the real stack while its parts are killed; and while nothing is."""

from collections import Counter

import pytest

from examples.gazetteer.data import terms
from signalbox.client import Client, Document
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

WORKERS = 20
CROWD = 50
SECONDS_MAX = 60
MINUTES_MAX = 300
PARTS = ("functions", "events-deliver", pytest.param("cloud-tasks", marks=pytest.mark.marathon))
"""The last takes longer: what its death keeps from being handed over is the sweeper's, ten seconds later."""


def visits(client: Client, door: str, kind: str) -> list[Document]:
    return list(client.documents.find(*terms({"door": door, "kind": kind})))


def workers_out(client: Client, door: str) -> set[int]:
    return {visit["worker"] for visit in visits(client, door, "out")}


def at_once(client: Client, door: str) -> int:
    """Return the largest number of workers inside at once, by the server times at the start of their entity tags.

    If a worker entered twice, only the visit under the last token counts; the other one was void.
    """
    last = {visit["worker"]: visit for visit in sorted(visits(client, door, "out"), key=lambda visit: visit["token"])}
    moments = []
    for visit in last.values():
        key = visit["key"].removesuffix("-out")
        entered, left = (client.documents.get(f"{key}-{which}").etag for which in ("in", "out"))
        moments += [(entered, 1), (left, -1)]
    inside = most = 0
    for _, change in sorted(moments):
        inside += change
        most = max(most, inside)
    return most


@pytest.mark.parametrize("part", PARTS)
def test_all_come_in_two_at_a_time_and_both_permits_are_back_although_a_part_is_killed_twice(
    killable: Stack, client: Client, part: str
) -> None:
    client.request("POST", f"contest/{part}/2/{WORKERS}")
    for few in (4, 10):
        eventually(lambda few=few: len(workers_out(client, part)) >= few, SECONDS_MAX)  # type: ignore[misc]  # mypy infers no type for a lambda with a default
        kill(killable, part)
    eventually(lambda: len(workers_out(client, part)) == WORKERS, SECONDS_MAX)
    eventually(lambda: _is_free(client, part, 2), SECONDS_MAX)
    times = Counter(visit["worker"] for visit in visits(client, part, "out"))
    assert sum(times.values()) - WORKERS <= 4, "only who was inside at one of the two kills may come in again"
    assert at_once(client, part) <= 2


def test_workers_of_several_lanes_all_come_in_although_the_functions_are_killed_twice(
    killable: Stack, client: Client
) -> None:
    client.request("POST", f"contest/lanes/shared/2/{WORKERS}")
    for few in (4, 10):
        eventually(lambda few=few: len(workers_out(client, "shared")) >= few, SECONDS_MAX)  # type: ignore[misc]  # mypy infers no type for a lambda with a default
        kill(killable, "functions")
    eventually(lambda: len(workers_out(client, "shared")) == WORKERS, SECONDS_MAX)
    eventually(lambda: _is_free(client, "shared", 2), SECONDS_MAX)
    assert at_once(client, "shared") <= 2
    assert "lanes" not in client.request("GET", "semaphores/shared")


@pytest.mark.marathon
def test_twenty_tasks_run_two_at_a_time_and_each_once(client: Client) -> None:
    client.request("POST", f"contest/slow/s2/2/{WORKERS}")
    eventually(lambda: len(workers_out(client, "s2")) == WORKERS, MINUTES_MAX)
    eventually(lambda: _is_free(client, "s2", 2), MINUTES_MAX)
    assert len(visits(client, "s2", "in")) == len(visits(client, "s2", "out")) == WORKERS
    assert at_once(client, "s2") <= 2


@pytest.mark.marathon
@pytest.mark.timeout(900)
def test_fifty_come_in_three_at_a_time_although_functions_and_queue_are_killed_again_and_again(
    killable: Stack, client: Client
) -> None:
    client.request("POST", f"contest/crowd/3/{CROWD}")
    killed = 0
    for few in range(5, CROWD, 5):
        eventually(lambda few=few: len(workers_out(client, "crowd")) >= few, MINUTES_MAX)  # type: ignore[misc]  # mypy infers no type for a lambda with a default
        kill(killable, ("functions", "cloud-tasks")[killed % 2], MINUTES_MAX)
        killed += 1
    eventually(lambda: len(workers_out(client, "crowd")) == CROWD, MINUTES_MAX)
    eventually(lambda: _is_free(client, "crowd", 3), MINUTES_MAX)
    assert len(visits(client, "crowd", "out")) - CROWD <= 3 * killed, "only who was inside at a kill may come in again"
    assert at_once(client, "crowd") <= 3


def _is_free(client: Client, door: str, permits: int) -> bool:
    shown = client.request("GET", f"semaphores/{door}")
    return shown["permits"] == permits and not shown["leases"] and not shown["waiters"]
