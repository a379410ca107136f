"""The to-do page in Chromium: Backbone on a resource. Nothing is loaded from another machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox_tools.local.functions.server import mounted
from tests.serving import serving

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

TODOS = Path(__file__).parents[2] / "examples" / "todos"


@pytest.fixture
def base() -> Iterator[str]:
    """Return the base URL of the functions."""
    with Harness(), serving(mounted(load())) as served:
        yield served


@pytest.fixture
def todos(page: Page, base: str) -> Iterator[Page]:
    """Return the page with two items; it may load nothing from elsewhere."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    opened(page, base)
    add(page, "buy tea")
    add(page, "write to Ann")
    yield page
    assert [url for url in asked if not url.startswith((base, "data:"))] == []


def opened(page: Page, base: str) -> Page:
    page.goto(f"{base}todos/page")
    page.wait_for_function("document.querySelector('#count')?.textContent")
    return page


def add(page: Page, text: str) -> None:
    count = items(page).count()
    page.fill("#new", text)
    page.press("#new", "Enter")
    page.wait_for_function(f"document.querySelectorAll('#list li').length === {count + 1}")


def items(page: Page) -> Locator:
    return page.locator("#list li")


def shown(page: Page) -> list[str]:
    """Return the items' texts, with a mark before those that are done."""
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('#list li')].map("
        "(each) => (each.className.includes('done') ? 'x ' : '') + each.querySelector('label').textContent)"
    )
    return found


def toggle(page: Page, item: Locator) -> None:
    with page.expect_response(lambda response: response.request.method == "PATCH"):
        item.locator(".toggle").click()


def reloaded(page: Page, base: str) -> list[str]:
    return shown(opened(page, base))


def counted(page: Page, text: str) -> None:
    page.wait_for_function(f"document.querySelector('#count')?.textContent === {json.dumps(text)}")


def test_items_are_added_with_enter_and_counted_and_a_reload_shows_the_same(todos: Page, base: str) -> None:
    assert shown(todos) == ["buy tea", "write to Ann"]
    counted(todos, "2 items left")
    assert todos.input_value("#new") == ""
    assert reloaded(todos, base) == ["buy tea", "write to Ann"]


def test_an_item_is_toggled_and_what_is_completed_is_cleared(todos: Page, base: str) -> None:
    toggle(todos, items(todos).first)
    counted(todos, "1 item left")
    assert todos.inner_text("#clear") == "Clear completed (1)"
    toggle(todos, items(todos).last)
    counted(todos, "0 items left")
    assert todos.is_checked("#all")
    assert reloaded(todos, base) == ["x buy tea", "x write to Ann"]
    toggle(todos, items(todos).last)
    with todos.expect_response(lambda response: response.request.method == "DELETE"):
        todos.click("#clear")
    todos.wait_for_function("document.querySelectorAll('#list li').length === 1")
    assert todos.locator("#clear").is_hidden()
    assert reloaded(todos, base) == ["write to Ann"]


def test_an_item_is_edited_with_a_double_click(todos: Page, base: str) -> None:
    items(todos).first.locator("label").dblclick()
    field = items(todos).first.locator(".edit")
    assert (field.is_visible(), field.input_value()) == (True, "buy tea")
    field.fill('<b>buy</b> "coffee"')
    with todos.expect_response(lambda response: response.request.method == "PATCH"):
        field.press("Enter")
    assert reloaded(todos, base) == ['<b>buy</b> "coffee"', "write to Ann"]
    items(todos).first.locator("label").dblclick()
    items(todos).first.locator(".edit").fill("never mind")
    items(todos).first.locator(".edit").press("Escape")
    assert shown(todos)[0] == '<b>buy</b> "coffee"'


def test_an_item_is_deleted_by_its_button_or_by_an_empty_text(todos: Page, base: str) -> None:
    items(todos).first.locator(".destroy").click()
    todos.wait_for_function("document.querySelectorAll('#list li').length === 1")
    items(todos).first.locator("label").dblclick()
    items(todos).first.locator(".edit").fill("")
    items(todos).first.locator(".edit").press("Enter")
    todos.wait_for_function("document.querySelectorAll('#list li').length === 0")
    counted(todos, "0 items left")
    assert reloaded(todos, base) == []


def test_all_items_are_toggled_at_once(todos: Page, base: str) -> None:
    with todos.expect_response(lambda response: response.request.method == "PATCH"):
        todos.check("#all")
    todos.wait_for_load_state("networkidle")
    counted(todos, "0 items left")
    assert reloaded(todos, base) == ["x buy tea", "x write to Ann"]


def test_two_browsers_see_each_others_changes_after_a_fetch(todos: Page, browser: Browser, base: str) -> None:
    with browser.new_context() as context:
        other = opened(context.new_page(), base)
        assert shown(other) == shown(todos)
        toggle(other, items(other).first)
        add(other, "call Bob")
        items(todos).first.locator("label").dblclick()
        items(todos).first.locator(".edit").fill("buy coffee")
        with todos.expect_response(lambda response: response.request.method == "PATCH"):
            items(todos).first.locator(".edit").press("Enter")
        for each in (todos, other):
            each.click("#refresh")
            each.wait_for_function("document.querySelectorAll('#list li').length === 3")
            each.wait_for_function("document.querySelector('#list li.done label')?.textContent === 'buy coffee'")
            assert shown(each) == ["x buy coffee", "write to Ann", "call Bob"]
            counted(each, "2 items left")


def test_what_was_deleted_elsewhere_goes_with_a_word(todos: Page, base: str) -> None:
    item = todos.evaluate("app.todos.first().id")
    todos.evaluate(f"fetch(app.todos.url + {json.dumps(item)}, {{method: 'DELETE'}})")
    items(todos).first.locator(".toggle").click()
    todos.wait_for_function("document.querySelectorAll('#list li').length === 1")
    assert reloaded(todos, base) == ["write to Ann"]


def test_the_vendored_libraries_are_those_of_the_lock() -> None:
    locked = json.loads((TODOS / "package-lock.json").read_text("utf-8"))["packages"]
    for file in ("backbone-min.js", "jquery.min.js", "underscore-min.js"):
        version = locked[f"node_modules/{re.split('[.-]', file)[0]}"]["version"]
        assert version in (TODOS / "vendor" / file).read_text("utf-8"), file
