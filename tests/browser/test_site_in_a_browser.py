"""The site of the pages: built with strict links, read on a phone, in the dark, by search and by programs."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import signalbox
from signalbox_tools.setup.site import build, pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.marathon, pytest.mark.timeout(600)]

PHONE = {"width": 390, "height": 844}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (as the base class names it)
        pass


@pytest.fixture(scope="module")
def site() -> Path:
    return build()


@pytest.fixture(scope="module")
def base(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def addresses(site: Path) -> list[str]:
    return sorted(str(each.relative_to(site)) for each in site.rglob("*.html") if each.name != "404.html")


def test_each_page_is_there_as_html_and_as_markdown_and_in_the_list_for_programs(site: Path) -> None:
    listed = (site / "llms.txt").read_text("utf-8")
    for page in pages():
        assert (site / page).is_file()
        assert page == "README.md" or f"]({page})" in listed
        assert (site / page.replace("README.md", "index.md")).with_suffix(".html").is_file()


def test_the_reference_has_every_public_name(site: Path, base: str, page: Page) -> None:
    page.goto(f"{base}docs/reference.html")
    shown = {each.removeprefix("signalbox.") for each in page.locator("h2.doc-heading").all_inner_texts()}
    assert {name.split()[0].rstrip("¶") for name in shown} == set(getattr(signalbox, "__all__"))  # noqa: B009  a type checker does not know the name


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("signalbox.semaphores.api.Semaphore.wait", "call: Call"),
        ("signalbox.documents.api.Documents.query", "order_by"),
        ("signalbox.flows.api.runs.FlowRun.cancel", "reason: str"),
        ("signalbox.Lease.ends_at", "datetime"),
        ("signalbox.Function", "name: str"),
        ("signalbox.Problem", "detail: str"),
        ("signalbox.Transaction.put", "key: str"),
        ("signalbox.invoke", "timeout_seconds: float"),
    ],
)
def test_the_reference_has_signatures_with_types_also_of_the_classes_that_names_return(
    base: str, page: Page, name: str, signature: str
) -> None:
    page.goto(f"{base}docs/reference.html")
    heading = page.locator(f"[id='{name}']")
    assert signature in heading.locator("xpath=following-sibling::*[1] | following-sibling::*[2]").first.inner_text()


def test_no_page_is_wider_than_a_phone_and_all_are_dark_where_the_reader_wants_it(
    site: Path, base: str, browser: Browser
) -> None:
    context = browser.new_context(viewport=PHONE, color_scheme="dark")  # type: ignore[arg-type]  # a plain dict
    page = context.new_page()
    for address in addresses(site):
        page.goto(f"{base}{address}")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], address
        red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert max(red, green, blue) < 80, address
    context.close()


def test_the_search_finds_a_section(base: str, page: Page) -> None:
    page.goto(base)
    page.locator(".md-search__input").click()
    page.keyboard.type("fencing token")
    page.wait_for_selector(".md-search-result__link[href*='semaphores.html']")
