"""The console in Chromium: it shows what the API says, names are only text, and it loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from signalbox import Function, Problem, flow, flows
from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox_tools.console.routes import FOLDER
from signalbox_tools.console.security_headers import POLICY
from signalbox_tools.local.functions.server import mounted
from tests.browser.console.console_page import Console, HeldRequests, deadlock, relaying
from tests.serving import serving

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from playwright.sync_api import Page

HOSTILE = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'<b>'\"&amp;"
"""A name that would be markup, were it not text."""

QUEUES = "Tasks of each queue now, and the attempts that ended in the last minute"

gate = Function("gate")
doors = Function("doors")
doors.callbacks()
mill = Function("mill")
jams: list[str] = []


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


def test_a_semaphore_is_shown_with_its_description(console: Console, harness: Harness) -> None:
    harness.put("semaphores/dock", json={"permits": 1, "lease_seconds": 60, "description": HOSTILE})
    console.open("semaphores/dock", "dock")
    assert HOSTILE in console.page.inner_text("main dl")
    assert console.page.title() != "hacked"


def test_a_rate_is_shown_with_its_description(console: Console, harness: Harness) -> None:
    harness.put("rates/mails", json={"per_minute": 60, "description": HOSTILE})
    harness.put("rates/openai", json={"per_minute": 60})
    console.open("semaphores", "Semaphores")
    assert [row[:2] for row in console.rows("Rates, by name")] == [["mails", HOSTILE], ["openai", ""]]
    assert console.page.title() != "hacked"


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
    console.page.wait_for_function("() => document.querySelector('dd')?.textContent === 'completed'")
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
    console.page.wait_for_function("() => document.querySelector('tbody tr')?.cells[1].textContent === '1'")
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
    console.page.click("td a")
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
        page.wait_for_function("() => document.querySelector('.span') && !document.querySelector('.span.pending')")
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
    assert waiter[2:4] == ["ship/s", "ship/s step 0"]
    page.click("a:text-is('ship/s')")
    page.wait_for_function("() => document.querySelector('h1')?.textContent === 'ship/s'")
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


DRAWN = """async (names) => {
    const { graph } = await import(`${document.querySelector("script[src]").src}/../graph.js`);
    const drawn = graph("names", names.map((id) => ({ id })), []);
    document.querySelector("main").replaceChildren(drawn);
    return [...drawn.querySelectorAll("[data-node]")].map((node) => {
        const [text, rect] = ["text", "rect"].map((name) => node.querySelector(name));
        const [inner, outer] = [text, rect].map((each) => each.getBBox());
        return [text.textContent, inner.x >= outer.x && inner.x + inner.width <= outer.x + outer.width];
    });
}"""
SHORT = ("order-7", "checkout/order-7")
LONG = ("W" * 15, "W" * 300, "i" * 200, "0123456789abcdef" * 4, "日本語" * 30, "🚲" * 40, "checkout/order-" + "m" * 100)


def test_every_name_fits_into_its_box_of_a_drawing(console: Console) -> None:
    console.open("semaphores", "Semaphores")
    texts, fit = zip(*console.page.evaluate(DRAWN, [*SHORT, *LONG]), strict=True)
    assert (fit, texts[: len(SHORT)]) == ((True,) * len(texts), SHORT)
    for name, text in zip(LONG, texts[len(SHORT) :], strict=True):
        first, _, last = text.partition("…")
        assert text == name or (name.startswith(first) and name.endswith(last) and len(first) > 4)


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
    heads = "all => all.map((each) => `${each.textContent} ${each.ariaSort}`)"
    console.page.click("th a >> text=sum")
    console.page.wait_for_function("() => document.querySelector('th:nth-child(3)')?.ariaSort === 'descending'")
    orders = [
        f"{name} {'descending' if name == 'sum' else 'none'}" for name in ("count", "sum", "average", "min", "max")
    ]
    assert console.page.eval_on_selector_all("th", heads)[1:] == orders
    console.open("failures", "Failures")
    [failure] = console.rows("The newest first")
    assert failure[1:3] == ["shop.charge", "failed"]
    assert "An amount is positive." in failure[4]
    console.page.click("td a")
    console.page.wait_for_function("() => document.querySelector('h1')?.textContent === 'shop.charge'")
    assert '"order": "1"' in console.page.inner_text("pre")


def test_the_overview_counts_what_runs_and_what_failed(console: Console, harness: Harness) -> None:
    deadlock(harness)
    harness.post("batches", json={"id": "b", "units": [1], "sealed": True})
    harness.post("tasks", json={"function": "shop", "task": "charge", "payload": {"order": "1", "amount": 0}})
    harness.put("rates/mails", json={"per_minute": 60, "burst": 5})
    harness.put("rates/openai", json={"per_minute": 60, "burst": 5})
    harness.post("rates/mails/pause", json={})
    harness.run(due_only=True)
    console.open("", "Overview")
    attention, runs = console.cards("Needs attention"), console.cards("Runs and waits")
    assert attention == {
        "Failures": ("1", ["shop.charge: An amount is positive."]),
        "Deadlocks": ("1", [" → ".join(f"t seat {seat}" for seat in range(5))]),
    }
    assert runs == {
        "Semaphores with waiters": ("5", [f"t-fork-{number} 1 waiting" for number in range(3)]),
        "Rates, paused": ("1", ["mails 0 waiting"]),
        "Batches, sealed": ("1", ["b"]),
    }
    console.page.click(".card a >> text=An amount is positive.")
    console.page.wait_for_function("() => document.querySelector('h1')?.textContent === 'shop.charge'")


def test_the_overview_finds_a_paused_rate_behind_the_first_page_and_says_if_there_are_more_rates(
    console: Console, harness: Harness
) -> None:
    for number in range(51):
        harness.put(f"rates/mails-{number:03}", json={"per_minute": 60})
    harness.post("rates/mails-050/pause", json={})
    console.open("", "Overview")
    assert console.cards("Runs and waits") == {"Rates, paused": ("1", ["mails-050 0 waiting"])}
    page = {"rates": [{"name": "mails", "paused_at": None}] * 50, "next_page_token": "t"}
    console.page.route("**/rates*", lambda route: route.fulfill(json=page))
    console.page.wait_for_function("() => document.body.textContent.includes('of the first 250 rates')")
    assert console.cards("Runs and waits")["Rates, paused"][0] == "0+"


def test_the_map_draws_what_calls_which_function_and_a_choice_shows_what_is_next_to_it(console: Console) -> None:
    queue = {"name": "tasks", "tasks": 3, "running": 1, "oldest_seconds": 90, "per_minute": 12, "state": "running"}
    console.page.route("**/console/queues", lambda route: route.fulfill(json={"queues": [queue]}))
    console.open("map", "Map")
    assert console.page.text_content("[data-node='queue:tasks'] text.aside") == "3"
    assert [row[:6] for row in console.rows(QUEUES)] == [["tasks", "running", "3", "1", "90 s ago", "12"]]
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
    console.page.wait_for_function("() => document.querySelector('h1')?.textContent === 'Runs of checkout'")


def test_an_overview_of_nothing_says_what_to_do(console: Console) -> None:
    console.open("", "Overview")
    text = console.page.inner_text("main")
    assert "Nothing has failed, is stuck or deadlocked." in text
    assert "Nothing. Call a function, and it appears here." in text


def test_a_list_is_sorted_by_a_column_and_its_address_says_so(console: Console, harness: Harness) -> None:
    for name, permits in (("a-2", 3), ("a-10", 20), ("b", 1)):
        harness.put(f"semaphores/{name}", json={"permits": permits, "lease_seconds": 60})
    assert harness.post("semaphore-wait/b", json={"id": "w"}).status < 300
    console.open("semaphores?prefix=a", "Semaphores")
    page = console.page
    orders = []
    for _ in range(3):
        before = page.url
        page.click("th a >> text=permits")
        page.wait_for_function("before => location.href !== before", arg=before)
        page.wait_for_function(SORTED_AS_ADDRESSED)
        orders.append([row[0] for row in console.rows("By name")])
        assert page.evaluate("document.activeElement.textContent") == "permits"
    assert orders == [["a-2", "a-10"], ["a-10", "a-2"], ["a-10", "a-2"]]
    assert page.url.endswith("#/semaphores?prefix=a")
    console.open("semaphores?sort=-next+lease+ends", "Semaphores")
    console.page.wait_for_selector("th[aria-sort=descending]")
    assert console.rows("By name")[0][0] == "b"
    console.open("semaphores?sort=name", "Semaphores")
    console.page.wait_for_selector("th[aria-sort=ascending]")
    assert [row[0] for row in console.rows("By name")] == ["a-2", "a-10", "b"]


def test_of_a_list_with_several_pages_only_the_shown_rows_are_sorted_and_it_says_so(
    console: Console, harness: Harness
) -> None:
    for number in range(51):
        harness.put(f"semaphores/s-{number:02}", json={"permits": 60 - number, "lease_seconds": 60})
    page, note = console.page, "Only the {} rows shown are sorted by permits: the list has other pages."
    console.open("semaphores", "Semaphores")
    assert page.locator("text=rows shown are sorted").count() == 0
    console.open("semaphores?sort=permits", "Semaphores")
    page.wait_for_selector(f"text={note.format(50)}")
    assert [row[0] for row in console.rows("By name")][:2] == ["s-49", "s-48"]
    page.click("text=Next page")
    page.wait_for_selector("text=First page")
    assert [row[0] for row in console.rows("By name")] == ["s-50"]
    page.click("text=First page")
    page.wait_for_selector(f"text={note.format(50)}")
    assert page.url.endswith("#/semaphores?sort=permits")


def test_filters_of_runs_are_combined(console: Console, harness: Harness) -> None:
    for id_, label in (("a", "x"), ("b", "y")):
        order = {"arguments": {"order": id_, "item": "cup"}, "labels": {"tenant": label}}
        harness.post(f"shop/flows/ship/{id_}", json=order)
    harness.travel(1, raise_errors=False)
    harness.post("shop/flows/ship/b/terminate", json={})
    page = console.page
    console.open("flows/shop/ship?state=stuck", "Runs of ship")
    page.fill("[name=label]", "tenant:x")
    page.press("[name=label]", "Enter")
    page.wait_for_function("() => location.hash.endsWith('?state=stuck&label=tenant%3Ax')")
    page.wait_for_selector("td a >> text=a")
    page.click(".choices a[href*='label=tenant']:has-text('cancelled')")  # not the one of the list before
    page.wait_for_selector(".empty >> text=none match.")
    assert page.url.endswith("?label=tenant%3Ax&state=cancelled")


def test_runs_are_sorted_by_the_api(console: Console, harness: Harness) -> None:
    for id_ in ("a-10", "a-2", "b"):
        harness.post(f"shop/flows/ship/{id_}", json={"arguments": {"order": id_, "item": "cup"}})
        harness.travel(1, raise_errors=False)
    page = console.page
    console.open("flows/shop/ship", "Runs of ship")
    assert [row[0] for row in console.rows("The newest first")] == ["b", "a-2", "a-10"]
    page.click("th a >> text=id")
    page.wait_for_selector("caption >> text=By id")
    assert [row[0] for row in console.rows("By id")] == ["a-10", "a-2", "b"]
    page.click("th a >> text=started")
    page.wait_for_selector("caption >> text=The newest first")


SORTED_AS_ADDRESSED = """() => {
    const sort = new URLSearchParams(location.hash.split("?")[1]).get("sort");
    const heads = [...document.querySelectorAll("th[aria-sort]:not([aria-sort=none])")];
    const named = heads.map((head) => (head.ariaSort === "descending" ? "-" : "") + head.textContent);
    if (!sort) return document.querySelector("th") && !named.length;
    return named.length && named.every((each) => each === sort);
}"""


def test_a_page_that_is_not_read_at_once_is_grey_lines_and_every_time_has_its_date(
    console: Console, harness: Harness
) -> None:
    harness.put("semaphores/dock", json={"permits": 1, "lease_seconds": 60})
    harness.post("shop/flows/ship/o-1", json={"arguments": {"order": "o-1", "item": "cup"}})
    harness.run()
    console.open("batches", "Batches")
    held = HeldRequests(console.page, "**/shop/flows/ship*")
    console.page.evaluate("location.hash = '#/flows/shop/ship'")
    console.page.wait_for_selector("main[aria-busy=true] .skeleton")
    assert console.page.text_content("nav [aria-current]") == "Flows"
    held.continue_next()
    console.page.wait_for_function("() => document.querySelector('h1')?.textContent === 'Runs of ship'")
    assert console.page.locator(".skeleton, main[aria-busy]").count() == 0
    times = console.page.eval_on_selector_all("time", "all => all.map((each) => [each.dateTime, each.title])")
    year = str(datetime.fromisoformat(times[0][0]).year)
    assert len(times) == 2
    assert all(year in title for _, title in times)


def test_a_page_without_a_user_stops_reading(console: Console, harness: Harness) -> None:
    page = console.page
    page.clock.install()
    console.open("batches", "Batches")
    page.clock.fast_forward("11:00")
    page.wait_for_function("() => document.querySelector('#paused')?.textContent === 'Paused.'")
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
    console.page.click("td a")
    console.page.wait_for_function("text => document.querySelector('h1')?.textContent === text", arg=name)
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
    page.wait_for_function("() => document.querySelector('h1')?.textContent === 'printer'")
    page.focus(".skip")
    page.keyboard.press("Enter")
    assert page.evaluate("[document.activeElement.id, document.documentElement.lang]") == ["content", "en"]
    assert page.url.endswith("#/semaphores/printer")


def test_j_and_k_go_from_row_to_row_and_a_question_mark_lists_the_keys(console: Console, harness: Harness) -> None:
    for name in ("first", "second", "third"):
        harness.put(f"semaphores/{name}", json={"permits": 1, "lease_seconds": 60})
    page, focused = console.page, "document.activeElement.textContent"
    console.open("semaphores", "Semaphores")
    page.wait_for_selector("td a")
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
    page.wait_for_function("() => document.querySelector('h1')?.textContent === 'second'")


def test_another_site_that_opens_the_console_with_a_key_does_not_replace_the_stored_one(page: Page, base: str) -> None:
    with relaying(base) as opened:
        page.goto(opened)
        page.wait_for_selector("text=demo-project, dev, us-central1")
        page.goto("about:blank")
        page.goto(f"{opened.partition('#')[0]}#key=made-up")
        page.wait_for_selector("text=demo-project, dev, us-central1")
        assert "key=" not in page.url
        page.reload()
        page.wait_for_selector("text=demo-project, dev, us-central1")


def test_an_address_that_is_not_encoded_is_a_name_like_any_other(console: Console, harness: Harness) -> None:
    harness.put("documents/%25", json={"n": 1})
    console.open("documents/%", "%")
    console.open("documents/%25", "%")


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


def test_without_the_stacks_spans_the_page_of_traces_says_where_they_are(console: Console) -> None:
    console.open("traces", "Traces")
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in console.page.inner_text("main")


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
