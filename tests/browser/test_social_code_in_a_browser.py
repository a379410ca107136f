"""Social Code's page in Chromium: drafts, versions and votes with the keyboard, and dependants' tests as they end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

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

USES = "[...document.querySelectorAll('#uses li')].map((each) => `${each.textContent} ${each.className}`)"
NODES = "[...document.querySelectorAll('#graph a')].map((a) => `${a.getAttribute('href')} ${a.getAttribute('class')}`)"
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness, replaced(watch_stream_seconds=1.5, watch_pause_seconds=0.1):
        yield harness


@pytest.fixture
def app(harness: Harness) -> WSGIApplication:
    assert harness is not None
    return mounted(load())


def publish(harness: Harness, name: str, author: str = "ann", **texts: str) -> None:
    path, headers = f"social-code/functions/{name}/draft", {"X-Author": author}
    assert harness.put(path, json=texts, headers=headers).status == 202
    assert harness.post(f"{path}/publish", headers=headers).status == 202


@pytest.fixture
def opened(page: Page, app: WSGIApplication, harness: Harness) -> Iterator[Page]:
    """Return the page of Add, on which two functions depend."""
    publish(harness, "Add", code="def Add(a, b):\n    return a + b", tests="check(Add(1, 2) == 3)")
    harness.run()
    publish(harness, "Twice", code="# {{Add}}\ndef Twice(a):\n    return Add(a, a)", tests="check(Twice(2) == 4)")
    publish(harness, "Four", code="# {{Add}}\ndef Four():\n    return Add(2, 2)", tests="check(Four() == 4)")
    harness.run()
    page.set_viewport_size({"width": 400, "height": 800})
    with serving(app) as base:
        page.goto(f"{base}social-code#Add")
        page.wait_for_function(f"{USES}.join() === 'Four passed,Twice passed'")
        yield page


def shows(page: Page, element: str, text: str) -> None:
    page.wait_for_function(f"document.querySelector('{element}')?.textContent.includes({json.dumps(text)})")


def test_a_draft_is_written_run_and_published_with_the_keyboard(opened: Page, harness: Harness) -> None:
    assert opened.inner_text("#state") == "passed"
    assert opened.evaluate(FITS)
    opened.focus("#code")
    opened.keyboard.press("Control+A")
    opened.keyboard.type("def Add(a, b): return a - b")
    for _ in range(3):
        opened.keyboard.press("Tab")
    opened.keyboard.press("Enter")
    shows(opened, "#draft", "pending")
    harness.run()
    shows(opened, "#draft", "failed")
    assert opened.inner_text("#problem") == "check 1 failed"

    opened.fill("#code", "def Add(a, b): return 3")
    opened.focus("#run")
    opened.keyboard.press("Tab")
    opened.keyboard.press("Enter")
    shows(opened, "#versions", "code 3 by ann")
    harness.run()
    opened.wait_for_function(f"{USES}.join() === 'Four failed,Twice failed'")
    shows(opened, "#state", "passed")
    shows(opened, "#versions .current", "code 3")
    assert opened.evaluate(FITS)


def test_votes_choose_the_version_and_two_are_compared(opened: Page, harness: Harness) -> None:
    publish(harness, "Add", "bob", code="def Add(a, b):\n    return b + a")
    harness.run()
    opened.fill("#author", "eve")
    first = opened.locator("#versions li").first
    with opened.expect_response("**/vote"):
        first.get_by_label("vote for").press("Enter")
    opened.wait_for_selector("#versions li:nth-child(3)")
    shows(opened, "#versions .current", "code 3 by bob")
    harness.run()
    shows(opened, "#versions .current", "code 1 by ann, votes 1")
    shows(opened, "#authors", "ann 1")
    with opened.expect_response("**/vote"):
        first.get_by_label("take your vote back").press("Enter")
    harness.run()
    shows(opened, "#versions li", "code 1 by ann, votes 0")
    shows(opened, "#versions .current", "code 3 by bob")
    first.get_by_label("compare").press("Enter")
    opened.locator("#versions li").last.get_by_label("compare").press("Enter")
    assert [opened.inner_text(f"#diff {kind}") for kind in ("del", "ins")] == [
        "-     return a + b",
        "+     return b + a",
    ]
    assert opened.evaluate(FITS)


def test_the_graph_shows_who_uses_what_and_leads_there_by_the_keyboard(opened: Page, harness: Harness) -> None:
    opened.wait_for_function(f"{NODES}.join() === '#Add passed,#Four passed,#Twice passed'")
    opened.focus("#graph a[href='#Twice']")
    opened.keyboard.press("Enter")
    shows(opened, "#title", "Twice")
    opened.wait_for_function(f"{NODES}.join().includes('#Add')")
    assert opened.get_attribute("#graph a[href='#Add']", "aria-label") == "uses Add"
    for number in range(14):
        publish(
            harness,
            f"Use{number}",
            code=f"# {{{{Twice}}}}\ndef Use{number}():\n    return Twice(1)",
            tests="check(True)",
        )
    harness.run()
    opened.reload()
    opened.wait_for_function("document.querySelector('#graph')?.textContent.includes('and 2 more')")
    opened.wait_for_function("document.querySelectorAll('#uses .passed').length === 14")
    assert opened.evaluate(FITS)


def test_refusals_and_endless_loops_are_shown(opened: Page, harness: Harness) -> None:
    opened.fill("#name", "ADD")
    opened.click("#run")
    shows(opened, "#problem", "There is Add")
    opened.fill("#name", "New")
    opened.fill("#code", "while True: pass")
    opened.click("#run")
    shows(opened, "#draft", "pending")
    harness.run()
    shows(opened, "#problem", "TimeoutError")
    shows(opened, "#drafts", "New")
    assert opened.evaluate(USES) == []


def test_the_editor_numbers_its_lines_as_they_are_written(opened: Page) -> None:
    numbers = "[...document.querySelectorAll('.editor pre')].map((each) => each.textContent.split('\\n').length)"
    assert opened.evaluate(numbers) == [2, 1, 1]
    opened.fill("#code", "\n" * 39)
    assert opened.evaluate(numbers) == [40, 1, 1]
    opened.evaluate("document.querySelector('#code').scrollTop = 60")
    opened.wait_for_function("document.querySelector('.editor pre').scrollTop === 60")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_graph_is_as_wide_as_the_page_and_its_names_are_whole(
    opened: Page, scheme: Literal["light", "dark"]
) -> None:
    opened.emulate_media(color_scheme=scheme)
    opened.set_viewport_size({"width": 1200, "height": 800})
    opened.wait_for_function("document.querySelector('#graph').clientWidth > 800")
    texts = opened.locator("#graph a text").all_text_contents()
    assert sorted(texts) == ["✓ Add", "✓ Four", "✓ Twice"]
    ground = opened.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(ground) < 80) == (scheme == "dark")
    assert opened.evaluate(FITS)
