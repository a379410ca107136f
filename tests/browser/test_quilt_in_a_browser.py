"""The quilt's page in Chromium: each square colours once as its unit ends, and the spinner goes once, at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox.testing.replaced_limits import replaced
from signalbox_tools.local.functions.server import mounted
from tests.serving import serving

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from playwright.sync_api import Page

STREAM_SECONDS = 1.5
"""So short that a stream ends, and the browser connects again, while the quilt is painted."""

SQUARES = """() => [...document.querySelectorAll("#quilt i")].map((each) => ({
    times: Number(each.dataset.times || 0), state: each.className, color: each.style.background}))"""
WATCH_SPINNER = """() => {
    window.unpainted = [];
    new MutationObserver((changes) => {
        for (const change of changes)
            if ([...change.removedNodes].some((each) => each.id === "spinner"))
                window.unpainted.push(document.querySelectorAll("#quilt i:not([data-times])").length);
    }).observe(document.body, {childList: true, subtree: true});
}"""


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness, replaced(watch_stream_seconds=STREAM_SECONDS, watch_pause_seconds=0.1):
        yield harness


@pytest.fixture
def app(harness: Harness) -> WSGIApplication:
    assert harness is not None
    return mounted(load())


def squares(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(SQUARES)
    return found


def painted(page: Page) -> int:
    return sum(each["times"] > 0 for each in squares(page))


def run_some(harness: Harness, units: int) -> None:
    """Deliver tasks until so many squares are painted."""
    while units > 0:
        task = harness.tasks.pop(0)
        harness.deliver_task(task)
        units -= task.task == "paint"


@pytest.mark.parametrize(("side", "torn"), [(8, 2), pytest.param(32, 9, marks=pytest.mark.marathon)])
def test_each_square_is_painted_once_and_the_spinner_is_removed_once(
    page: Page, app: WSGIApplication, harness: Harness, side: int, torn: int
) -> None:
    harness.post("quilt", json={"quilt": "q", "side": side, "torn": torn})
    streams: list[str] = []
    page.on("request", lambda request: streams.append(request.url) if "/events" in request.url else None)
    with serving(app) as base:
        page.goto(f"{base}quilt/q")
        page.evaluate(WATCH_SPINNER)
        page.wait_for_function("document.querySelector('#counts')?.textContent.includes('to come')")
        run_some(harness, side * side // 2)
        page.wait_for_function("document.querySelector('#quilt i[data-times]')")
        assert (page.locator("#spinner").count(), 0 < painted(page) < side * side) == (1, True)
        page.wait_for_timeout(2_000 * STREAM_SECONDS)
        harness.run()
        page.wait_for_selector("body[data-completed]")
        assert page.evaluate("document.body.dataset.completed") == "1"
        assert page.evaluate("window.unpainted") == [0]
        assert page.locator("#spinner").count() == 0
        assert page.inner_text("#counts") == f"{side * side - torn} painted, {torn} failed, 0 to come"
    shown = squares(page)
    assert Counter(each["times"] for each in shown) == {1: side * side}
    assert Counter(each["state"] for each in shown) == {"succeeded": side * side - torn, "failed": torn}
    assert all(each["color"].startswith("rgb(") for each in shown if each["state"] == "succeeded")
    assert page.evaluate("[document.querySelector('progress').value, document.querySelector('progress').max]") == [
        side * side,
        side * side,
    ]
    assert len(streams) > 1


def test_a_page_opened_after_the_end_shows_the_whole_quilt(page: Page, app: WSGIApplication, harness: Harness) -> None:
    harness.post("quilt", json={"quilt": "q", "side": 4, "torn": 1})
    harness.run()
    with serving(app) as base:
        page.goto(f"{base}quilt/q")
        page.wait_for_selector("body[data-completed]")
    assert Counter((each["times"], each["state"]) for each in squares(page)) == {(1, "succeeded"): 15, (1, "failed"): 1}
