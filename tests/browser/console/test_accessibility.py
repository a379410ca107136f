"""Each page of the console, as axe sees it: light and dark, wide and at 400 px."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.console.console_page import Console, deadlock

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from signalbox.testing import Harness

pytestmark = pytest.mark.slow

PLACES = {
    "overview": "Overview",
    "semaphores": "Semaphores",
    "semaphores/t-fork-0": "t-fork-0",
    "batches": "Batches",
    "batches/b": "b",
    "documents": "Documents",
    "documents/ann": "ann",
    "objects/shop/Stock": "Objects of Stock",
    "objects/shop/Stock/tea": "Stock/tea",
    "flows": "Flows",
    "flows/shop/ship": "Runs of ship",
    "flows/shop/ship/o-1": "ship/o-1",
    "flows/shop/checkout/x": "checkout/x",
    "standings": "Standings",
    "standings/likes": "likes",
    "failures": "Failures",
    "traces": "Traces",
    "map": "Map",
}


def fill(harness: Harness) -> None:
    """Put something on every page: what works, what waits, what has failed."""
    deadlock(harness)
    harness.put("documents/town", json={"name": "Paris"})
    harness.put("documents/ann", json={"home": {"key": "town"}})
    harness.post("batches", json={"id": "b", "units": [1, 2], "sealed": True})
    harness.post("shop/stock", json={"item": "tea", "count": 10})
    harness.put("standings/likes", json={"by": ["item"]})
    harness.put("yokes/ann/tea", json={"value": 3})
    harness.put("semaphores/dock", json={"permits": 1, "lease_seconds": 60})
    harness.post("shop/flows/ship/o-1", json={"arguments": {"order": "o-1", "item": "cup"}})
    order = {"order": "x", "item": "tea", "count": 1, "amount": 0}
    harness.post("shop/flows/checkout/x", json={"arguments": order})
    harness.post("tasks", json={"function": "shop", "task": "charge", "payload": {"order": "1", "amount": 0}})
    harness.travel(10, raise_errors=False)


def found(page: Page) -> list[Any]:
    return [
        (each["id"], each["impact"], [node["html"][:200] for node in each["nodes"]])
        for each in Axe().run(page).response["violations"]
    ]


OTHERS = [(1200, "dark"), (1200, "light"), (400, "dark")]


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(400, "light"), *(pytest.param(*each, marks=pytest.mark.marathon) for each in OTHERS)],
)
def test_axe_finds_nothing_on_any_page_and_none_is_wider_than_its_window(
    console: Console, harness: Harness, scheme: Any, width: int
) -> None:
    fill(harness)
    console.page.emulate_media(color_scheme=scheme)
    console.page.set_viewport_size({"width": width, "height": 900})
    violations = {}
    for place, heading in PLACES.items():
        console.open(place, heading)
        if seen := found(console.page):
            violations[place] = seen
        if (wide := console.page.evaluate("document.documentElement.scrollWidth")) > width:
            violations[f"{place} is wider than its window"] = [wide]
    assert violations == {}


def test_axe_finds_nothing_in_a_dialog_nor_on_a_row_that_is_open(console: Console, harness: Harness) -> None:
    fill(harness)
    console.open("flows/shop/ship/o-1", "ship/o-1")
    console.page.click(".span summary >> nth=0")
    console.page.click("button[data-action=fork]")
    console.page.wait_for_selector("dialog[open]")
    assert found(console.page) == []
    console.page.keyboard.press("Escape")
    console.page.keyboard.press("?")
    assert found(console.page) == []
