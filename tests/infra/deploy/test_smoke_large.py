"""The smoke test of a large document waits for its copy, and leaves nothing behind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from signalbox_tools.deploy.deployment_client import SmokeTestFailed
from signalbox_tools.deploy.smoke_large import LARGE_BYTES, large_copy_follows


class Documents:
    """Documents in memory; copies follow if `follows`."""

    def __init__(self, follows: bool) -> None:
        self.follows = follows
        self.kept: dict[str, dict[str, Any]] = {}
        self.largest = 0

    @contextmanager
    def made(self, key: str, body: dict[str, object]) -> Iterator[None]:
        self.kept[key] = dict(body)
        self.largest = max(self.largest, len(str(body)))
        try:
            yield
        finally:
            del self.kept[key]

    def request(self, method: str, path: str, body: Any = None) -> Any:
        found = self.kept[path.removeprefix("documents/")]
        if method == "PATCH":
            found.update(body)
            return found
        source = self.kept[found["source"]["key"]] if self.follows else {"name": "before"}
        return found | {"source": source}


def once(look: Callable[[], bool | None], otherwise: str) -> None:
    if look() is None:
        raise SmokeTestFailed(otherwise)


def test_a_copy_of_a_large_document_follows() -> None:
    documents = Documents(follows=True)
    large_copy_follows(documents, "run", documents.made, once)
    assert documents.largest > LARGE_BYTES > 512 * 1024
    assert documents.kept == {}


def test_a_copy_that_stays_behind_fails_and_nothing_is_left() -> None:
    documents = Documents(follows=False)
    with pytest.raises(SmokeTestFailed, match="the copy of a large document is unchanged"):
        large_copy_follows(documents, "run", documents.made, once)
    assert documents.kept == {}
