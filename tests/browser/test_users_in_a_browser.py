"""The page of docs/browsers.md signs in and calls its function from Chromium; only Firebase's library is stood in for.

The stand-in has the names and shapes that the page uses, and signs in with a token of the Auth emulator's form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from signalbox.adapters import settings
from signalbox.testing import Harness, user_token
from tests.serving import page_of, serving

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Page

DOCS = Path(__file__).parents[2] / "docs" / "browsers.md"
BLOCK = re.compile(r"^<!-- (?P<mark>.+?) -->\n```\w+\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = {block["mark"]: block["text"] for block in BLOCK.finditer(DOCS.read_text("utf-8"))}
LIBRARY = """
export const initializeApp = (config) => config;
export const getAuth = (app) => app;
export const connectAuthEmulator = () => {{}};
export const signInAnonymously = async () => ({{ user: {{ getIdToken: async () => {token} }} }});
"""


@pytest.fixture
def base(tmp_path: Path) -> Iterator[str]:
    """Return the base URL of the page's function, `notes`."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "main.py").write_text(BLOCKS["file: notes/main.py"], "utf-8")
    with Harness() as harness:
        harness.load(tmp_path / "notes")
        app = DispatcherMiddleware(page_of(""), {"/notes": harness.functions.app("notes")})
        with serving(app) as served:
            yield served


def permit(origin: str) -> None:
    """Set what the documented entry says, for a page of this origin."""
    [entry] = yaml.safe_load(BLOCKS["insert: infra/catalogue.yaml functions:"]).values()
    assert entry["cors"]
    origins, auth = {"notes": frozenset([origin])}, {"notes": entry["auth"]}
    settings.bind(replace(settings.settings(), auth=auth, origins=origins))


def shown(page: Page, base: str, token: str) -> str:
    """Open the documented page at its own origin; return the text that it shows."""
    library = LIBRARY.format(token=json.dumps(token))
    script = {"content_type": "text/javascript", "headers": {"Access-Control-Allow-Origin": "*"}}
    page.route("https://www.gstatic.com/**", lambda route: route.fulfill(body=library, **script))
    with serving(page_of(BLOCKS["file: index.html"].replace("http://127.0.0.1:8080/", base))) as origin:
        permit(origin.rstrip("/"))
        page.goto(origin)
        page.wait_for_function("document.querySelector('output')?.textContent")
        return page.inner_text("output")


def test_the_documented_page_signs_in_and_stores_a_note(page: Page, base: str) -> None:
    assert shown(page, base, user_token("ann")) == "200 buy tea"


def test_a_page_can_read_why_it_was_refused(page: Page, base: str) -> None:
    assert shown(page, base, "no token") == "401 undefined"
