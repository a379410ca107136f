"""Failed units of a batch in chains, retried under keys on the real stack while its parts are killed.

Each unit fails, fails again, and succeeds. A retry of all units is one call under a key. Then every other unit is
retried by a call of its own. Whatever is killed and repeated, each call gives each of its units one attempt.
"""

from collections import Counter
from collections.abc import Sequence

import pytest

from examples.gazetteer.data import terms
from signalbox.client import Client
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

UNITS = 24
SECONDS_MAX = 60


def retry(client: Client, batch: str, call: str, units: Sequence[int]) -> None:
    key = {"Idempotency-Key": f"{batch}-{call}"}
    client.request("POST", f"batches/{batch}/retry", body={"units": list(units)}, headers=key)


def ended(client: Client, batch: str, attempt: int) -> int:
    """Return the number of units with an outcome of an attempt."""
    return sum(unit["attempt"] == attempt for unit in client.batch(batch).units())


def attempts(client: Client, batch: str) -> Counter[tuple[int, int]]:
    """Return how many tasks ran each attempt of each unit; a task that was delivered twice counts once."""
    ran = client.documents.find(*terms({"door": batch, "kind": "mend"}))
    return Counter((each["unit"], each["attempt"]) for each in ran)


@pytest.mark.parametrize("part", ["functions", "cloud-tasks"])
def test_a_retry_under_a_key_gives_each_unit_one_attempt_although_a_part_is_killed_twice(
    killable: Stack, client: Client, part: str
) -> None:
    batch, units, alone = f"mended-{part}", range(UNITS), range(0, UNITS, 2)
    client.request("POST", f"contest/mended/{batch}/{UNITS}")
    eventually(lambda: ended(client, batch, 0) == UNITS, SECONDS_MAX)
    retry(client, batch, "all", units)
    eventually(lambda: ended(client, batch, 1) >= UNITS // 4, SECONDS_MAX)
    kill(killable, part)
    retry(client, batch, "all", units)
    eventually(lambda: ended(client, batch, 1) == UNITS, SECONDS_MAX)
    retry(client, batch, "all", units)
    for unit in alone:
        retry(client, batch, f"{unit}", [unit])
        if unit == UNITS // 2:
            kill(killable, part)
    for unit in alone:
        retry(client, batch, f"{unit}", [unit])
    eventually(lambda: ended(client, batch, 2) >= len(alone), SECONDS_MAX)
    assert attempts(client, batch) == {(unit, attempt): 1 for unit in units for attempt in range(3 - unit % 2)}
    assert [unit["index"] for unit in client.batch(batch).units("succeeded")] == list(alone)
