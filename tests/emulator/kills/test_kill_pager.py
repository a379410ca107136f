"""Runs that need a person while parts of the real stack are killed: a pager is told of each, and of nothing else."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

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
import json
from urllib.request import Request, urlopen

from signalbox import FailureNotice, Function, Problem, TaskContext, flow

app = Function("shop")


@app.on_failure
def page(notice: FailureNotice, context: TaskContext) -> None:
    told = {{"operation": context.operation, "run": notice.id, "reason": notice.reason}}
    urlopen(Request("{pager}", json.dumps(told).encode()), timeout=10).close()


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
  shop: {{folder: {folder}}}
  sweep: {{folder: {root}/functions/sweep, invoked_by: [schedule], enqueues: [batches, flows, tasks]}}
queues:
  batches: &queue {{dispatches_per_second: 100, concurrent_max: 8, attempts_max: -1, backoff_min_seconds: 0.1,
    backoff_max_seconds: 1, doublings_max: 4}}
  flows: *queue
  tasks: *queue
schedules:
  sweep: {{function: sweep, cron: "* * * * *", local_every_seconds: 2}}
"""
REFUSED_RATE = 0.3
"""The share of the calls that the pager refuses."""


class Pager(ThreadingHTTPServer):
    """A pager that is sometimes out of order. `told` are the pages that it has received."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), PagerRequest)
        self.told: list[dict[str, str]] = []
        self.random = Random(1)


class PagerRequest(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        pager = self.server
        assert isinstance(pager, Pager), "it serves a pager"
        page = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_refused = pager.random.random() < REFUSED_RATE
        if not is_refused:
            pager.told.append(page)
        self.send_response(503 if is_refused else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def pager() -> Iterator[Pager]:
    with Pager() as pager:
        thread = Thread(target=pager.serve_forever)
        thread.start()
        yield pager
        pager.shutdown()
        thread.join()


@pytest.fixture
def stack(tmp_path: Path, pager: Pager) -> Iterator[Stack]:
    (tmp_path / "infra").mkdir()
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "main.py").write_text(CODE.format(pager=f"http://127.0.0.1:{pager.server_port}/"), "utf-8")
    catalogue = tmp_path / "infra" / "catalogue.yaml"
    catalogue.write_text(CATALOGUE.format(root=ROOT, folder=tmp_path / "shop"), "utf-8")
    with Stack(folder=tmp_path / "state", catalogue=catalogue) as stack:
        yield stack


@pytest.mark.timeout(3 * SECONDS_MAX)
def test_a_pager_is_told_of_each_run_that_needs_a_person_although_parts_are_killed(stack: Stack, pager: Pager) -> None:
    ends = {f"{how}-{number}": how for number in range(RUNS // 3) for how in ("stuck", "failed", "completed")}
    parts = {RUNS // 4: "functions", RUNS // 2: "cloud-tasks", RUNS - 1: "functions"}
    with Client(stack.base_url) as client:
        for number, (order, how) in enumerate(ends.items()):
            arguments = {"order": order, "ends": how}
            client.request("POST", f"shop/flows/ship/{order}", body={"arguments": arguments})
            if number in parts:
                kill(stack, parts[number])
        need = {order: how for order, how in ends.items() if how != "completed"}
        eventually(lambda: {page["run"] for page in pager.told} >= need.keys(), SECONDS_MAX)

        def states() -> dict[str, str]:
            return {order: client.request("GET", f"shop/flows/ship/{order}")["state"] for order in ends}

        eventually(lambda: states() == ends, SECONDS_MAX)
    assert {page["run"]: page["reason"] for page in pager.told} == need
    assert len({page["operation"] for page in pager.told}) == len(need), "a repeat has the operation of the first"
