"""The React example, built with Vite and the TypeScript client, in Chromium: a run and a document are followed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from werkzeug.middleware.shared_data import SharedDataMiddleware

from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox.testing.replaced_limits import replaced
from signalbox_tools.local.functions.server import mounted
from tests.required_programs import NPM
from tests.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "react"
INSTALL = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
BUILD = ("npm", "run", "build")
COMMANDS = (
    ("clients/typescript", INSTALL),
    ("clients/typescript", BUILD),
    ("examples/react", INSTALL),
    ("examples/react", BUILD),
)

pytestmark = [pytest.mark.marathon, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the commands of the example's README in a copy; return the folder of the page."""
    NPM.require()
    root = tmp_path_factory.mktemp("react")
    shutil.copy(ROOT / "openapi.yaml", root)
    made = shutil.ignore_patterns("node_modules", "dist", ".tested", "schema.ts")
    for name in ("clients/typescript", "examples/react"):
        shutil.copytree(ROOT / name, root / name, ignore=made)
    for name, command in COMMANDS:
        ended = subprocess.run(command, cwd=root / name, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    return root / "examples" / "react" / "dist"


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness, replaced(watch_pause_seconds=0.1):
        harness.post("shop/stock", json={"item": "tea", "count": 10})
        harness.run()
        yield harness


@pytest.fixture
def orders(page: Page, built: Path, harness: Harness) -> Iterator[Page]:
    with serving(
        SharedDataMiddleware(mounted(load()), {"/page": str(built), "/assets": str(built / "assets")})
    ) as base:
        page.goto(f"{base}page/index.html")
        yield page


def shows(page: Page, **texts: str) -> None:
    """Wait until the elements with these ids have these texts."""
    for name, text in texts.items():
        page.wait_for_function(f"() => document.querySelector('#{name}')?.textContent === {json.dumps(text)}")


def order(page: Page, name: str, amount: int = 3_000) -> None:
    page.fill("[name=order]", name)
    page.fill("[name=amount]", str(amount))
    page.click("button:text('Order')")


def test_a_run_is_followed_until_it_is_approved_and_its_document_until_it_is_shipped(
    orders: Page, harness: Harness
) -> None:
    order(orders, "7")
    shows(orders, state="running", document="none")
    harness.travel(3)
    shows(orders, state="running", document="charged")
    with orders.expect_response("**/events/**"):
        orders.click("button:text('Approve')")
    harness.travel(3)
    shows(orders, state="completed", document="shipped", result="parcel of 7, label of 7")
    order(orders, "7")  # a second time: the run of that name has ended
    shows(orders, state="completed", document="shipped")


def test_a_failure_is_shown_as_the_api_states_it(orders: Page, harness: Harness) -> None:
    order(orders, "8", amount=0)
    orders.wait_for_selector("#state")
    harness.run(raise_errors=False)
    shows(orders, state="failed")
    assert "An amount is positive." in orders.inner_text("[role=alert]")


def test_the_lock_says_what_is_installed_and_not_from_where() -> None:
    locked = json.loads((EXAMPLE / "package-lock.json").read_text("utf-8"))["packages"]
    installed = {
        path: each for path, each in locked.items() if path.startswith("node_modules") and not each.get("link")
    }
    assert installed
    assert all("integrity" in each and "resolved" not in each for each in installed.values())
