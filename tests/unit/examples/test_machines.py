"""The machines: every change that is remembered is an edge of the graph, and the provider's limit is held."""

from itertools import pairwise
from random import Random

import pytest

from examples.machines.main import CHANGES_AT_ONCE, GRAPH, IDLE_SECONDS
from signalbox import documents, flows, semaphore
from signalbox.testing import Faults, Harness
from signalbox.testing.fixtures import harness as harness


def start(harness: Harness, *names: str) -> None:
    assert harness.post("machines/provider").status == 202
    for name in names:
        assert harness.post(f"machines/flows/machine/{name}", json={"arguments": {"name": name}}).status == 201


def order(harness: Harness, name: str, what: str, **others: object) -> None:
    value = {"order": what, **others}
    assert harness.post(f"machines/flows/machine/{name}/events/order", json={"value": value}).status == 202


def nodes(name: str) -> list[str]:
    """Return the nodes that a machine reached, in order: numbered from 1 without a gap."""
    found = documents.query(("machine", "==", name), limit=200).documents
    reached = sorted((each for each in found if "state" in each), key=lambda each: int(each["number"]))
    assert [each["number"] for each in reached] == list(range(1, len(reached) + 1))
    return [each["state"] for each in reached]


def check(name: str) -> None:
    """Check that a machine went along edges of the graph, and that its progress shows its last node."""
    path = ["stopped", *nodes(name)]
    for before, after in pairwise(path):
        assert after in ({each.to for each in GRAPH[before].values()} | {"failed"}), path
    status = flows("machine", name).status()
    shown = status.result if status.state == "completed" else status.progress
    assert shown == {"state": path[-1], "changes": len(path) - 1}


def test_a_machine_goes_along_the_graph_and_unknown_orders_change_nothing(harness: Harness) -> None:
    start(harness, "m")
    for what, sure in (("stop", None), ("start", None), ("start", None), ("stop", None), ("delete", False)):
        order(harness, "m", what, sure=sure)
        harness.travel(60)
    assert nodes("m") == ["running", "stopped"]
    order(harness, "m", "delete", sure=True)
    harness.run()
    assert flows("machine", "m").status().result == {"state": "deleted", "changes": 3}
    check("m")


def test_what_the_provider_cannot_do_leads_to_failed_and_out_of_it(harness: Harness) -> None:
    start(harness, "broken-1")
    order(harness, "broken-1", "start")
    order(harness, "broken-1", "reset")
    harness.travel(600)
    assert nodes("broken-1") == ["failed", "stopped"]
    check("broken-1")


def test_a_machine_that_is_idle_for_a_week_is_stopped(harness: Harness) -> None:
    start(harness, "m")
    order(harness, "m", "start")
    harness.travel(IDLE_SECONDS - 60)
    assert nodes("m") == ["running"]
    harness.travel(120)
    assert nodes("m") == ["running", "stopped"]


@pytest.mark.parametrize("seed", [1, 2])
def test_many_machines_with_many_orders_go_along_the_graph_and_free_the_provider(harness: Harness, seed: int) -> None:
    names, draw = ["a", "b", "broken-c"], Random(seed)
    start(harness, *names)
    for _ in range(75):
        order(harness, draw.choice(names), draw.choice(["start", "stop", "reset", "nonsense"]))
    harness.travel(3_600, Faults(duplicate=0.2, lose_answer=0.1, reorder=True, seed=seed))
    for name in names:
        check(name)
    assert all(semaphore("provider").acquire(id=f"free {number}") for number in range(CHANGES_AT_ONCE))
