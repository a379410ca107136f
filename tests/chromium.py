"""Chromium, driven by Playwright, for tests of what a page in a browser sees.

Debian's own Chromium, or Chrome where it is installed: Playwright's download is not needed. A machine without any fails
these tests with what to do; it never skips them.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
HOW_TO_GET_IT = (
    "Chromium is not on this machine. On Debian: apt-get install chromium; on macOS: brew install --cask chromium; "
    "or name another one that is installed: CHROMIUM=/path/to/chrome"
)
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
"""Containers run as root, where Chromium has no sandbox, and give /dev/shm 64 MB. The pages are the tests' own."""


def find() -> str | None:
    """Return the path of Chromium or Chrome, or None."""
    found = (shutil.which(name) for name in (os.environ.get("CHROMIUM"), *NAMES) if name)
    return next((path for path in found if path), None)


@contextmanager
def started(path: str) -> Iterator[Browser]:
    """Run a browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
