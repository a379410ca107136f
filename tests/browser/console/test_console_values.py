"""Results of units, answers to updates and large values in the console: text, and links that download them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from signalbox import Function, Problem, batch, flow, flows, objects
from signalbox.testing import Harness
from tests.browser.console.console_page import Console, relaying
from tests.browser.console.test_accessibility import found
from tests.browser.console.test_reading import HOSTILE
from tests.serving import serving

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from playwright.sync_api import Page

LARGE = f"{HOSTILE}{2**60}" * 2_000
"""A text of more than 100 KiB."""

UNSAFE_INTEGER = 2**60 + 1
"""A number that JavaScript cannot represent."""

mill = Function("mill")


@mill.task
def grind(text: str, fail: bool = False) -> Any:
    if fail:
        raise Problem(f"No {HOSTILE}")
    return [text, UNSAFE_INTEGER]


@mill.flow
async def grinding(text: str) -> Any:
    while (got := await flow.update("grind", str)).value != "stop":
        if got.value == "stone":
            got.refuse(Problem(f"No {HOSTILE}"))
        else:
            got.answer([got.value, UNSAFE_INTEGER])
    return await grind.call(text)


@mill.object
class Sack:
    flour: str = ""

    def fill(self, flour: str) -> None:
        self.flour = flour


@pytest.fixture
def base(app: WSGIApplication, harness: Harness) -> Iterator[str]:
    harness.functions._catalogue = replace(harness.functions._catalogue, payloads=True)
    harness.add(mill)
    with serving(DispatcherMiddleware(app, {"/mill": harness.functions.app("mill")})) as base:
        yield base


def downloaded(page: Page, selector: str = "main a[download]") -> Any:
    with page.expect_download() as download:
        page.click(selector)
    return json.loads(Path(download.value.path()).read_text("utf-8"))


def test_the_results_of_a_batch_are_listed_as_text_and_large_ones_are_downloaded(
    console: Console, harness: Harness
) -> None:
    calls = [grind.call(text) for text in ("wheat", HOSTILE, LARGE)]
    batch("b").populate([*calls, grind.call("stone", fail=True)])
    harness.run(raise_errors=False)
    console.open("batches/b", "b")
    console.page.wait_for_selector("caption:text-is('Of units that succeeded')")
    rows = console.rows("Of units that succeeded")
    assert [row[:2] for row in rows] == [["0", "0"], ["1", "0"], ["2", "0"]]
    assert rows[0][2] == '["wheat",1152921504606847000]', "the browser shows it rounded"
    assert HOSTILE in json.loads(rows[1][2])
    assert rows[2][2] == f"{len(json.dumps([LARGE, UNSAFE_INTEGER])) / 1024:.0f} KiB Download"
    assert downloaded(console.page) == [LARGE, UNSAFE_INTEGER]
    assert [row[0] for row in console.rows("The first 50")] == ["3"]
    assert console.page.locator("main img, main script, main b").count() == 0


def test_results_are_listed_while_a_batch_is_watched_and_page_by_page_afterwards(
    console: Console, harness: Harness
) -> None:
    harness.post("batches", json={"id": "b", "units": list(range(120)), "sealed": True})
    for unit in range(3):
        harness.post(f"batch-complete/b/{unit}", json={"result": {"unit": unit}})
    console.open("batches/b", "b")
    console.page.wait_for_selector("caption:text-is('Of the first 50')")
    assert [row[2] for row in console.rows("Of the first 50")] == [f'{{"unit":{unit}}}' for unit in range(3)]
    for unit in range(3, 120):
        harness.post(f"batch-complete/b/{unit}", json={"result": unit})
    console.page.wait_for_selector("a[rel=next]")
    first = {row[0] for row in console.rows("Of units that succeeded")}
    console.page.click("a[rel=next]")
    console.page.wait_for_selector("a[rel=first]")
    second = {row[0] for row in console.rows("Of units that succeeded")}
    assert (len(first), len(second), len(first | second)) == (100, 20, 120)


def test_the_answer_to_an_update_is_shown_from_its_row_and_by_its_id(console: Console, harness: Harness) -> None:
    page, run = console.page, flows("grinding", "7")
    run.start(text=LARGE)
    for id_, text in {"small": HOSTILE, "large": LARGE, "refused": "stone"}.items():
        run.update("grind", text, id=id_)
    harness.run()
    console.open("flows/mill/grinding/7", "grinding/7")
    page.click(".span summary:has-text('grind') >> nth=0")
    page.click(".span dd a:text-is('Show')")
    page.wait_for_selector("h2:text-is('Updates') + form + pre")
    assert json.loads(page.inner_text("h2:text-is('Updates') + form + pre"))[0] == HOSTILE
    page.fill("input[name=update]", "refused")
    page.press("input[name=update]", "Enter")
    page.wait_for_selector("dt:text-is('refused')")
    assert page.inner_text("dt:text-is('refused') + dd") == f"No {HOSTILE}"
    page.fill("input[name=update]", "large")
    page.press("input[name=update]", "Enter")
    page.wait_for_selector("h2:text-is('Updates') + form + p a[download]")
    assert downloaded(page, "h2:text-is('Updates') + form + p a[download]") == [LARGE, UNSAFE_INTEGER]
    assert page.locator("main img, main script, main b").count() == 0


def test_large_values_of_a_run_and_an_object_are_downloaded(console: Console, harness: Harness) -> None:
    page, run = console.page, flows("grinding", "7")
    run.start(text=LARGE)
    run.update("grind", "stop")
    objects("Sack", "a").fill(flour=LARGE * 8)
    harness.run()
    console.open("flows/mill/grinding/7", "grinding/7")
    assert downloaded(page, "dt:text-is('result') + dd a[download]") == [LARGE, UNSAFE_INTEGER]
    arguments = "h2:text-is('Arguments') ~ p"
    assert page.inner_text(arguments).startswith("text: ")
    assert downloaded(page, f"{arguments} a[download]") == LARGE
    page.click(".span summary:has-text('mill.grind') >> nth=0")
    page.click(".span summary:has-text('Result: a large value')")
    assert downloaded(page, ".span details[open] p a[download]") == [LARGE, UNSAFE_INTEGER]
    console.open("objects/mill/Sack/a", "Sack/a")
    assert downloaded(page)["fields"]["flour"] == LARGE * 8


def test_a_large_value_is_downloaded_through_the_relay_with_its_key(page: Page, base: str, harness: Harness) -> None:
    batch("b").populate([grind.call(LARGE)])
    harness.run()
    with relaying(base) as address:
        page.goto(address)
        page.goto(f"{address.partition('#')[0]}#/batches/b")
        page.wait_for_selector("main a[download]")
        assert downloaded(page) == [LARGE, UNSAFE_INTEGER]


def test_a_large_value_that_is_gone_is_named_below_the_page(page: Page, base: str, harness: Harness) -> None:
    console = Console(page, base)  # the browser logs the 404
    batch("b").populate([grind.call(LARGE)])
    harness.run()
    console.open("batches/b", "b")
    page.wait_for_selector("main a[download]")
    page.route("**/payloads/*", lambda route: route.fulfill(status=404, json={"title": "Gone", "detail": HOSTILE}))
    page.click("main a[download]")
    page.wait_for_selector("main [role=alert] >> text=Gone")
    assert HOSTILE in page.inner_text("main [role=alert]")


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_values_fit_a_narrow_screen_and_axe_finds_nothing(console: Console, harness: Harness, scheme: Any) -> None:
    run = flows("grinding", "7")
    run.start(text=LARGE)
    run.update("grind", LARGE, id="large")
    batch("b").populate([grind.call(LARGE), grind.call("x" * 3_000)])
    harness.run()
    console.page.emulate_media(color_scheme=scheme)
    console.page.set_viewport_size({"width": 390, "height": 900})
    for place, heading in {"batches/b": "b", "flows/mill/grinding/7?update=large": "grinding/7"}.items():
        console.open(place, heading)
        console.page.wait_for_selector("main a[download]")
        assert found(console.page) == []
        assert console.page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_large_value_of_which_only_a_part_arrives_is_not_saved(console: Console, harness: Harness) -> None:
    batch("b").populate([grind.call(LARGE)])
    harness.run()
    console.open("batches/b", "b")
    console.page.wait_for_selector("main a[download]")
    saved: list[Any] = []
    console.page.on("download", lambda download: saved.append(download))  # noqa: PLW0108 (Playwright marks the handler)
    part = '{"sha256": "0", "value": [{"a": 1}, {"b": 2'
    console.page.route("**/payloads/*", lambda route: route.fulfill(body=part, content_type="application/json"))
    console.page.click("main a[download]")
    console.page.wait_for_selector("[role=alert]:has-text('The answer is not JSON')")
    assert saved == []
