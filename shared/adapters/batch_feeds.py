"""Feeds of watched batches: read once a second for all who watch a batch in this process.

A watcher asks a feed for what follows its position. Whoever asks first reads, one watcher at a time; the others find
what it read. A watcher that is further behind than what a feed keeps catches up by reads of its own.
"""

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass

from shared.batches.operations import watch
from shared.batches.operations.batches import status_of
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.status import BatchStatus
from shared.batches.rules.watch import News, Position
from shared.core.operations.ports import Ports
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable

RETRY_AFTER_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one read brought, and the batch's status then: None while older outcomes are being read."""

    news: News
    status: BatchStatus | None

    @property
    def size_bytes(self) -> int:
        return sum(len(one.record.outcome.text) for one in self.news.outcomes)


class Feed:
    """The feed of one run of a batch. Thread-safe."""

    def __init__(self, ports: Ports, run: BatchRun) -> None:
        self._ports, self._run = ports, run
        self._reading = threading.Lock()
        self._chunks: deque[Chunk] = deque()
        self._due = 0.0

    def next(self, position: Position) -> Chunk:
        """Return what follows a position, at once or after a pause. Raises `NotFound` or `Unavailable`."""
        kept = list(self._chunks)
        if chunk := _following(kept, position):
            return chunk
        if kept and position < kept[0].news.start:
            return Chunk(watch.read_on(self._ports, self._run, position), None)
        with self._reading:
            return _following(list(self._chunks), position) or self._read(position)

    def _read(self, position: Position) -> Chunk:
        time.sleep(max(0.0, self._due - time.monotonic()))
        self._due = time.monotonic() + LIMITS.watch_pause_seconds
        last = self._chunks[-1] if self._chunks else None
        news = watch.read_on(self._ports, self._run, last.news.end if last else position)
        chunk = Chunk(news, self._status(news, last))
        if not news.caught_up:
            self._due = 0.0
        self._keep(chunk)
        return chunk

    def _status(self, news: News, last: Chunk | None) -> BatchStatus | None:
        if not news.caught_up:
            return None
        if last and last.status and not news.outcomes and news.header == last.news.header:
            return last.status
        return status_of(self._ports, self._run, news.header)

    def _keep(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        while len(self._chunks) > 1 and sum(one.size_bytes for one in self._chunks) > LIMITS.watch_kept_bytes_max:
            self._chunks.popleft()
        while len(self._chunks) > CHUNKS_MAX:
            self._chunks.popleft()


CHUNKS_MAX = 300
"""Reads that a feed keeps: some minutes of them."""


def _following(chunks: list[Chunk], position: Position) -> Chunk | None:
    return next((one for one in chunks if one.news.start <= position < one.news.end), None)


class Feeds:
    """The feeds of this process, as long as they have watchers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._feeds: dict[BatchRun, Feed] = {}
        self._watchers: Counter[BatchRun] = Counter()

    def join(self, ports: Ports, run: BatchRun) -> Feed:
        """Return the feed of a batch for one more watcher. Raises `Unavailable` if the process has too many."""
        with self._lock:
            if self._watchers.total() >= LIMITS.watch_streams_max:
                raise Unavailable(
                    "this instance serves as many streams as it may", retry_after_seconds=RETRY_AFTER_SECONDS
                )
            self._watchers[run] += 1
            return self._feeds.setdefault(run, Feed(ports, run))

    def leave(self, run: BatchRun) -> None:
        """Count one watcher less; a feed without any is forgotten."""
        with self._lock:
            self._watchers[run] -= 1
            if not self._watchers[run]:
                del self._watchers[run], self._feeds[run]
