"""The console in Chromium: it shows what the API says, names are only text, and it loads nothing from elsewhere."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from signalbox import Function, Problem, flow, flows
from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox.testing.limits import replaced
from signalbox_infra.console.pages import FOLDER, POLICY
from signalbox_infra.console.serving import server_of
from signalbox_infra.deploy.commands import Outcome
from signalbox_infra.deploy.target import Target
from signalbox_infra.local.functions.server import mounted
from tests.serving import serving

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from playwright.sync_api import Page, Route

HOSTILE = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'<b>'\"&amp;"
"""A name that would be markup, were it not text."""

gate = Function("gate")
doors = Function("doors")
doors.callbacks()
mill = Function("mill")
jams: list[str] = []


@pytest.fixture(scope="module")
def app() -> WSGIApplication:
    with Harness():
        return mounted(load())


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness, replaced(watch_pause_seconds=0.1):
        yield harness


@pytest.fixture
def base(app: WSGIApplication, harness: Harness) -> Iterator[str]:
    with serving(app) as base:
        yield base


@pytest.fixture
def console(page: Page, base: str) -> Iterator[Console]:
    """Return the console; at the end it has logged no error and loaded nothing from elsewhere."""
    logged: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: logged.append(message.text) if message.type in ("error", "warning") else None)
    page.on("request", lambda request: asked.append(request.url))
    yield Console(page, base)
    assert logged == []
    assert [url for url in asked if not url.startswith(base)] == []


class Console:
    """The console's page, and what can be seen of it."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base

    def open(self, place: str, heading: str) -> None:
        self.page.goto(f"{self.base}console#/{place}")
        self.page.wait_for_function("text => document.querySelector('h1')?.textContent === text", arg=heading)

    def rows(self, caption: str) -> list[list[str]]:
        """Return the cells of the table with this caption, below its head."""
        rows: list[list[str]] = self.page.evaluate(
            """caption => [...document.querySelectorAll("table")]
                .filter((each) => each.caption.textContent === caption)
                .flatMap((each) => [...each.tBodies[0].rows])
                .map((row) => [...row.cells].map((cell) => cell.textContent))""",
            caption,
        )
        return rows

    def facts(self) -> dict[str, str]:
        found: dict[str, str] = self.page.evaluate(
            """() => Object.fromEntries([...(document.querySelector("main > dl")?.children ?? [])]
                .filter((each) => each.tagName === "DT")
                .map((each) => [each.textContent, each.nextElementSibling.textContent]))"""
        )
        return found

    def spans(self) -> list[tuple[str, str]]:
        """Return the outcome and the name of each row of a timeline."""
        found: list[list[str]] = self.page.eval_on_selector_all(
            ".span", "all => all.map((each) => [each.classList[1], each.querySelector('.name').textContent])"
        )
        return [(outcome, name) for outcome, name in found]

    def attributes(self, selector: str, name: str) -> list[str]:
        found: list[str] = self.page.eval_on_selector_all(selector, f"all => all.map((each) => each.dataset.{name})")
        return found


def deadlock(harness: Harness, seats: int = 5) -> None:
    """Run philosophers until each holds one fork and waits for the next."""
    harness.post("philosophers", json={"table": "t", "seats": seats, "rounds": 1, "mode": "naive"})
    harness.travel(3)
    assert len(harness.get("semaphores?deadlocks=true").json["deadlocks"]) == 1


def test_a_deadlock_is_drawn_as_the_circle_that_it_is(console: Console, harness: Harness) -> None:
    deadlock(harness)
    console.open("semaphores", "Semaphores")
    console.page.wait_for_selector("#deadlocks")
    circle = console.rows("A circle of 5")
    assert [(row[0], row[2], row[3]) for row in circle] == [
        (f"t seat {seat}", f"t-fork-{(seat + 1) % 5}", f"t seat {(seat + 1) % 5}") for seat in range(5)
    ]
    assert sorted(console.attributes("[data-edge]:has(.edge.marked)", "edge")) == [
        f"t seat {seat}→t seat {(seat + 1) % 5}" for seat in range(5)
    ]
    assert len(console.attributes("[data-node]:has(.node.marked)", "node")) == 5
    assert [row[:4] for row in console.rows("The first 50 that have waiters")] == [
        [f"t-fork-{number}", "1", "1", "0"] for number in range(5)
    ]


def test_a_semaphore_is_shown_with_its_holders_and_waiters_in_order(console: Console, harness: Harness) -> None:
    deadlock(harness)
    console.open("semaphores/t-fork-0", "t-fork-0")
    [lease], [waiter] = console.rows("Live leases"), console.rows("The first hundred, in order")
    assert lease[1:3] == ["t seat 0", "philosophers.wait_for_second_fork"]
    assert waiter[0] == "1"
    assert waiter[2:4] == ["t seat 4", "philosophers.eat"]
    assert console.facts() == {"permits": "1", "free": "0", "lease seconds": "20"}


def test_a_batch_progresses_to_its_end_while_it_is_watched(console: Console, harness: Harness) -> None:
    harness.post("batches", json={"id": "b", "units": list(range(20)), "sealed": True})
    complete(harness, range(5))
    console.open("batches/b", "b")
    wait_for_squares(console.page, succeeded=4, failed=1)
    complete(harness, range(5, 20))
    wait_for_squares(console.page, succeeded=16, failed=4)
    console.page.wait_for_function("() => document.querySelector('dd').textContent === 'completed'")
    assert console.facts() == {"state": "completed", "units": "20", "succeeded": "16", "failed": "4", "remaining": "0"}
    assert [row[0] for row in console.rows("The first 50")] == ["0", "6", "12", "18"]
    assert console.page.evaluate("(({value, max}) => [value, max])(document.querySelector('progress'))") == [20, 20]


def test_a_unit_that_failed_again_after_the_end_of_its_batch_is_shown_as_it_is_now(
    console: Console, harness: Harness
) -> None:
    harness.post("quilt", json={"quilt": "q", "side": 2, "torn": 1})
    harness.run()
    console.open("batches/q", "q")
    wait_for_squares(console.page, succeeded=3, failed=1)
    assert [row[1] for row in console.rows("The first 50")] == ["0"]
    harness.post("batches/q/retry", json={})
    harness.run(raise_errors=False)
    console.page.wait_for_function("() => document.querySelector('tbody tr').cells[1].textContent === '1'")
    assert console.facts()["state"] == "completed"


def complete(harness: Harness, units: Iterable[int]) -> None:
    for unit in units:
        outcome = {"error": f"no paper {HOSTILE}"} if unit % 6 == 0 else {"result": unit}
        harness.post(f"batch-complete/b/{unit}", json=outcome)


def wait_for_squares(page: Page, **counts: int) -> None:
    for state, count in counts.items():
        page.wait_for_function(f"() => document.querySelectorAll('rect.{state}').length === {count}")


def test_a_flow_is_a_timeline_that_ends_with_what_it_waits_for(console: Console, harness: Harness) -> None:
    order = {"order": "7", "item": "tea", "count": 1, "amount": 3_000}
    harness.post("shop/stock", json={"item": "tea", "count": 10})
    harness.post("shop/flows/checkout/7", json={"arguments": order})
    harness.travel(3)
    console.open("flows/shop/checkout", "Runs of checkout")
    [run] = console.rows("The newest first")
    assert (run[:2], run[3]) == (["7", "running"], "")
    console.page.click("table a")
    console.page.wait_for_selector(".span.pending")
    spans = console.spans()
    assert spans[0] == ("done", "step shop.charge")
    assert ("pending", "event approval") in spans
    assert len(spans) == console.page.locator("svg.lane .bar").count()
    console.page.focus(".span summary")
    console.page.keyboard.press("Enter")
    shown = console.page.inner_text(".span[open]")
    assert "main.py:" in shown
    assert "in checkout" in shown
    assert "receipt of 7" in shown
    with console.page.expect_response("**/log?*"):
        pass
    assert console.page.locator(".span[open]").count() == 1, "reading again leaves it open"


BARS = "all => all.map((bar) => ['x', 'width'].map((name) => parseFloat(bar.getAttribute(name))))"


class Jammed(Problem):
    status = 422
    title = "The mill is jammed"


@mill.task
def grind() -> str:
    if jams:
        raise Jammed(jams.pop())
    return "flour"


@mill.flow
async def milling() -> None:
    await flow.sleep(2)
    await flow.step(grind.call(), attempts_max=5, pause_seconds=4)
    await flow.event("rest")
    await flow.sleep(86_400)


def test_a_timeline_is_to_scale_and_a_sleep_shows_when_it_wakes(
    page: Page, app: WSGIApplication, harness: Harness
) -> None:
    jams[:] = ["A stone.", "Another stone."]
    harness.add(mill)
    flows("milling", "7").start()
    harness.travel(30)
    with serving(DispatcherMiddleware(app, {"/mill": harness.functions.app("mill")})) as base:
        console = Console(page, base)
        flows("milling", "7").event("rest")
        harness.travel(1)
        console.open("flows/mill/milling/7", "milling/7")
        page.wait_for_selector(".span")
        assert console.spans() == [
            ("done", "sleep"),
            ("done", "step mill.grind 3 attempts"),
            ("done", "event rest"),
            ("pending", "sleep"),
        ]
        assert "until" in page.inner_text(".span.pending")
        page.eval_on_selector_all(".span", "all => all.forEach((each) => { each.open = true; })")
        texts = page.locator(".span").all_inner_texts()
        assert "The mill is jammed: A stone." in texts[1]
        assert "wakes" in texts[3]
        harness.post("mill/flows/milling/7/terminate", json={"reason": "the evening"})
        page.reload()
        page.wait_for_selector(".span.abandoned")
        drawn = page.eval_on_selector_all(".bar", BARS)
        spans = harness.get("mill/flows/milling/7/log?spans=true").json["spans"]
        begun, ended = (datetime.fromisoformat(spans[at][name]) for at, name in ((0, "started_at"), (-1, "ended_at")))
        for (x, width), span in zip(drawn, spans, strict=True):
            started, over = (datetime.fromisoformat(span[name]) for name in ("started_at", "ended_at"))
            assert x == pytest.approx(100 * ((started - begun) / (ended - begun)), abs=0.1)
            assert width == pytest.approx(100 * ((over - started) / (ended - begun)), abs=0.11)


BROKEN_TIMES = """() => [...document.querySelectorAll("td")].filter((cell) => {
    const text = cell.firstChild, found = /\\d\\d:\\d\\d:\\d\\d/.exec(text?.data ?? "");
    if (!found) return false;
    const range = document.createRange();
    range.setStart(text, found.index);
    range.setEnd(text, found.index + found[0].length);
    return range.getClientRects().length > 1;
}).length"""


def test_no_time_is_broken_on_a_narrow_screen_and_the_links_leave_room(console: Console, harness: Harness) -> None:
    order = {"order": "7", "item": "tea", "count": 1, "amount": 3_000}
    harness.post("shop/stock", json={"item": "tea", "count": 10})
    harness.post("shop/flows/checkout/7", json={"arguments": order})
    harness.travel(3)
    console.page.set_viewport_size({"width": 400, "height": 800})
    console.open("flows/shop/checkout/7", "checkout/7")
    assert len(console.spans()) > 2
    console.page.eval_on_selector_all(".span", "all => all.forEach((each) => { each.open = true; })")
    assert console.page.evaluate(BROKEN_TIMES) == 0
    assert console.page.evaluate("document.documentElement.scrollWidth") == 400
    assert console.page.evaluate("document.querySelector('header').offsetHeight") < 130


@gate.flow
async def passage() -> None:
    await flow.callback("opened", through="doors", expires_seconds=60)
    await flow.event("opened")


def test_a_run_shows_the_event_of_an_open_callback_and_never_its_address(
    page: Page, app: WSGIApplication, harness: Harness
) -> None:
    for function in (gate, doors):
        harness.add(function)
    flows("passage", "7").start()
    harness.travel(3)
    with serving(DispatcherMiddleware(app, {"/gate": harness.functions.app("gate")})) as base:
        console = Console(page, base)
        console.open("flows/gate/passage/7", "passage/7")
        assert console.facts()["callbacks"] == "opened"
        assert console.spans()[0] == ("done", "run callback opened")
        assert "The result is an address, a secret." in str(page.text_content(".span"))
        assert "/callbacks/" not in page.content()
        flows("passage", "7").event("opened")
        harness.run()
        page.reload()
        page.wait_for_function("() => document.querySelector('h1') && !document.querySelector('.span.pending')")
        assert "callbacks" not in console.facts()


def test_a_document_is_drawn_with_its_links_from_it_and_to_it(console: Console, harness: Harness) -> None:
    harness.put("documents/town", json={"name": "stuffville", "mayor": {"key": "ann"}})
    harness.put("documents/ann", json={"name": "Ann"})
    harness.put("documents/fred", json={"name": "Fred", "home": {"key": "town"}})
    console.open("documents?prefix=fr", "Documents")
    assert [row[0] for row in console.rows("By key")] == ["fred"]
    console.open("documents/fred", "fred")
    assert console.rows("From here") == [["fred", "home", "town"], ["town", "mayor", "ann"]]
    assert console.attributes("[data-edge]", "edge") == ["fred→town", "town→ann"]
    console.open("documents/town?field=home", "town")
    assert [row[0] for row in console.rows("To here, the first 50")] == ["fred"]
    assert console.attributes("[data-edge]", "edge") == ["town→ann", "fred→town"]


def test_a_run_that_waits_for_a_stuck_one_says_so_and_a_lease_says_whose_it_is(
    console: Console, harness: Harness
) -> None:
    page = console.page
    harness.put("semaphores/dock", json={"permits": 1, "lease_seconds": 600})
    harness.post("semaphore-wait/dock", json={"id": "person"})
    harness.post("shop/flows/ship/s", json={"arguments": {"order": "s", "item": "cup"}})
    harness.travel(2)
    console.open("semaphores/dock", "dock")
    [waiter] = console.rows("The first hundred, in order")
    assert waiter[3] == "ship/s step 0"
    page.click("text=ship/s")
    page.wait_for_function("() => document.querySelector('h1').textContent === 'ship/s'")
    assert console.spans() == [("pending", "lock dock")]
    harness.delete("semaphores/dock/leases/person")
    harness.post("shop/stock", json={"item": "tea", "count": 10})
    order = {"order": "7", "item": "tea", "count": 1, "amount": 3_000}
    harness.post("shop/flows/checkout/7", json={"arguments": order})
    harness.travel(2)
    harness.delete("semaphores/dock")
    harness.post("shop/flows/checkout/7/events/approval", json={"value": {"approved": True, "by": "Ann"}})
    harness.travel(5, raise_errors=False)
    console.open("flows/shop/checkout/7", "checkout/7")
    page.wait_for_selector("main [role=alert]")
    assert "which is stuck: NoSemaphore: Semaphore 'dock' does not exist." in page.inner_text("main [role=alert]")
    assert "stuck below" in page.inner_text(".span.pending")


OVERLAPS = """() => {
    const boxes = (selector) => [...document.querySelectorAll(selector)].map((each) => each.getBoundingClientRect());
    const apart = (one, other) =>
        one.right <= other.left || other.right <= one.left || one.bottom <= other.top || other.bottom <= one.top;
    const labels = boxes("svg .label");
    const others = (at) => [...boxes("svg .node"), ...labels.filter((_, other) => other !== at)];
    return labels.filter((label, at) => others(at).some((other) => !apart(label, other))).length;
}"""


@pytest.mark.parametrize("seats", [2, 3, 5])
def test_no_label_of_the_wait_for_graph_covers_a_holder_or_another_label(
    console: Console, harness: Harness, seats: int
) -> None:
    deadlock(harness, seats)
    console.open("semaphores", "Semaphores")
    console.page.wait_for_selector("svg .label")
    assert console.page.locator("svg .label").count() == seats
    assert console.page.evaluate(OVERLAPS) == 0


def test_objects_standings_and_failures_are_listed_and_shown(console: Console, harness: Harness) -> None:
    harness.post("shop/stock", json={"item": "tea", "count": 10})
    harness.put("standings/likes", json={"by": ["item"]})
    harness.put("yokes/ann/tea", json={"value": 3})
    harness.post("tasks", json={"function": "shop", "task": "charge", "payload": {"order": "1", "amount": 0}})
    harness.run(raise_errors=False)
    console.open("objects/shop/Stock", "Objects of Stock")
    assert console.rows("By key") == [["tea"]]
    console.open("objects/shop/Stock/tea", "Stock/tea")
    assert (console.facts()["exists"], console.facts()["calls that wait"]) == ("yes", "0")
    assert '"left": 10' in console.page.inner_text("pre")
    assert "true" not in console.page.inner_text("main")
    console.open("standings/likes", "likes")
    assert console.rows("The largest first") == [["tea", "1", "3", "3", "3", "3"]]
    assert "Order by: count sum average min max" in console.page.inner_text("main")
    console.open("failures", "Failures")
    [failure] = console.rows("The newest first")
    assert failure[1:3] == ["shop.charge", "failed"]
    assert "An amount is positive." in failure[4]
    console.page.click("table a")
    console.page.wait_for_function("() => document.querySelector('h1').textContent === 'shop.charge'")
    assert '"order": "1"' in console.page.inner_text("pre")


def test_the_overview_counts_what_runs_and_what_failed(console: Console, harness: Harness) -> None:
    deadlock(harness)
    harness.post("batches", json={"id": "b", "units": [1], "sealed": True})
    harness.post("tasks", json={"function": "shop", "task": "charge", "payload": {"order": "1", "amount": 0}})
    harness.run(due_only=True)
    console.open("", "Overview")
    assert dict(console.rows("Needs attention")) == {"Deadlocks": "1", "Failures": "1"}
    assert dict(console.rows("Runs and waits")) == {"Semaphores with waiters": "5", "Batches, sealed": "1"}


def test_the_map_draws_what_calls_which_function_and_a_choice_shows_what_is_next_to_it(console: Console) -> None:
    line = {"name": "queue tasks", "text": "3 waiting", "well": True}
    console.page.route("**/console/status", lambda route: route.fulfill(json={"lines": [line]}))
    console.open("map", "Map")
    console.page.wait_for_selector("svg.map text:has-text('tasks: 3 waiting')")
    assert [row[1] for row in console.rows("Queues") if row[0] == "tasks"] == ["3 waiting"]
    nodes, catalogue = console.attributes("svg.map [data-node]", "node"), load()
    assert {node for node in nodes if node.startswith("function:")} == {
        f"function:{name}" for name in catalogue.functions
    }
    assert {node for node in nodes if node.startswith("queue:")} == {f"queue:{name}" for name in catalogue.queues}
    assert {"source:people", "source:schedule sweep", "source:trigger documents"} <= set(nodes)
    all_edges = console.attributes("svg.map [data-edge]", "edge")
    console.page.click("table >> text=shop")
    console.page.wait_for_selector("main >> text=Show all")
    shop = catalogue.functions["shop"]
    edges = {
        "source:people→function:shop",
        "source:trigger shop-ordered→function:shop",
        *(f"function:shop→queue:{queue}" for queue in shop.enqueues),
        *(f"queue:{queue}→function:shop" for queue in catalogue.calling_queues["shop"]),
    }
    assert set(console.attributes("svg.map [data-edge]", "edge")) == edges < set(all_edges)
    [row] = [row for row in console.rows("Functions") if row[0] == "shop"]
    assert row[1:3] == [", ".join(shop.invoked_by), ", ".join(shop.enqueues)]
    console.page.click("table >> text=checkout")
    console.page.wait_for_function("() => document.querySelector('h1').textContent === 'Runs of checkout'")


def test_an_overview_of_nothing_says_what_to_do(console: Console) -> None:
    console.open("", "Overview")
    text = console.page.inner_text("main")
    assert "Needs attention: nothing has failed, is stuck or deadlocked." in text
    assert "Runs and waits: nothing. Call a function, and it appears here." in text


def test_a_page_without_a_user_stops_reading(console: Console, harness: Harness) -> None:
    page = console.page
    page.clock.install()
    console.open("batches", "Batches")
    page.clock.fast_forward("11:00")
    page.wait_for_function("() => document.querySelector('#paused').textContent === 'Paused.'")
    harness.post("batches", json={"id": "b", "units": [1], "sealed": True})
    page.clock.fast_forward("01:00")
    assert console.rows("By id") == []
    page.click("#resume")
    page.wait_for_selector("table")
    assert console.rows("By id")[0][0] == "b"
    assert page.inner_text("#paused") == ""


def test_names_and_errors_are_text_wherever_they_stand(console: Console, harness: Harness) -> None:
    name = HOSTILE
    encoded = quoted(name)
    harness.put(f"semaphores/{encoded}", json={"permits": 1, "lease_seconds": 60})
    harness.post(f"semaphore-wait/{encoded}", json={"id": "<b>lease"})
    harness.post("batches", json={"id": "b", "units": [1], "sealed": True})
    complete(harness, range(1))
    console.open("semaphores", "Semaphores")
    assert console.rows("By name")[0][0] == name
    console.page.click("table a")
    console.page.wait_for_function("text => document.querySelector('h1').textContent === text", arg=name)
    assert console.rows("Live leases")[0][0].startswith("<b>lease")
    assert console.page.title().startswith(name)
    console.open("batches/b", "b")
    wait_for_squares(console.page, failed=1)
    assert name in console.rows("The first 50")[0][2]
    assert console.page.locator("main img, main script, main b").count() == 0


def quoted(name: str) -> str:
    return quote(name, safe="")


def test_a_problem_is_shown_as_the_api_states_it(page: Page, base: str) -> None:
    console = Console(page, base)
    console.open("semaphores/none", "none")
    answer: Any = Client(mounted(load())).get("/semaphores/none").get_json()
    shown = page.inner_text(".problem")
    assert answer["title"] in shown
    assert "status: 404" in shown
    assert answer["type"] in shown


def test_the_keyboard_reaches_the_content_and_typing_survives_a_reading(console: Console, harness: Harness) -> None:
    console.open("semaphores", "Semaphores")
    page = console.page
    page.keyboard.press("/")
    page.keyboard.type("prin")
    harness.put("semaphores/printer", json={"permits": 1, "lease_seconds": 60})
    page.wait_for_function("() => document.querySelector('table caption')?.textContent === 'By name'")
    page.keyboard.type("ter")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('h1').textContent === 'printer'")
    page.focus(".skip")
    page.keyboard.press("Enter")
    assert page.evaluate("[document.activeElement.id, document.documentElement.lang]") == ["content", "en"]
    assert page.url.endswith("#/semaphores/printer")


def test_j_and_k_go_from_row_to_row_and_a_question_mark_lists_the_keys(console: Console, harness: Harness) -> None:
    for name in ("first", "second", "third"):
        harness.put(f"semaphores/{name}", json={"permits": 1, "lease_seconds": 60})
    page, focused = console.page, "document.activeElement.textContent"
    console.open("semaphores", "Semaphores")
    page.wait_for_selector("table a")
    reached = []
    for key in "jjjjkk":
        page.keyboard.press(key)
        reached.append(page.evaluate(focused))
    assert reached == ["first", "second", "third", "third", "second", "first"]
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")
    page.keyboard.press("j")
    page.keyboard.press("Escape")
    assert page.evaluate(focused) == "first"
    page.keyboard.press("?")
    page.click("#keys button")
    page.wait_for_selector("#keys:not([open])", state="attached")
    page.keyboard.press("/")
    page.keyboard.type("jk?")
    assert page.input_value("main input") == "jk?"
    page.keyboard.press("Control+A")
    page.keyboard.type("second")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('h1').textContent === 'second'")


def test_a_deployments_console_reads_and_streams_through_the_relay(page: Page, base: str, harness: Harness) -> None:
    harness.post("batches", json={"id": "b", "units": [0, 1], "sealed": True})
    with relaying(base) as opened:
        page.goto(opened)
        page.wait_for_selector("text=demo-project, dev, us-central1")
        page.goto(f"{opened.partition('#')[0]}#/batches/b")
        page.wait_for_selector("text=Live.")
        assert "as your gcloud account" in page.inner_text("footer")
        complete(harness, range(2))
        wait_for_squares(page, succeeded=1, failed=1)
        assert page.evaluate("document.cookie") == ""
        page.reload()
        page.wait_for_selector("text=demo-project, dev, us-central1")
        sent = page.evaluate("() => fetch('/batches', {method: 'POST', body: '{}'}).then((answer) => answer.status)")
        assert sent == 405
    assert len(harness.get("batches").json["batches"]) == 1


@contextmanager
def relaying(base: str, *, acts: bool = False) -> Iterator[str]:
    """Serve the console of a deployment whose functions are at `base`; the value is the address to open."""
    target = Target("demo-project", "dev", "us-central1", {})
    server, relay = server_of(target, 0, lambda *_, **__: Outcome(0, "a-token"), base, acts=acts)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/console#key={relay.key}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_it_is_served_with_a_policy_that_permits_its_own_files_only(app: WSGIApplication, harness: Harness) -> None:
    client = Client(app)
    for name in ("", *(f"/{path.name}" for path in FOLDER.iterdir())):
        answer = client.get(f"/console{name}")
        assert (answer.status_code, answer.headers["Content-Security-Policy"]) == (200, POLICY)
    assert [client.post("/console").status_code, client.get("/console/none.js").status_code] == [404, 404]
    assert client.get("/console/..%2fpages.py").status_code == 404
    assert client.get("/").get_json()["console"].endswith("/console")


def test_its_modules_make_no_markup_of_text() -> None:
    """The policy would not stop it all: what is forbidden here are the ways to do so."""
    forbidden = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser", "style=")
    assert [
        (path.name, each) for path in FOLDER.iterdir() for each in forbidden if each in path.read_text("utf-8")
    ] == []


# --- actions ---


def confirm(page: Page, button: str, **fields: str) -> None:
    """Press a button, fill its dialog, and confirm it."""
    page.click(f"button[data-action={button}]")
    page.wait_for_selector("dialog[open]")
    for name, value in fields.items():
        page.fill(f"dialog [name='{name}']", value)
    page.click("dialog [name=confirm]")
    page.wait_for_selector("#action:not([open])", state="attached")


def stuck_at_the_dock(harness: Harness, *ids: str) -> None:
    """Start shipments that are stuck, as there is no semaphore `dock`; then create it."""
    for id_ in ids:
        harness.post(f"shop/flows/ship/{id_}", json={"arguments": {"order": id_, "item": "cup"}})
    harness.travel(2, raise_errors=False)
    assert {state_of(harness, id_) for id_ in ids} == {"stuck"}
    harness.put("semaphores/dock", json={"permits": 1, "lease_seconds": 60})


def state_of(harness: Harness, run: str, flow: str = "ship") -> str:
    return str(harness.get(f"shop/flows/{flow}/{run}").json["state"])


def test_a_stuck_run_is_resumed_by_clicks(console: Console, harness: Harness) -> None:
    stuck_at_the_dock(harness, "o-1")
    console.open("flows/shop/ship/o-1", "ship/o-1")
    assert console.facts()["state"] == "stuck"
    confirm(console.page, "resume", reason="the dock is there")
    harness.run()
    console.page.wait_for_function("() => document.querySelector('dd').textContent === 'completed'")
    assert console.attributes("button[data-action]", "action") == ["fork", "delete-run"]


def test_a_run_is_suspended_and_resumed_by_clicks(console: Console, harness: Harness) -> None:
    stuck_at_the_dock(harness, "o-1")
    console.open("flows/shop/ship/o-1", "ship/o-1")
    confirm(console.page, "suspend", reason="an inventory")
    console.page.wait_for_function("() => document.querySelector('dd').textContent === 'suspended'")
    assert console.facts()["suspended"].endswith(", an inventory")
    assert "suspend" not in console.attributes("button[data-action]", "action")
    harness.run()
    assert state_of(harness, "o-1") == "suspended"
    confirm(console.page, "resume", reason="it is over")
    harness.run()
    console.page.wait_for_function("() => document.querySelector('dd').textContent === 'completed'")


def test_a_run_is_forked_by_clicks_and_the_fork_names_its_origin(console: Console, harness: Harness) -> None:
    stuck_at_the_dock(harness, "o-1")
    console.open("flows/shop/ship/o-1", "ship/o-1")
    confirm(console.page, "fork", **{"body id": "o-2", "body from_entry": "0"}, reason="the dock is there")
    harness.run()
    assert state_of(harness, "o-2") == "completed"
    console.open("flows/shop/ship/o-2", "ship/o-2")
    assert console.facts()["forked from"] == "o-1, 0 entries"
    confirm(console.page, "fork", **{"body from_entry": "0"}, reason="the same again")
    harness.run()
    assert state_of(harness, "o-2-2") == "completed"


def test_all_runs_that_match_are_counted_and_then_resumed(console: Console, harness: Harness) -> None:
    ids = [f"o-{n}" for n in range(6)]
    stuck_at_the_dock(harness, *ids)
    console.open("flows/shop/ship?state=stuck", "Runs of ship")
    page = console.page
    page.click("button[data-action=resume]")
    page.wait_for_function("() => document.querySelector('#action-what').textContent === '6 match.'")
    page.fill("dialog [name=reason]", "the dock is there")
    page.keyboard.press("Enter")
    page.wait_for_selector("#action:not([open])", state="attached")
    harness.run()
    assert {state_of(harness, id_) for id_ in ids} == {"completed"}


def test_an_event_a_failure_a_batch_and_a_lease(page: Page, base: str, harness: Harness) -> None:
    console = Console(page, base)  # a page that has lost its failure logs the 410
    harness.post("shop/objects/Stock/cup/put", json={"count": 1})
    order = {"order": "o-1", "item": "cup", "count": 1, "amount": 90_000}
    harness.post("shop/flows/checkout/o-1", json={"arguments": order})
    harness.run(due_only=True)
    console.open("flows/shop/checkout/o-1", "checkout/o-1")
    page.click("button[data-action=send]")
    page.fill("dialog [name=name]", "approval")
    page.fill("dialog [name=value]", "{approved}")
    page.fill("dialog [name=reason]", "Ann said so")
    page.click("dialog [name=confirm]")
    page.wait_for_selector("dialog >> text=The value is not JSON")
    page.fill("dialog [name=value]", '{"approved": false, "by": "Ann"}')
    page.click("dialog [name=confirm]")
    page.wait_for_selector("#action:not([open])", state="attached")
    harness.run()
    assert state_of(harness, "o-1", "checkout") == "failed"

    harness.post("tasks", json={"function": "shop", "task": "charge", "payload": {"order": "1", "amount": 0}})
    harness.run(due_only=True)
    [failure] = harness.get("failures").json["failures"]
    console.page.goto(f"{console.base}console#/failures/{failure['id']}")
    page.wait_for_selector("button[data-action=retry-failure]")
    confirm(page, "delete-failure", reason="a test")
    assert harness.get("failures").json["failures"] == []

    harness.post("batches", json={"id": "b", "units": [0, 1], "sealed": True})
    console.open("batches/b", "b")
    confirm(page, "cancel-batch", reason="too late")
    assert harness.get("batches/b").json["state"] == "cancelled"

    harness.put("semaphores/printer", json={"permits": 1, "lease_seconds": 60})
    harness.post("semaphore-wait/printer", json={"id": "mine"})
    console.open("semaphores/printer", "printer")
    confirm(page, "end-lease", reason="its holder is gone")
    assert harness.get("semaphores/printer").json["leases"] == []
    assert "its holder is gone" in str(harness.log.infos)


def test_a_document_is_edited_unless_it_has_changed_and_deleted_and_so_are_a_run_and_an_object(
    page: Page, base: str, harness: Harness
) -> None:
    console = Console(page, base)  # a refused edit and a page whose subject is deleted are logged by the browser
    harness.put("documents/ann", json={"name": "Ann", "age": 7})
    console.open("documents/ann", "ann")
    page.click("button[data-action=edit-document]")
    assert json.loads(page.input_value("dialog [name=value]")) == {"name": "Ann", "age": 7}
    harness.put("documents/ann", json={"name": "Ann", "age": 8})
    page.fill("dialog [name=value]", '{"name": "Anna"}')
    page.fill("dialog [name=reason]", "her full name")
    with page.expect_response("**/documents/ann") as refused:
        page.click("dialog [name=confirm]")
    assert refused.value.status == 412
    page.wait_for_function("() => document.querySelector('dialog[open] [role=alert]').textContent")
    assert page.input_value("dialog [name=value]") == '{"name": "Anna"}'
    page.click("dialog [name=close]")
    page.reload()
    page.wait_for_selector("button[data-action=edit-document]")
    confirm(page, "edit-document", value='{"name": "Anna"}', reason="her full name")
    assert harness.get("documents/ann").json == {"key": "ann", "name": "Anna"}
    page.wait_for_function("() => document.querySelector('pre').textContent.includes('Anna')")
    confirm(page, "delete-document", reason="a test")
    assert harness.get("documents/ann").status == 404

    harness.post("shop/stock", json={"item": "tea", "count": 10})
    harness.run()
    console.open("objects/shop/Stock/tea", "Stock/tea")
    confirm(page, "delete-object", reason="a test")
    harness.run()
    page.wait_for_function("() => document.querySelector('dd').textContent === 'no'")

    harness.post("shop/flows/ship/s", json={"arguments": {"order": "s", "item": "cup"}})
    harness.post("shop/flows/ship/s/terminate", json={})
    console.open("flows/shop/ship/s", "ship/s")
    confirm(page, "delete-run", reason="a test")
    assert harness.get("shop/flows/ship/s").status == 404


def test_a_stuck_run_of_a_deployment_is_resumed_through_the_relay(
    page: Page, base: str, harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    stuck_at_the_dock(harness, "o-1")
    with relaying(base, acts=True) as opened:
        page.goto(opened)
        page.wait_for_selector("text=demo-project, dev, us-central1")
        page.goto(f"{opened.partition('#')[0]}#/flows/shop/ship/o-1")
        confirm(page, "resume", reason="die Tür ist auf")
        harness.run()
        assert state_of(harness, "o-1") == "completed"
        sent = page.evaluate("() => fetch('/batches', {method: 'POST', body: '{}'}).then((answer) => answer.status)")
        assert sent == 403
    [line] = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert line == {
        "message": "console action",
        "action": "resume",
        "account": "a-token",
        "reason": "die Tür ist auf",
        "call": "POST /shop/flows/ship/o-1/resume",
        "status": 202,
    }


def holding(page: Page, address: str) -> list[Route]:
    """Return the page's requests of an address, which wait until they are continued."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(address, hold)
    return held


def test_all_that_match_are_not_confirmed_before_they_are_counted_nor_if_more_match_by_then(
    console: Console, harness: Harness
) -> None:
    stuck_at_the_dock(harness, "o-1")
    page = console.page
    held = holding(page, "**/shop/flows/ship?*count=true*")
    console.open("flows/shop/ship?state=stuck", "Runs of ship")
    with page.expect_request("**/shop/flows/ship?*count=true*"):
        page.click("button[data-action=resume]")
    page.fill("dialog [name=reason]", "the dock is there")
    assert page.is_disabled("dialog [name=confirm]")
    page.wait_for_function("() => document.querySelector('#action-what').textContent === 'Counting …'")
    held[0].continue_()
    page.wait_for_function("() => document.querySelector('#action-what').textContent === '1 match.'")
    harness.delete("semaphores/dock")
    stuck_at_the_dock(harness, "o-2")
    page.click("dialog [name=confirm]")
    page.wait_for_selector("dialog >> text=More match now")
    assert page.inner_text("#action-what") == "2 match."
    harness.run(due_only=True)
    assert {state_of(harness, id_) for id_ in ("o-1", "o-2")} == {"stuck"}
    page.unroute("**/shop/flows/ship?*count=true*")
    page.click("dialog [name=confirm]")
    page.wait_for_selector("#action:not([open])", state="attached")
    harness.run()
    assert {state_of(harness, id_) for id_ in ("o-1", "o-2")} == {"completed"}


def test_an_answer_that_comes_late_leaves_the_next_dialog_as_it_is(console: Console, harness: Harness) -> None:
    stuck_at_the_dock(harness, "o-1")
    page = console.page
    held = holding(page, "**/o-1/resume")
    console.open("flows/shop/ship/o-1", "ship/o-1")
    page.click("button[data-action=resume]")
    page.fill("dialog [name=reason]", "the dock is there")
    with page.expect_request("**/o-1/resume"):
        page.click("dialog [name=confirm]")
    page.click("dialog [name=close]")
    page.click("button[data-action=terminate]")
    page.fill("dialog [name=reason]", "or not")
    with page.expect_response("**/o-1/resume"):
        held[0].continue_()
    page.wait_for_timeout(100)
    assert page.input_value("dialog[open] [name=reason]") == "or not"
