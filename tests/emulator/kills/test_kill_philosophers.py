"""Philosophers dine on the real stack while functions are killed under them, forks in hand."""

import pytest

from examples.demo import philosophers
from examples.gazetteer.data import terms
from signalbox.client import Client
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

SEATS, ROUNDS = 5, 5
SECONDS_MAX = 100


@pytest.mark.marathon
def test_every_meal_is_eaten_and_every_fork_is_back_although_functions_are_killed_twice(
    killable: Stack, client: Client
) -> None:
    table = "killed"

    def eaten() -> int:
        return len(list(client.documents.find(*terms({"table": table, "kind": "ends"}))))

    client.request("POST", "philosophers", body={"table": table, "seats": SEATS, "rounds": ROUNDS})
    for few in (3, 10):
        eventually(lambda few=few: eaten() >= few, SECONDS_MAX)  # type: ignore[misc]  # mypy infers no type for a lambda with a default
        kill(killable, "functions")
    eventually(lambda: eaten() == SEATS * ROUNDS, SECONDS_MAX)
    checks = [philosophers.forks_are_back(client, table, SEATS), *philosophers.checks(client, table, SEATS, ROUNDS)]
    assert [check for check in checks if not check.holds] == []
