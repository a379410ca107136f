"""A hub of Social Code gets a new implementation while parts of the stack are killed: each dependant is tested once.

"Once in effect": of each implementation of a dependant one run with the hub's new code is kept, it is the one that its
function shows, and the dependant's current implementation is the one that passes.
"""

from typing import Any

import pytest

from signalbox.client import Client, NotFound
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.polling_until import eventually
from tests.social_functions import published

pytestmark = [pytest.mark.slow, pytest.mark.marathon]

DEPENDANTS = 90
SECONDS_MAX = 120


@pytest.mark.timeout(3 * SECONDS_MAX)
@pytest.mark.parametrize("part", ["functions", "cloud-tasks", "events-deliver"])
def test_each_dependant_of_a_hub_is_tested_once_in_effect_although_a_part_is_killed_twice(
    killable: Stack, client: Client, part: str
) -> None:
    hub = f"Hub_{part.replace('-', '_')}"
    names = [f"{hub}_{number}" for number in range(DEPENDANTS)]
    records = [published(hub, ["1"], f"check({hub}() > 0)")]
    for number, name in enumerate(names):  # a third has an older implementation, which passes with the hub's new code
        bodies = [f"{hub}() == 2", f"{hub}() == 1"] if number % 3 == 0 else [f"{hub}() > 0"]
        records.append(published(name, bodies, f"check({name}())", [hub]))
    assert client.documents.load(records).refused == []

    client.request("PUT", f"social-code/functions/{hub}/draft", body={"code": f"def {hub}():\n    return 2"})
    client.request("POST", f"social-code/functions/{hub}/draft/publish")
    batch = eventually(lambda: shown(client, hub)["batch"], SECONDS_MAX)
    for few in (10, 60):
        eventually(lambda few=few: succeeded(client, batch) >= few, SECONDS_MAX)  # type: ignore[misc]  # mypy infers no type for a lambda with a default
        kill(killable, part)
    eventually(lambda: all(shown(client, name)["state"] == "passed" for name in names), SECONDS_MAX)

    found = shown(client, hub)
    assert (found["current"], found["state"]) == (found["versions"][-1]["id"], "passed")
    for number, name in enumerate(names):
        dependant = shown(client, name)
        competing = number % 3 == 0
        assert dependant["current"] == f"{name}-2"
        kept = [run["run_id"] for run in client.request("GET", f"social-code/functions/{name}/runs")["runs"]]
        assert sorted(kept) == sorted(each["run"]["run_id"] for each in dependant["versions"] if each["run"])
        assert len(kept) == (2 if competing else 1)
    units = client.request("GET", f"batches/{batch}")
    assert (units["size"], units["succeeded"]) == (DEPENDANTS + DEPENDANTS // 3, DEPENDANTS + DEPENDANTS // 3)


def shown(client: Client, name: str) -> dict[str, Any]:
    found: dict[str, Any] = client.request("GET", f"social-code/functions/{name}")
    return found


def succeeded(client: Client, batch: str) -> int:
    try:
        return client.batch(batch).show()["succeeded"]
    except NotFound:
        return 0
