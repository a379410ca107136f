"""Chromium, driven by Playwright, for tests of what a page in a browser sees.

Debian's own Chromium, or Chrome where it is installed (`tests.tools`): Playwright's download is not needed.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
"""Containers run as root, where Chromium has no sandbox, and give /dev/shm 64 MB. The pages are the tests' own."""


@contextmanager
def started(path: str) -> Iterator[Browser]:
    """Run a browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
