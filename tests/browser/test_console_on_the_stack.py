"""The console of a local stack, as `make dev` serves it: a real deadlock is drawn, and the queues are counted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from signalbox_infra.local.stack import Stack

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Page

SEATS = 5
DEADLOCK = "() => document.querySelectorAll('[data-node]:has(.node.marked)').length === 5"
QUEUES = "() => document.querySelectorAll('table')[1]?.tBodies[0].rows.length"
STEADY_MILLISECONDS = 100_000


@pytest.mark.marathon
def test_philosophers_on_a_stack_are_drawn_as_a_circle_and_its_queues_are_counted(page: Page, tmp_path: Path) -> None:
    with Stack(folder=tmp_path) as stack:
        httpx.post(f"{stack.base_url}philosophers", json={"table": "t", "seats": SEATS, "rounds": 3, "mode": "naive"})
        page.goto(f"{stack.base_url}console#/semaphores")
        page.wait_for_function(DEADLOCK, timeout=STEADY_MILLISECONDS)
        page.goto(f"{stack.base_url}console#/overview")
        page.wait_for_function(QUEUES)
        assert "waiting" in page.inner_text("tr:has-text('queue tasks')")
        log = (tmp_path / "functions.log").read_text("utf-8")
    assert '"page": "console"' in log or '"page":"console"' in log
