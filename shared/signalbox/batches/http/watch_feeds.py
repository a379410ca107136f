"""The events of a batch as a stream of server-sent events, which a browser's `EventSource` reads: `unit` is an outcome,
`progress` the batch's counts, `complete` its end, after which the stream ends. Each has an `id:`. A browser that
connects again sends the last id, and the stream continues after it.

All watchers of a batch in this process share a *feed*, which reads once a second. A watcher asks the feed for the news
after its position. The first watcher that asks reads, one watcher at a time, and the others receive what it read. If
the feed no longer has a watcher's position, the watcher catches up by reads of its own.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator

from signalbox.adapters.http import event_streams
from signalbox.adapters.http.event_streams import RETRY, Places, event, quiet
from signalbox.adapters.http.responses import Response
from signalbox.batches import storage
from signalbox.batches.limits import LIMITS
from signalbox.batches.machine.watch import Cursor, News, Position, after, start_of
from signalbox.batches.model.headers import BatchStatus
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.service.lifecycle import status_of
from signalbox.batches.shown import BatchShown, unit_shown
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import Ports
from signalbox.core.problems import Problem, Unavailable

CHUNKS_MAX = 300
"""The number of reads that a feed keeps, enough for a few minutes."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The news of one read, and the batch's status at that time (None while older outcomes are being read)."""

    news: News
    status: BatchStatus | None

    @property
    def size_bytes(self) -> int:
        return sum(len(ended.record.outcome.text) for ended in self.news.outcomes)


class Feed:
    """The feed of one run of a batch. Thread-safe."""

    def __init__(self, ports: Ports, run: BatchRun) -> None:
        self._ports, self._run = ports, run
        self._reading = threading.Lock()
        self._chunks: deque[Chunk] = deque()
        self._due = 0.0

    def next(self, position: Position) -> Chunk:
        """Return the news after a position, after a pause if there is none yet. Raises `NotFound` or `Unavailable`."""
        kept = list(self._chunks)
        if chunk := _following(kept, position):
            return chunk
        if kept and position < kept[0].news.start:
            return Chunk(storage.read_news(self._ports, self._run, position), None)
        with self._reading:
            return _following(list(self._chunks), position) or self._read(position)

    def _read(self, position: Position) -> Chunk:
        time.sleep(max(0.0, self._due - time.monotonic()))
        self._due = time.monotonic() + LIMITS.watch_pause_seconds
        last = self._chunks[-1] if self._chunks else None
        news = storage.read_news(self._ports, self._run, last.news.end if last else position)
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
        while len(self._chunks) > 1 and sum(chunk.size_bytes for chunk in self._chunks) > LIMITS.watch_kept_bytes_max:
            self._chunks.popleft()
        while len(self._chunks) > CHUNKS_MAX:
            self._chunks.popleft()


def _following(chunks: list[Chunk], position: Position) -> Chunk | None:
    return next((chunk for chunk in chunks if chunk.news.start <= position < chunk.news.end), None)


class Feeds:
    """The feeds of this process, each kept as long as it has watchers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._feeds: dict[BatchRun, Feed] = {}
        self._watchers: Counter[BatchRun] = Counter()
        self._places = Places()

    def join(self, ports: Ports, run: BatchRun) -> Feed:
        """Return the feed of a batch for one more watcher. Raises `Unavailable` if the process has too many."""
        self._places.take(LIMITS.watch_streams_max)
        with self._lock:
            self._watchers[run] += 1
            return self._feeds.setdefault(run, Feed(ports, run))

    def leave(self, run: BatchRun) -> None:
        """Count one watcher less, and drop a feed without watchers."""
        self._places.leave()
        with self._lock:
            self._watchers[run] -= 1
            if not self._watchers[run]:
                del self._watchers[run], self._feeds[run]


FEEDS = Feeds()


def stream(ports: Ports, batch: str, last_event_id: str | None, *, is_open: bool) -> Response:
    """Return the stream of a batch's events.

    Raises `NotFound`, `BadQuery`, or `Unavailable` if this process serves too many streams.
    """
    run, header = storage.read_header(ports, batch)
    position = start_of(last_event_id, header)
    feed = FEEDS.join(ports, run)
    return event_streams.response(_events(ports, feed, run, position, is_open=is_open), lambda: FEEDS.leave(run))


def _events(ports: Ports, feed: Feed, run: BatchRun, position: Position, *, is_open: bool) -> Iterator[str]:
    """Yield the text of the events, until the batch or the stream ends. In quiet times, yield an id alone."""
    yield RETRY
    ends_at = time.monotonic() + LIMITS.watch_stream_seconds
    quiet_until, shown = 0.0, None
    while time.monotonic() < ends_at:
        try:
            chunk = feed.next(position)
        except Unavailable as error:
            ports.log.info("unavailable", reason=str(error))
            return
        except Problem:
            return
        for ended in after(position, chunk.news.outcomes):
            yield event("unit", unit_shown(ended.record, is_open=is_open), Cursor(run.incarnation, ended.position))
        position = max(position, chunk.news.end)
        cursor = Cursor(run.incarnation, position)
        if chunk.status is not None and chunk.news.complete:
            yield event("complete", BatchShown.of(chunk.status), cursor)
            return
        if chunk.status is not None and chunk.status != shown:
            shown = chunk.status
            yield event("progress", BatchShown.of(shown), cursor)
        elif time.monotonic() >= quiet_until:
            yield quiet(cursor)
        else:
            continue
        quiet_until = time.monotonic() + LIMITS.watch_quiet_seconds
