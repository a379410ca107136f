"""What all tests share: one Firestore emulator for the whole run, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from infra.local import firestore_emulator as emulators

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def firestore_emulator() -> Iterator[str]:
    """Return the ``HOST:PORT`` of an emulator. Use a project of your own instead of clearing it."""
    emulator = emulators.find()
    if emulator is None:
        pytest.skip(f"no Firestore emulator on this machine: {emulators.HOW_TO_GET_IT}")
    with emulator.start() as running:
        yield running.host


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return Chromium, for `page`. Without one the test fails, with how to get it.

    It ends with the tests of its module: while it runs, its thread has an event loop, and `asyncio.run` refuses to run.
    """
    from tests import chromium  # imports Playwright, which only these tests need

    path = chromium.find()
    if path is None:
        pytest.fail(chromium.HOW_TO_GET_IT)
    with chromium.started(path) as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return an empty page with storage of its own. An exception that its script does not catch fails the test."""
    errors: list[str] = []
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
    assert errors == []
