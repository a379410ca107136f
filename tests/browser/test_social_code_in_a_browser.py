"""Social Code's page in Chromium: a save with the keyboard alone, and the tests of dependants change as they end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox.testing.limits import replaced
from signalbox_infra.local.functions.server import mounted
from tests.serving import serving

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from playwright.sync_api import Page

USES = "[...document.querySelectorAll('#uses li')].map((each) => `${each.textContent} ${each.className}`)"
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness, replaced(watch_stream_seconds=1.5, watch_pause_seconds=0.1):
        yield harness


@pytest.fixture
def app(harness: Harness) -> WSGIApplication:
    assert harness is not None
    return mounted(load())


def test_a_save_turns_the_tests_of_dependants_green_or_red(page: Page, app: WSGIApplication, harness: Harness) -> None:
    functions = {
        "Add": ("def Add(a, b):\n    return a + b", "check(Add(1, 2) == 3)"),
        "Twice": ("# {{Add}}\ndef Twice(a):\n    return Add(a, a)", "check(Twice(2) == 4)"),
        "Four": ("# {{Twice}}\ndef Four(a):\n    return Twice(Twice(a))", "check(Four(1) == 4)"),
    }
    for name, (code, tests) in functions.items():
        harness.put(f"social-code/functions/{name}", json={"code": code, "tests": tests})
    harness.run()
    page.set_viewport_size({"width": 400, "height": 800})
    with serving(app) as base:
        page.goto(f"{base}social-code#Add")
        page.wait_for_function(f"{USES}.join() === 'Twice passed'")
        assert page.inner_text("#state") == "passed"
        assert page.evaluate(FITS)

        page.focus("#code")
        page.keyboard.press("Control+A")
        page.keyboard.type("def Add(a, b): return a - b")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_function("document.querySelector('#state').textContent === 'pending'")
        page.wait_for_function(f"{USES}.join() === 'Twice pending'")
        harness.run()
        page.wait_for_function("document.querySelector('#state').textContent === 'failed'")
        page.wait_for_function(f"{USES}.sort().join() === 'Four failed,Twice failed'")
        assert page.inner_text("#problem") == "check 1 failed"
        assert page.evaluate(FITS)

        page.fill("#name", "ADD")
        page.click("button")
        page.wait_for_function("document.querySelector('#problem').textContent.includes('There is Add')")
        page.fill("#name", "New")
        page.fill("#code", "while True: pass")
        page.click("button")
        page.wait_for_selector("#names [data-name=new]")
        harness.run()
        page.wait_for_function("document.querySelector('#problem').textContent.includes('TimeoutError')")
        assert page.evaluate(USES) == []
