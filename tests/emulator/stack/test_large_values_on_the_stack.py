"""A result of 5 MiB goes through a flow on a local stack. Its files are removed with the run, after its retention."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from signalbox_tools.local.stack import Stack
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 120.0
SIZE = 5 * 1024 * 1024
CODE = """
from signalbox import Function
from signalbox.flows.limits import LIMITS

LIMITS.flow_kept_seconds = 20
app = Function("reports")


@app.task
def build(size: int) -> str:
    return "x" * size


@app.task
def measure(report: str) -> int:
    return len(report)


@app.flow
async def inner(size: int) -> str:
    return await build.call(size=size)


@app.flow
async def report(size: int) -> dict[str, object]:
    text = await inner.call(size=size)
    return {"measured": await measure.call(report=text), "text": text}


reports = app.entry_point()
"""
CATALOGUE = """
payloads: true
functions:
  reports: {{folder: {folder}, invoked_by: [people, queue], enqueues: [batches, flows, tasks],
    tasks: [build, measure], flows: [inner, report]}}
  sweep: {{folder: {root}/functions/sweep, invoked_by: [schedule], enqueues: [batches, flows, tasks]}}
queues:
  batches: &queue {{dispatches_per_second: 100, concurrent_max: 4, attempts_max: -1, backoff_min_seconds: 0.1,
    backoff_max_seconds: 1, doublings_max: 4}}
  flows: *queue
  tasks: *queue
schedules:
  sweep: {{function: sweep, cron: "* * * * *", local_every_seconds: 2}}
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("large")
    (folder / "infra").mkdir()
    (folder / "reports").mkdir()
    (folder / "reports" / "main.py").write_text(CODE, "utf-8")
    catalogue = folder / "infra" / "catalogue.yaml"
    catalogue.write_text(CATALOGUE.format(root=ROOT, folder=folder / "reports"), "utf-8")
    with Stack(folder=folder / "state", catalogue=catalogue) as stack:
        yield stack


def files_of(stack: Stack) -> list[int]:
    return sorted(each.stat().st_size for each in stack.folder.rglob("payloads/*/**/*") if each.is_file())


def test_a_result_of_5_mib_goes_through_a_flow_and_is_removed_with_its_run(stack: Stack) -> None:
    with httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as http:
        started = http.post("/reports/flows/report/1", json={"arguments": {"size": SIZE}})
        assert started.status_code == 201

        def ended() -> dict[str, Any] | None:
            status = http.get("/reports/flows/report/1", params={"wait_seconds": 10}).json()
            return status if status["state"] != "running" else None

        status = eventually(ended, SECONDS_MAX)
        assert status["state"] == "completed", status
        named = status["result"]["$payload"]
        assert named["bytes"] > SIZE
        sizes = files_of(stack)
        assert len(sizes) == 3, "of the sub-flow and its step, of its parent, and of the parent's result"
        value = http.get(f"/reports/flows/report/1/payloads/{named['sha256']}").json()["value"]
        assert (value["measured"], len(value["text"])) == (SIZE, SIZE)
        eventually(lambda: http.get("/reports/flows/report/1").status_code == 404 or None, SECONDS_MAX)
        eventually(lambda: not files_of(stack) or None, SECONDS_MAX)
