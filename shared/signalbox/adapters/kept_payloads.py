"""A payload store that keeps contents in memory, and does not store twice what it has stored a moment ago.

The turns of a run read the same payloads again and again. A key determines its content, so a kept content is never
stale. Only calls that reach the store are counted as costs.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256

from signalbox.core.ports import PayloadStore, StoredPayload

KEPT_BYTES_MAX = 32 * 1024 * 1024
"""Bytes of payloads that a process keeps in memory."""

STORED_SECONDS = 1_800
"""The time for which a process does not store a payload again. The collector deletes none younger than a day."""

Count = Callable[[str], None]
"""Count one call of a kind: stored, opened, copied, listed."""


class KeptPayloads:
    """A payload store that keeps contents. Thread-safe."""

    def __init__(self, store: PayloadStore, count: Count, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._count, self._clock = store, count, clock
        self._lock = threading.Lock()
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._size_bytes = 0
        self._stored_at: dict[str, float] = {}

    def create(self, key: str, content: bytes, owner: str) -> None:
        if self._was_stored(key):
            return
        self._count("stored")
        self._store.create(key, content, owner)
        self._note(key)
        self._keep(key, content)

    def read(self, key: str) -> bytes | None:
        with self._lock:
            if (kept := self._contents.get(key)) is not None:
                self._contents.move_to_end(key)
                return kept
        self._count("opened")
        content = self._store.read(key)
        if content is not None and key.endswith(sha256(content).hexdigest()):  # a damaged one may be restored
            self._keep(key, content)
        return content

    def copy(self, source: str, target: str, owner: str) -> bool:
        if self._was_stored(target):
            return True
        self._count("copied")
        if not self._store.copy(source, target, owner):
            return False
        self._note(target)
        return True

    def list(self, prefix: str, after: str, limit: int) -> Sequence[StoredPayload]:
        self._count("listed")
        return self._store.list(prefix, after, limit)

    def delete(self, keys: Sequence[str]) -> None:
        self.forget(keys)
        self._store.delete(keys)

    def forget(self, keys: Sequence[str] | None = None) -> None:
        """Forget contents, by default all."""
        with self._lock:
            for key in list(self._contents) if keys is None else keys:
                self._size_bytes -= len(self._contents.pop(key, b""))
                self._stored_at.pop(key, None)

    def _was_stored(self, key: str) -> bool:
        with self._lock:
            at = self._stored_at.get(key)
        return at is not None and self._clock() - at < STORED_SECONDS

    def _note(self, key: str) -> None:
        """Note that a key has just been stored, and forget the keys for which that was long ago."""
        now = self._clock()
        with self._lock:
            self._stored_at[key] = now
            if len(self._stored_at) > KEYS_MAX:
                oldest = now - STORED_SECONDS
                self._stored_at = {key: at for key, at in self._stored_at.items() if at > oldest}

    def _keep(self, key: str, content: bytes) -> None:
        with self._lock:
            self._size_bytes += len(content) - len(self._contents.pop(key, b""))
            self._contents[key] = content
            while self._size_bytes > KEPT_BYTES_MAX:
                _, dropped = self._contents.popitem(last=False)
                self._size_bytes -= len(dropped)


KEYS_MAX = 10_000
"""Noted keys above which the old ones are forgotten."""
