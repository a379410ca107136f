"""Smoke-test a large document: the event of its change exceeds the 512 KB that Google's quota page names for events.

No single page documents whether Firestore's events have that limit, and what happens to an event that exceeds it. The
copy must follow anyway: `link_fan_out` reads the document when the event came without it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

LARGE_BYTES = 700_000
NAME = "a copy follows a document of 700 KB: its event came"

Made = Callable[[str, dict[str, object]], AbstractContextManager[None]]
Wait = Callable[[Callable[[], bool | None], str], object]


class Client(Protocol):
    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send an idempotent request and return the response's JSON."""


def large_copy_follows(client: Client, run: str, made: Made, wait: Wait) -> None:
    """Change a large document until a copy of it follows.

    `made` puts a document under a key for the length of a block; `wait` calls a function until its result is not None,
    and raises an error with the given text if the result stays None.
    """
    source, copy = f"{run}-large", f"{run}-large-copy"
    large: dict[str, object] = {"name": "before", "text": "x" * LARGE_BYTES}
    with made(source, large), made(copy, {"source": {"key": source}}):
        client.request("PATCH", f"documents/{source}", {"name": "after"})

        def followed() -> bool | None:
            return client.request("GET", f"documents/{copy}")["source"].get("name") == "after" or None

        wait(followed, "the copy of a large document is unchanged")
