"""The console's page in Chromium, and the texts and elements that a test can read from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from signalbox.testing import Harness
from signalbox_tools.console.serving import server_of
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import Outcome

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

REQUEST_SECONDS = 30


class Console:
    """The console's page, and what can be seen of it."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base

    def open(self, place: str, heading: str) -> None:
        self.page.goto(f"{self.base}console#/{place}")
        self.page.wait_for_function("text => document.querySelector('h1')?.textContent === text", arg=heading)

    def rows(self, caption: str) -> list[list[str]]:
        """Return the cells of the table with this caption, below its head."""
        rows: list[list[str]] = self.page.evaluate(
            """caption => [...document.querySelectorAll("table")]
                .filter((each) => each.caption.textContent === caption)
                .flatMap((each) => [...each.tBodies[0].rows])
                .map((row) => [...row.cells].map((cell) => cell.textContent))""",
            caption,
        )
        return rows

    def cards(self, heading: str) -> dict[str, tuple[str, list[str]]]:
        """Return the cards below a heading: their numbers, and their first items, by their names."""
        found: dict[str, tuple[str, list[str]]] = self.page.evaluate(
            """heading => Object.fromEntries([...document.querySelectorAll("h2")]
                .filter((each) => each.textContent === heading)
                .flatMap((each) => [...each.nextElementSibling.querySelectorAll(".card")])
                .map((card) => [card.querySelector("p a").textContent, [card.querySelector(".count").textContent,
                    [...card.querySelectorAll("li")].map((item) => item.textContent)]]))""",
            heading,
        )
        return {name: (count, items) for name, (count, items) in found.items()}

    def facts(self) -> dict[str, str]:
        found: dict[str, str] = self.page.evaluate(
            """() => Object.fromEntries([...(document.querySelector("main > dl")?.children ?? [])]
                .filter((each) => each.tagName === "DT")
                .map((each) => [each.textContent, each.nextElementSibling.textContent]))"""
        )
        return found

    def spans(self) -> list[tuple[str, str]]:
        """Return the outcome and the name of each row of a timeline."""
        found: list[list[str]] = self.page.eval_on_selector_all(
            ".span", "all => all.map((each) => [each.classList[1], each.querySelector('.name').textContent])"
        )
        return [(outcome, name) for outcome, name in found]

    def attributes(self, selector: str, name: str) -> list[str]:
        found: list[str] = self.page.eval_on_selector_all(selector, f"all => all.map((each) => each.dataset.{name})")
        return found


def deadlock(harness: Harness, seats: int = 5) -> None:
    """Run philosophers until each holds one fork and waits for the next."""
    harness.post("philosophers", json={"table": "t", "seats": seats, "rounds": 1, "mode": "naive"})
    harness.travel(3)
    assert len(harness.get("semaphores?deadlocks=true").json["deadlocks"]) == 1


class HeldRequests:
    """A page's requests to an address, held until they are continued in the order of their arrival."""

    def __init__(self, page: Page, address: str) -> None:
        self._page = page
        self._held: list[Route] = []
        page.route(address, self._hold)

    def _hold(self, route: Route) -> None:
        self._held.append(route)

    def continue_next(self) -> None:
        """Wait for the page's next request, and continue it."""
        deadline = time.monotonic() + REQUEST_SECONDS
        while not self._held:
            assert time.monotonic() < deadline, "the page sent no such request"
            self._page.wait_for_timeout(10)
        self._held.pop(0).continue_()


@contextmanager
def relaying(base: str, *, acts: bool = False) -> Iterator[str]:
    """Serve the console of a deployment whose functions are at `base`; the value is the address to open."""
    target = Target("demo-project", "dev", "us-central1", {})
    server, relay = server_of(target, 0, lambda *_, **__: Outcome(0, "a-token"), base, acts=acts)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/console#key={relay.key}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
