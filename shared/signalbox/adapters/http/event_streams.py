"""Streams of server-sent events, as a browser's `EventSource` reads them.

Each event has an `id:`. A browser that connects again sends the last one, and the stream continues after it.
"""

import threading
from collections.abc import Callable, Iterator

from signalbox.adapters.http.json_bodies import render
from signalbox.adapters.http.responses import Response
from signalbox.core.problems import Unavailable

HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""No proxy may buffer events. The last header is for nginx."""

RETRY_AFTER_SECONDS = 5

RETRY = "retry: 1000\n\n"
"""The first text of a stream: the milliseconds after which a browser reconnects."""


def event(name: str, data: object, id: object) -> str:
    """Return the text of an event. `data` is rendered as JSON."""
    return f"event: {name}\nid: {id}\ndata: {render(data).decode()}\n\n"


def quiet(id: object) -> str:
    """Return the text of an id without an event, which shows whether the watcher is still connected."""
    return f"id: {id}\n\n"


def response(events: Iterator[str], ended: Callable[[], None]) -> Response:
    """Return the response with a stream. `ended` is called once at the end, even if the stream is never read."""
    return Response(200, Stream(events, ended), HEADERS)


class Places:
    """The places for streams in this process, since each stream occupies a thread. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0

    def take(self, most: int) -> None:
        """Take one of `most` places. Raises `Unavailable` if all are taken."""
        with self._lock:
            if self._taken >= most:
                raise Unavailable(
                    "this instance serves as many streams as it may", retry_after_seconds=RETRY_AFTER_SECONDS
                )
            self._taken += 1

    def leave(self) -> None:
        """Release a place."""
        with self._lock:
            self._taken -= 1


class Stream:
    """An iterator that calls `ended` once: at its end, or when it is closed, even if iteration never began."""

    def __init__(self, events: Iterator[str], ended: Callable[[], None]) -> None:
        self._events, self._ended = events, ended
        self._open = True

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._events).encode()
        except BaseException:  # the end of iteration is an exception, too
            self.close()
            raise

    def close(self) -> None:
        """Release what the stream holds."""
        if self._open:
            self._open = False
            self._ended()
