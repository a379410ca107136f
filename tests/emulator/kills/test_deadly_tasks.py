"""Tasks that kill their process at every delivery still end, on the real stack.

Other tasks in the same process are killed with them: one may be given up too, and is then reported as such.
"""

import pytest

from examples.gazetteer.data import terms
from signalbox.client import Client
from signalbox_tools.local.stack import Stack
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

SECONDS_MAX = 60


def test_a_batch_completes_and_a_permit_comes_back_although_their_tasks_kill_the_process_every_time(
    killable: Stack, client: Client
) -> None:
    client.request("POST", "contest/deadly/d")
    eventually(lambda: client.batch("d").show()["state"] == "completed", SECONDS_MAX)
    status = client.batch("d").show()
    failed = {unit["index"]: unit["error"] for unit in client.request("GET", "batches/d/units?state=failed")["units"]}
    assert (status["size"], status["remaining"], status["failed"]) == (3, 0, len(failed))
    assert failed[1].startswith("Gave up after")
    assert [error for error in failed.values() if not error.startswith("Gave up after")] == []
    eventually(lambda: client.documents.first(*terms({"door": "d", "kind": "out"})) is not None, SECONDS_MAX)
