"""The events of a batch as a stream of server-sent events, which a browser's `EventSource` reads.

`unit` is an outcome, `progress` the batch's counts, `complete` its end, after which the stream ends. Each has an `id:`;
a browser that connects again sends the last one, and the stream goes on behind it.
"""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from shared.adapters import runtime
from shared.adapters.batch_feeds import Feed, Feeds
from shared.adapters.http.responses import Response
from shared.batches.operations.headers import read_header
from shared.batches.rules import watch as rules
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.watch import Cursor, Position
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, Unavailable

HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""Nothing between may keep events back; the last header is for nginx."""

RETRY_MILLISECONDS = 1_000
"""How long a browser waits before it connects again."""

_feeds = Feeds()


def stream(batch: str, last_event_id: str | None) -> Response:
    """Return the stream of a batch's events. Raises `NotFound`, `BadQuery`, or `Unavailable` if there are too many."""
    ports = runtime.ports()
    run, header = read_header(ports, batch)
    position = rules.start_of(last_event_id, header)
    feed = _feeds.join(ports, run)
    return Response(200, Stream(_events(feed, run, position), lambda: _feeds.leave(run)), HEADERS)


class Stream:
    """An iterator that calls `ended` once: at its end, or when it is closed, also if it was never begun."""

    def __init__(self, events: Iterator[str], ended: Callable[[], None]) -> None:
        self._events, self._ended = events, ended
        self._open = True

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._events).encode()
        except BaseException:  # its end is one too
            self.close()
            raise

    def close(self) -> None:
        """Free the stream's place."""
        if self._open:
            self._open = False
            self._ended()


def _events(feed: Feed, run: BatchRun, position: Position) -> Iterator[str]:
    """Yield the text of the events, and at times an id alone, until the batch's end or the stream's."""
    yield f"retry: {RETRY_MILLISECONDS}\n\n"
    ends_at = time.monotonic() + LIMITS.watch_stream_seconds
    quiet_until, shown = 0.0, None
    while time.monotonic() < ends_at:
        try:
            chunk = feed.next(position)
        except Unavailable as error:
            runtime.log().info("unavailable", reason=str(error))
            return
        except Problem:
            return
        for one in rules.after(position, chunk.news.outcomes):
            yield _event("unit", one.record.to_json(), Cursor(run.incarnation, one.position))
        position = max(position, chunk.news.end)
        cursor = Cursor(run.incarnation, position)
        if chunk.status is not None and chunk.news.complete:
            yield _event("complete", chunk.status.to_json(), cursor)
            return
        if chunk.status is not None and chunk.status != shown:
            shown = chunk.status
            yield _event("progress", shown.to_json(), cursor)
        elif time.monotonic() >= quiet_until:
            yield f"id: {cursor}\n\n"
        else:
            continue
        quiet_until = time.monotonic() + LIMITS.watch_quiet_seconds


def _event(name: str, data: dict[str, Any], cursor: Cursor) -> str:
    return f"event: {name}\nid: {cursor}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
