"""A batch of 500 units on the real stack while its parts are killed: each unit once, "complete" once."""

import pytest

from examples.demo import batches
from signalbox.client import Client
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

UNITS = 500
SECONDS_MAX = 60


@pytest.mark.parametrize(
    ("part", "per_task"),
    [
        ("functions", None),
        ("functions", 25),
        ("cloud-tasks", None),
        pytest.param("events-deliver", None, marks=pytest.mark.marathon),
    ],
)
def test_a_batch_is_complete_once_with_each_unit_once_although_a_part_is_killed_twice(
    killable: Stack, client: Client, part: str, per_task: int | None
) -> None:
    batch = f"{part}-{per_task}"
    client.request("POST", "batches", body=batches.order(batch, UNITS) | {"per_task": per_task})
    for few in (50, 250):
        eventually(lambda few=few: client.batch(batch).show()["succeeded"] >= few, SECONDS_MAX)  # type: ignore[misc]  # mypy infers no type for a lambda with a default
        kill(killable, part)
    eventually(lambda: bool(batches.said(client, batch)), SECONDS_MAX)
    assert [check for check in batches.checks(client, batch, UNITS, batches.COLUMNS) if not check.holds] == []
