"""Large values on a local stack: one goes through a flow and is removed with its run; commands and the console."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from signalbox_tools.cli.main import main
from signalbox_tools.local.stack import Stack
from tests.emulator.polling_until import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 120.0
SIZE = 5 * 1024 * 1024
CODE = """
from signalbox import Function, Request, batch, flow
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


@app.flow
async def desk() -> None:
    while True:
        got = await flow.update("ask", int)
        got.answer("x" * got.value)


@app.http("POST", "/many")
def many(request: Request) -> str:
    batch("many").populate(build.call(size=size) for size in (3, 200_000))
    return "many"


reports = app.entry_point()
"""
CATALOGUE = """
payloads: true
functions:
  reports: {{folder: {folder}, invoked_by: [people, queue], enqueues: [batches, flows, tasks],
    tasks: [build, measure], flows: [desk, inner, report]}}
  batches: {{folder: {root}/functions/batches, invoked_by: [people], enqueues: [batches, tasks]}}
  batch_expand: {{folder: {root}/functions/batch_expand, invoked_by: [queue], enqueues: [batches, tasks]}}
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


@pytest.fixture
def command(stack: Stack, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """A command of `signalbox` that calls the stack, and prints JSON."""

    def run(*arguments: str) -> Any:
        assert main([*arguments, "--url", stack.base_url]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_results_of_units_and_answers_to_updates_are_printed_and_shown_by_the_console(
    stack: Stack, command: Callable[..., Any], page: Page
) -> None:
    assert httpx.post(f"{stack.base_url}reports/many", json={}, timeout=SECONDS_MAX).status_code == 200
    command("flows", "start", "reports", "desk", "1")
    update = ("flows", "update", "reports", "desk", "1", "ask", "200000", "--key", "first", "--wait", str(SECONDS_MAX))
    assert command(*update) == ["x" * 200_000]
    assert command("flows", "answer", "reports", "desk", "1", "first") == ["x" * 200_000]
    command("batches", "watch", "many")
    small, large = sorted(command("batches", "units", "many", "--json"), key=lambda unit: int(unit["index"]))
    assert small["result"] == "xxx"
    assert command("batches", "value", "many", "1", large["result"]["$payload"]["sha256"]) == ["x" * 200_000]
    page.set_viewport_size({"width": 390, "height": 900})
    page.emulate_media(color_scheme="dark")
    for place in ("batches/many", "flows/reports/desk/1?update=first"):
        page.goto(f"{stack.base_url}console#/{place}")
        page.wait_for_selector("main a[download]")
        with page.expect_download() as download:
            page.click("main a[download]")
        assert json.loads(Path(download.value.path()).read_text("utf-8")) == "x" * 200_000
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def files_of(stack: Stack) -> list[int]:
    """Return the sizes of the files of 5 MiB."""
    sizes = (each.stat().st_size for each in stack.folder.rglob("payloads/*/**/*") if each.is_file())
    return sorted(size for size in sizes if size > SIZE)


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
