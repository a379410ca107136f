"""The functions of the project, and their console in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox.testing.replaced_limits import replaced
from signalbox_tools.local.functions.server import mounted
from tests.browser.console.console_page import Console
from tests.serving import serving

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from playwright.sync_api import Page


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
