"""The console of a local stack, as `signalbox dev` serves it: traces, plots, a real deadlock, counts of its queues."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from signalbox.client import Client, NotFound, call
from signalbox_tools.local.stack import Stack
from tests.browser.console.console_page import Console

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

SEATS = 5
DEADLOCK = "() => document.querySelectorAll('[data-node]:has(.node.marked)').length === 5"
STEADY_MILLISECONDS = 100_000
PLOTS = "In each minute of the last hour; failed ones, with a status of 500 or more, are red"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(folder=tmp_path_factory.mktemp("stack")) as stack:
        yield stack


@pytest.fixture
def shown(page: Page, stack: Stack) -> Console:
    return Console(page, stack.base_url)


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    with Client(stack.base_url) as client:
        yield client


def test_a_change_is_followed_from_its_request_to_the_last_copy(shown: Console, stack: Stack, client: Client) -> None:
    client.documents.put("town", {"name": "old"})
    for name in ("ann", "ben"):
        client.documents.put(name, {"home": {"key": "town"}})
    stack.wait_until_idle(30)
    client.documents.put("town", {"name": "new"})
    stack.wait_until_idle(30)
    shown.open("traces?search=link_refresh", "Traces")
    [latest, *_] = shown.rows("The newest 100")
    assert (latest[0], latest[3:]) == ("documents PUT /documents/town", ["5", "0"])
    shown.page.click("td a")
    shown.page.wait_for_selector(".span")
    spans = shown.spans()
    assert spans[:5] == [
        ("request", "documents PUT "),
        ("part", "commit 1 write"),
        ("request", "link_fan_out event documents/town"),
        ("request", "link_refresh / town"),
        ("part", "write each 2 writes"),
    ]
    assert sorted(spans[5:]) == [("request", f"link_fan_out event documents/{name}") for name in ("ann", "ben")]
    shown.page.click(".span summary >> nth=0")
    assert "/documents/town" in shown.page.inner_text("details[open]")


def test_a_run_leads_to_its_trace_and_a_step_to_the_run(shown: Console, stack: Stack, client: Client) -> None:
    client.semaphore("dock").ensure(permits=1, lease_seconds=60)
    client.flow("shop", "ship").start("o-1", order="o-1", item="cup")
    stack.wait_until_idle(30)
    shown.open("flows/shop/ship/o-1", "ship/o-1")
    shown.page.click("text=Traces of this run")
    shown.page.click("table a >> nth=-1")
    shown.page.wait_for_selector(".span.recorded")
    names = {name.strip() for outcome, name in shown.spans() if outcome == "recorded"}
    assert {"flow ship o-1", "step shop.print_label o-1", "step shop.hand_over o-1"} <= names
    shown.page.click(".span.recorded summary >> nth=0")
    shown.page.click("details[open] a")
    shown.page.wait_for_function("() => document.querySelector('h1')?.textContent === 'ship/o-1'")


def test_requests_and_failed_ones_are_plotted_by_function_and_what_the_console_reads_is_not(
    shown: Console, client: Client
) -> None:
    for _ in range(3):
        client.standings.kinds()
    shown.open("standings", "Standings")
    shown.open("overview", "Overview")
    rows = shown.rows(PLOTS)
    assert [row[:3] for row in rows if row[0] == "standings"] == [["standings", "3", "0"]]
    assert shown.page.locator("svg.plot rect.done").count() >= len(rows)


def test_a_queue_is_paused_and_resumed_by_clicks_and_its_tasks_wait_meanwhile(
    shown: Console, stack: Stack, client: Client
) -> None:
    shown.open("overview", "Overview")
    shown.page.click("tr:has-text('tasks') button[data-action=pause-queue]")
    shown.page.fill("dialog [name=reason]", "an inventory")
    shown.page.keyboard.press("Enter")
    shown.page.wait_for_selector("tr:has-text('tasks') button[data-action=resume-queue]")
    client.tasks.enqueue(call("shop", "undo", {"order": "paused"}))
    shown.page.wait_for_function(f"() => {ROW_OF_TASKS}?.[1] === 'paused' && {ROW_OF_TASKS}?.[2] === '1'")
    with pytest.raises(NotFound):
        client.documents.get("order-paused")
    shown.page.click("tr:has-text('tasks') button[data-action=resume-queue]")
    shown.page.fill("dialog [name=reason]", "it is over")
    shown.page.keyboard.press("Enter")
    shown.page.wait_for_function(f"() => {ROW_OF_TASKS}?.[1] === 'running' && {ROW_OF_TASKS}?.[2] === '0'")
    stack.wait_until_idle(30)
    assert client.documents.get("order-paused")["state"] == "undone"
    lines = (stack.folder / "functions.log").read_text("utf-8").splitlines()
    said = [line for line in map(json.loads, lines) if line.get("message") == "console action"]
    assert [(each["action"], each["reason"], each["status"]) for each in said] == [
        ("pause-queue", "an inventory", 204),
        ("resume-queue", "it is over", 204),
    ]


ROW_OF_TASKS = (
    "[...document.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
    ".find(([name, state]) => name === 'tasks' && ['running', 'paused'].includes(state))"
)


@pytest.mark.marathon
def test_philosophers_on_a_stack_are_drawn_as_a_circle_and_its_queues_are_counted(page: Page, tmp_path: Path) -> None:
    with Stack(folder=tmp_path) as stack:
        with Client(stack.base_url) as client:
            client.request("POST", "philosophers", body={"table": "t", "seats": SEATS, "rounds": 3, "mode": "naive"})
        page.goto(f"{stack.base_url}console#/semaphores")
        page.wait_for_function(DEADLOCK, timeout=STEADY_MILLISECONDS)
        page.goto(f"{stack.base_url}console#/overview")
        page.wait_for_function(f"() => {ROW_OF_TASKS}?.[1] === 'running'")
        log = (tmp_path / "functions.log").read_text("utf-8")
    assert '"page": "console"' in log or '"page":"console"' in log
