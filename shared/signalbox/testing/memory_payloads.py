"""An in-memory payload store. Its time is the server's."""

from collections.abc import Callable, Sequence
from datetime import datetime

from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import StoredPayload


class MemoryPayloads:
    """A `PayloadStore` in memory. `contents` and `stored` have the contents and the listed values, by key."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.contents: dict[str, bytes] = {}
        self.stored: dict[str, StoredPayload] = {}

    def create(self, key: str, content: bytes, owner: str) -> None:
        if key not in self.contents:
            self.contents[key] = content
            self.stored[key] = StoredPayload(key, owner, self._now())

    def read(self, key: str) -> bytes | None:
        return self.contents.get(key)

    def copy(self, source: str, target: str, owner: str) -> bool:
        if source not in self.contents:
            return False
        self.create(target, self.contents[source], owner)
        return True

    def list(self, prefix: str, after: str, limit: int) -> Sequence[StoredPayload]:
        keys = sorted(key for key in self.stored if key.startswith(prefix) and key > after)
        return [replace(self.stored[key]) for key in keys[:limit]]

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.contents.pop(key, None)
            self.stored.pop(key, None)
