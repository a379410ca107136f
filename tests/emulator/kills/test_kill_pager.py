"""Runs that need a person while parts of the real stack are killed: a pager is told of each, and of nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from signalbox.client import Client
from signalbox_tools.local.stack import Stack
from tests.emulator.kills.killed_services import kill
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
RUNS = 24
SECONDS_MAX = 120
CODE = """
from signalbox import FailureNotice, Function, Problem, TaskContext, documents, flow

app = Function("shop")


@app.on_failure
def page(notice: FailureNotice, context: TaskContext) -> None:
    told = {"operation": context.operation, "run": notice.id, "reason": notice.reason}
    documents.put(f"page-{context.operation}", told)


@app.task
def pack(order: str) -> str:
    return order


@app.flow
async def ship(order: str, ends: str) -> str:
    await pack.call(order)
    if ends == "stuck":
        raise ValueError("the code is wrong")
    if ends == "failed":
        raise Problem("the parcel is lost")
    return await pack.call(order)


shop = app.entry_point()
"""
CATALOGUE = """
functions:
  shop: {{folder: {folder}, invoked_by: [people, queue], enqueues: [batches, flows, tasks], tasks: [pack],
    flows: [ship], on_failure: true}}
  documents: {{folder: {root}/functions/documents, invoked_by: [people], enqueues: []}}
  sweep: {{folder: {root}/functions/sweep, invoked_by: [schedule], enqueues: [batches, flows, tasks]}}
queues:
  batches: &queue {{dispatches_per_second: 100, concurrent_max: 8, attempts_max: -1, backoff_min_seconds: 0.1,
    backoff_max_seconds: 1, doublings_max: 4}}
  flows: *queue
  tasks: *queue
schedules:
  sweep: {{function: sweep, cron: "* * * * *", local_every_seconds: 2}}
"""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    (tmp_path / "infra").mkdir()
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "main.py").write_text(CODE, "utf-8")
    catalogue = tmp_path / "infra" / "catalogue.yaml"
    catalogue.write_text(CATALOGUE.format(root=ROOT, folder=tmp_path / "shop"), "utf-8")
    with Stack(folder=tmp_path / "state", catalogue=catalogue) as stack:
        yield stack


@pytest.mark.timeout(3 * SECONDS_MAX)
def test_a_pager_is_told_of_each_run_that_needs_a_person_although_parts_are_killed(stack: Stack) -> None:
    ends = {f"{how}-{number}": how for number in range(RUNS // 3) for how in ("stuck", "failed", "completed")}
    with Client(stack.base_url) as client:
        for number, (order, how) in enumerate(ends.items()):
            arguments = {"order": order, "ends": how}
            client.request("POST", f"shop/flows/ship/{order}", body={"arguments": arguments})
            if number in (RUNS // 3, 2 * RUNS // 3):
                kill(stack, "functions" if number == RUNS // 3 else "cloud-tasks")
        need = {order: how for order, how in ends.items() if how != "completed"}

        def told() -> dict[str, str] | None:
            found = client.request("GET", "documents?prefix=page-&limit=200")["documents"]
            pages = {page["run"]: page["reason"] for page in found}
            return pages if pages.keys() >= need.keys() else None

        assert eventually(told, SECONDS_MAX) == need
        states = {order: client.request("GET", f"shop/flows/ship/{order}?wait_seconds=30")["state"] for order in ends}
    assert states == ends
