"""Batches for callers over HTTP: list, populate, add pages, seal, watch, retry, cancel.

The events of a batch are a stream of server-sent events, which a browser's `EventSource` reads: `unit` is an outcome,
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
from typing import Any

from signalbox.adapters import runtime
from signalbox.adapters.deployed_catalogue import read_parameters
from signalbox.adapters.http import event_streams
from signalbox.adapters.http.access import check_calls, check_unit_calls
from signalbox.adapters.http.bodies import render
from signalbox.adapters.http.event_streams import RETRY, Places, event, quiet
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.batches import storage
from signalbox.batches.limits import LIMITS
from signalbox.batches.machine.watch import Cursor, News, Position, after, start_of
from signalbox.batches.model.batches import BatchStatus, Header, then_id
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import UnitRecord
from signalbox.batches.requests import (
    BatchesQuery,
    BatchSpec,
    PageRequest,
    RetryRequest,
    SealRequest,
    UnitsQuery,
    first_page_of,
    requested_id,
)
from signalbox.batches.service import batches
from signalbox.batches.service.batches import status_of
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.paging import OF_NAMES
from signalbox.core.ports import Ports
from signalbox.core.problems import BadQuery, Problem, Unavailable
from signalbox.tasks.storage import last_error_of_batch

routes = Routes("batches")
LINES = "application/x-ndjson"


# --- batches ---


@routes.on("POST", "/")
def populate(request: Request) -> Response:
    body = request.json_object(LIMITS.call_bytes_max)
    spec = BatchSpec.from_request(body)
    check_calls(request, **spec.calls())
    check_unit_calls(request, **spec.unit_calls())
    spec.check_arguments()
    batch = requested_id(body, request.header("Idempotency-Key")) or runtime.ports().store.new_id()
    populated = batches.populate(runtime.ports(), batch, spec)
    return Response(201 if populated.created else 200, populated.status.to_json())


@routes.on("GET", "/", query=("state", *OF_NAMES))
def find(request: Request) -> Response:
    page = batches.find(runtime.ports(), BatchesQuery.from_request(request.query))
    return Response(200, {"batches": [listed(*named) for named in page.headers.items()], **page.more})


@routes.on("POST", "/{id}/seal")
def seal(request: Request, id: str) -> Response:
    status = batches.seal(runtime.ports(), id, SealRequest.from_request(request.json_object()))
    return Response(200, status.to_json())


@routes.on("GET", "/{id}")
def get(_: Request, id: str) -> Response:
    status = batches.get(runtime.ports(), id)
    last_error = last_error_of_batch(runtime.ports(), id) if status.runs else {}
    return Response(200, status.to_json() | last_error)


@routes.on("GET", "/{id}/events", query=("last_event_id",))
def watch(request: Request, id: str) -> Response:
    return stream(id, request.header("Last-Event-ID") or request.query.get("last_event_id"))


@routes.on("DELETE", "/{id}")
def cancel(_: Request, id: str) -> Response:
    return Response(200, batches.cancel(runtime.ports(), id).to_json())


def listed(batch: str, header: Header) -> dict[str, Any]:
    """Return a batch as a list shows it, from its header, which has the counts of units once the batch has ended."""
    summary = header.summary() if header.ended else {"state": header.state}
    counts = summary | {"remaining": header.counts.remaining} if header.ended else summary
    size = {} if header.size is None else {"size": header.size}
    task = {} if header.task is None else {"task": header.task.shown()}
    follows = then_id(batch, header)
    then = {"then": follows} if follows else {}
    place = {"pages": header.pages, "deadline_at": header.deadline_at}
    return {"id": batch, **counts, **size, **place, **task, **then}


# --- units ---


@routes.on("POST", "/{id}/units", query=("page",))
def add_page(request: Request, id: str) -> Response:
    read_parameters()
    if request.has_lines:
        return _add_lines(request, id)
    if "page" in request.query:
        raise BadQuery("`page` in the address is for newline-delimited JSON; here it is in the body.", field="page")
    page = PageRequest.from_request(request.json_object())
    created = batches.add_page(runtime.ports(), id, page)
    return Response(201 if created else 200, {"id": id, "page": page.page, "units": len(page.units)})


def _add_lines(request: Request, id: str) -> Response:
    added = batches.add_units(runtime.ports(), id, first_page_of(request.query), request.json_line_stream())
    return Response(201 if added.created else 200, {"id": id, "page": added.page, "units": added.units})


@routes.on("GET", "/{id}/units", query=("state", "page_token"))
def list_units(request: Request, id: str) -> Response:
    page = batches.list_units(runtime.ports(), id, UnitsQuery.from_request(request.query))
    more = {"next_page_token": page.next_page_token} if page.next_page_token else {}
    return Response(200, {"units": [unit.to_json() for unit in page.units], **more})


@routes.on("GET", "/{id}/results", query=("state", "after"))
def results(request: Request, id: str) -> Response:
    outcomes = batches.outcomes_of(runtime.ports(), id, UnitsQuery.of_results(request.query))
    return Response(200, _lines(outcomes), {"Content-Type": LINES})


def _lines(outcomes: Iterator[UnitRecord]) -> Iterator[bytes]:
    return (render(unit.to_json()) + b"\n" for unit in outcomes)


@routes.on("POST", "/{id}/retry")
def retry(request: Request, id: str) -> Response:
    read_parameters()
    asked = RetryRequest.from_request(request.json_object())
    batches.retry(runtime.ports(), id, asked, request.header("Idempotency-Key") or "")
    return Response(202, {"id": id})


CHUNKS_MAX = 300
"""Reads that a feed keeps: those of some minutes."""


# --- feeds ---


@dataclass(frozen=True, slots=True)
class Chunk:
    """The news of one read, and the batch's status at that time: None while older outcomes are being read."""

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
        """Return the news after a position, at once or after a pause. Raises `NotFound` or `Unavailable`."""
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


# --- streams ---


def stream(batch: str, last_event_id: str | None) -> Response:
    """Return the stream of a batch's events.

    Raises `NotFound`, `BadQuery`, or `Unavailable` if this process serves too many streams.
    """
    ports = runtime.ports()
    run, header = storage.read_header(ports, batch)
    position = start_of(last_event_id, header)
    feed = FEEDS.join(ports, run)
    return event_streams.response(_events(feed, run, position), lambda: FEEDS.leave(run))


def _events(feed: Feed, run: BatchRun, position: Position) -> Iterator[str]:
    """Yield the text of the events, until the batch or the stream ends. In quiet times, yield an id alone."""
    yield RETRY
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
        for ended in after(position, chunk.news.outcomes):
            yield event("unit", ended.record.to_json(), Cursor(run.incarnation, ended.position))
        position = max(position, chunk.news.end)
        cursor = Cursor(run.incarnation, position)
        if chunk.status is not None and chunk.news.complete:
            yield event("complete", chunk.status.to_json(), cursor)
            return
        if chunk.status is not None and chunk.status != shown:
            shown = chunk.status
            yield event("progress", shown.to_json(), cursor)
        elif time.monotonic() >= quiet_until:
            yield quiet(cursor)
        else:
            continue
        quiet_until = time.monotonic() + LIMITS.watch_quiet_seconds
