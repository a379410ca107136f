"""Chromium, driven by Playwright, for tests of what a page in a browser sees.

Debian's own Chromium, or Chrome where it is installed (`path`): Playwright's download is not needed.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
"""The programs that are looked for, unless the variable `CHROMIUM` names one."""

ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
"""Containers run as root, where Chromium has no sandbox, and give /dev/shm 64 MB. The pages are the tests' own."""


def path() -> str | None:
    """Return the browser's path, or None where there is none."""
    paths = (shutil.which(name) for name in (os.environ.get("CHROMIUM"), *NAMES) if name)
    return next((path for path in paths if path), None)


@contextmanager
def started(path: str) -> Iterator["Browser"]:
    """Run a browser without a window."""
    from playwright.sync_api import sync_playwright  # a look for missing programs does not need it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
