"""The examples of flows on a local stack, by HTTP as their pages show: invariants hold."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from signalbox.catalogue.project import Project
from signalbox_tools.cli.main import main
from signalbox_tools.local.stack import Stack
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 60.0
CATALOGUE = """
functions:
  shop: {{folder: {root}/examples/checkout, enqueues: [admit, batches, flows, objects, tasks]}}
  machines: {{folder: {root}/examples/machines, invoked_by: [people, queue], enqueues: [admit, batches, flows, tasks],
    tasks: [start_machine, stop_machine, remember], flows: [machine]}}
  documents: {{folder: {root}/functions/documents, invoked_by: [people]}}
  semaphores: {{folder: {root}/functions/semaphores, invoked_by: [people]}}
  semaphore_admit: {{folder: {root}/functions/semaphore_admit, invoked_by: [queue], queues: [admit],
    enqueues: [admit, tasks]}}
queues:
  admit: &queue {{dispatches_per_second: 100, concurrent_max: 4, attempts_max: -1, backoff_min_seconds: 0.1,
    backoff_max_seconds: 1, doublings_max: 4, shards: 3}}
  batches: *queue
  flows: *queue
  objects: *queue
  tasks: *queue
"""


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("flows")
    (folder / "infra").mkdir()
    catalogue = folder / "infra" / "catalogue.yaml"
    catalogue.write_text(CATALOGUE.format(root=ROOT), "utf-8")
    with (
        pytest.MonkeyPatch.context() as patch,
        Stack(folder=folder / "state", catalogue=catalogue) as stack,
        httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as client,
    ):
        patch.setattr(Project, "state", folder / "state")
        yield client


def start(http: httpx.Client, path: str, **arguments: Any) -> None:
    assert http.post(path, json={"arguments": arguments}).status_code == 201


def ended(http: httpx.Client, path: str) -> dict[str, Any]:
    """Return the status of a run when it has ended."""

    def look() -> dict[str, Any] | None:
        status: dict[str, Any] = http.get(f"{path}?wait_seconds=5").raise_for_status().json()
        return status if status["state"] not in ("running", "stuck") else None

    found: dict[str, Any] = eventually(look, SECONDS_MAX)
    return found


def test_orders_are_shipped_or_undone(http: httpx.Client, capsys: pytest.CaptureFixture[str]) -> None:
    http.post("shop/stock", json={"item": "tea", "count": 9}).raise_for_status()
    amounts = {"1": 30, "2": 3_000, "3": 3_000, "4": 3_000, "5": 0}
    for number, amount in amounts.items():
        start(http, f"shop/flows/checkout/{number}", order=number, item="tea", count=1, amount=amount)
    assert ended(http, "shop/flows/checkout/1")["state"] == "completed"
    approve = {"2": {"by": "ann", "approved": True}, "3": {"by": "bob", "approved": False}}
    for number, value in approve.items():
        sent = http.post(f"shop/flows/checkout/{number}/events/approval", json={"value": value})
        assert sent.status_code == 202
    assert http.post("shop/flows/checkout/4/cancel", json={"reason": "too dear"}).status_code == 202
    states = {number: ended(http, f"shop/flows/checkout/{number}")["state"] for number in amounts}
    assert states["5"] == "failed"
    assert states["4"] in ("cancelled", "failed")
    orders = {number: http.get(f"shop/orders/{number}").json()["state"] for number in amounts}
    assert {orders[number] for number, state in states.items() if state == "completed"} == {"shipped"}
    assert {orders[number] for number, state in states.items() if state != "completed"} == {"undone"}
    stock = http.post("shop/objects/Stock/tea/show", json={}).json()["result"]
    assert stock["left"] + len(stock["reserved"]) == 9
    assert stock["reserved"].keys() == {number for number, state in orders.items() if state == "shipped"}
    assert main(["flow", "checkout/1"]) == 0
    drawn = capsys.readouterr().out
    assert drawn.startswith("checkout/1: completed, 3 log entries")
    assert "step shop.charge" in drawn
    assert main(["flow", "checkout/none"]) == 1


def test_machines_go_along_their_graph_and_the_provider_is_free_at_the_end(http: httpx.Client) -> None:
    http.post("machines/provider").raise_for_status()
    names = ("m1", "m2", "m3")
    for name in names:
        start(http, f"machines/flows/machine/{name}", name=name)
        for order in ({"order": "start"}, {"order": "nonsense"}, {"order": "stop"}, {"order": "delete", "sure": True}):
            sent = http.post(f"machines/flows/machine/{name}/events/order", json={"value": order})
            assert sent.status_code == 202
    for name in names:
        status = ended(http, f"machines/flows/machine/{name}")
        assert status["result"] == {"state": "deleted", "changes": 3}
        nodes = [http.get(f"documents/node-{name}-{number}").json()["state"] for number in (1, 2, 3)]
        assert nodes == ["running", "stopped", "deleted"]
    assert eventually(lambda: http.get("semaphores/provider").json()["free"] == 2)


def test_the_queues_of_the_stack_have_their_shards(http: httpx.Client) -> None:
    queues = http.get("console/queues").raise_for_status().json()["queues"]
    assert {"flows", "flows-2", "flows-3", "tasks-3"} <= {each["name"] for each in queues}
