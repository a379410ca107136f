"""Events of one document, handled in order on the real stack while its parts are killed.

The functions are not killed: the next event would wait for the rest of the hold, for nine minutes. The simulation
kills them.
"""

import pytest

from signalbox.client import Client
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

VERSIONS = 20
SECONDS_MAX = 60


def copied(client: Client, draft: str) -> list[int]:
    numbers: list[int] = client.request("GET", f"copying/{draft}")["copied"]
    return numbers


@pytest.mark.parametrize("part", ["cloud-tasks", "events-deliver"])
def test_versions_are_copied_in_their_order_and_the_last_one_although_a_part_is_killed_twice(
    killable: Stack, client: Client, part: str
) -> None:
    for before in (0, VERSIONS):
        client.request("POST", f"copying/{part}/{before + 1}/{before + VERSIONS}")
        eventually(lambda before=before: (copied(client, part) or [0])[-1] > before, SECONDS_MAX)  # type: ignore[misc]  # mypy infers no type for a lambda with a default
        kill(killable, part)
    client.request("POST", f"copying/{part}/{2 * VERSIONS + 1}/{3 * VERSIONS}")
    eventually(lambda: copied(client, part)[-1] == 3 * VERSIONS, SECONDS_MAX)
    assert copied(client, part) == sorted(copied(client, part))
