"""The page of a callback in Chromium: the question as text, a button that sends the event, and a refusal as a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from signalbox import Function, flow, flows
from signalbox.testing import Harness
from tests.serving import page_of, serving

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Page

QUESTION = "<img src=x onerror=alert(1)> Pay & ship?"

shop = Function("shop")
approvals = Function("approvals")
approvals.callbacks()


@shop.flow
async def order() -> str:
    flow.progress(
        await flow.callback("approved", through="approvals", expires_seconds=60, question=QUESTION),
    )
    await flow.event("approved")
    return "paid"


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        harness.add(shop)
        harness.add(approvals)
        yield harness


def test_a_person_is_asked_and_confirms_with_a_button(page: Page, harness: Harness) -> None:
    flows("order", "7").start()
    harness.travel(5)
    path = str(flows("order", "7").status().progress).partition("/approvals/")[2]
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    with serving(DispatcherMiddleware(page_of(""), {"/approvals": harness.functions.app("approvals")})) as base:
        page.goto(f"{base}approvals/{path}")
        assert page.text_content("p") == QUESTION
        assert page.evaluate("getComputedStyle(document.querySelector('button')).borderRadius") != "0px", (
            "the style counts"
        )
        assert page.locator("img").count() == 0
        assert flows("order", "7").status().state == "running"
        page.click("button")
        assert "received" in str(page.text_content("p:last-of-type"))
        harness.run()
        assert flows("order", "7").status().result == "paid"
        assert wrong == []
        page.goto(f"{base}approvals/{path}x")
        assert "This address is not valid" in str(page.text_content("p"))
