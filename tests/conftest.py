"""What all tests share: one Firestore emulator for the whole run, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from signalbox_tools.local.store import firestore_emulator as emulators
from tests.required_programs import CHROMIUM, EMULATOR

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def firestore_emulator() -> Iterator[str]:
    """Return the ``HOST:PORT`` of an emulator. Use a project of your own instead of clearing it."""
    emulator = emulators.find()
    if emulator is None:
        pytest.skip(EMULATOR.reason)
    with emulator.start() as running:
        yield running.host


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return Chromium, for `page`. Without one the test is skipped.

    It ends with the tests of its module: while it runs, its thread has an event loop, and `asyncio.run` refuses to run.
    """
    path = CHROMIUM.require()
    from tests import chromium  # imports Playwright, which only these tests need

    with chromium.started(path) as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return an empty page with separate storage. An exception that its script does not catch fails the test."""
    errors: list[str] = []
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
    assert errors == []
