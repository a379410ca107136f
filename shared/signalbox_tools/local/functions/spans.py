"""The local stack's spans: a file of JSON lines, to which each process of the functions appends. The console reads it.

It takes the place of OpenTelemetry's exporter, unless ``OTEL_EXPORTER_OTLP_ENDPOINT`` names a collector. An event does
not have the trace of its commit, here as in the cloud; it is shown below the commit that has its time.
"""

import json
import os
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any

from signalbox.adapters import tracing
from signalbox.core.effects import RecordedSpan, span_id
from signalbox.core.times import microseconds, rfc3339
from signalbox_tools.local.functions.request_labels import CONSOLE, current_labels

VARIABLE = "SIGNALBOX_SPANS"
"""The file, in the environment of the functions."""

FILE = "functions.spans"

FILE_BYTES_MAX = 16 * 2**20
"""A file of this size is emptied."""

TRACES_MAX = 2_000
COMMITS_MAX = 20_000
LISTED_MAX = 100
SPANS_MAX = 500
MINUTES = 60

SWEEP = "sweep"

SHOWN_LABELS = ("kind", "method", "path", "task_name", "id", "attempt")


@dataclass(slots=True)
class OpenSpan:
    """A span that has begun."""

    trace: str
    id: str
    parent: str
    name: str
    kind: str
    attributes: dict[str, object]
    started: int = field(default_factory=lambda: time.time_ns() // 1_000)
    error: str = ""
    traceparent: str = field(init=False)
    lines: list[str] = field(default_factory=list)
    """The lines of the spans that have ended in the same request."""

    def __post_init__(self) -> None:
        self.traceparent = f"00-{self.trace}-{self.id}-01"

    def set(self, **attributes: object) -> None:
        self.attributes |= attributes


_current: ContextVar[OpenSpan | None] = ContextVar("signalbox.span", default=None)


class SpanFile:
    """Appends the spans of each request that has ended, in one write, so those of several processes do not mix."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @contextmanager
    def request(self, name: str, parent: str, attributes: Mapping[str, object]) -> Iterator[tracing.Span]:
        """Return the span of a request, or None for a request of the console."""
        labels = current_labels()
        if labels.get("page") == CONSOLE and labels.get("method") == "GET":
            with _as_current(None):
                yield tracing.NO_SPAN
            return
        _, trace, above, _ = parent.split("-") if parent else ("", secrets.token_hex(16), "", "")
        shown = {label: labels[label] for label in SHOWN_LABELS if label in labels}
        with self._begun(
            OpenSpan(trace, secrets.token_hex(8), above, name, "request", {**attributes, **shown})
        ) as span:
            yield span

    def span(self, name: str, attributes: Mapping[str, object]) -> AbstractContextManager[tracing.Span]:
        """Return a span of the current request."""
        if (above := _current.get()) is None:
            return nullcontext(tracing.NO_SPAN)
        span = OpenSpan(above.trace, secrets.token_hex(8), above.id, name, "part", dict(attributes), lines=above.lines)
        return self._begun(span)

    def record(self, recorded: RecordedSpan) -> None:
        """Append a span that a commit has recorded, with a link to the request that made the commit."""
        linked = [(_trace(trace), _span(key)) for trace, key in recorded.links]
        request = _current.get()
        line = {
            "trace": _trace(recorded.trace),
            "id": _span(recorded.key),
            "parent": _span(recorded.parent) if recorded.parent else "",
            "name": recorded.name,
            "kind": "recorded",
            "from": microseconds(recorded.started_at),
            "to": microseconds(recorded.ended_at),
            "attributes": recorded.attributes,
            "error": recorded.error,
            "links": [*([(request.trace, request.id)] if request else []), *linked],
        }
        self._append_lines([_encode(line)])

    @contextmanager
    def _begun(self, span: OpenSpan) -> Iterator[OpenSpan]:
        try:
            with _as_current(span):
                yield span
        except BaseException as error:
            span.error = type(error).__name__
            raise
        finally:
            self._append_lines([*(span.lines if span.kind == "request" else ()), _line_of(span)])

    def _append_lines(self, lines: Iterable[str]) -> None:
        """Append lines to those of the current request, or to the file if there is none."""
        if request := _current.get():
            request.lines.extend(lines)
            return
        if os.fstat(self._descriptor).st_size > FILE_BYTES_MAX:
            os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, "".join(f"{line}\n" for line in lines).encode())


@contextmanager
def _as_current(span: OpenSpan | None) -> Iterator[None]:
    token = _current.set(span)
    try:
        yield
    finally:
        _current.reset(token)


def _line_of(span: OpenSpan) -> str:
    """Return the line of a span that ends now."""
    status = span.attributes.get("status")
    failed = f"status {status}" if isinstance(status, int) and status >= 500 else ""
    line = {
        "trace": span.trace,
        "id": span.id,
        "parent": span.parent,
        "name": span.name,
        "kind": span.kind,
        "from": span.started,
        "to": time.time_ns() // 1_000,
        "attributes": span.attributes,
        "error": span.error or failed,
    }
    return _encode(line)


def _plain(value: object) -> str:
    return rfc3339(value) if isinstance(value, datetime) else str(value)


_encode = json.JSONEncoder(default=_plain).encode


def _trace(key: str) -> str:
    return f"{span_id(key, 16):032x}"


def _span(key: str) -> str:
    return f"{span_id(key, 8):016x}"


Span = Mapping[str, Any]
"""A line of the file."""


class SpanReader:
    """Reads the new lines of the file. It keeps the latest traces, and counts of the last hour."""

    def __init__(self, file: Path) -> None:
        self._file, self._offset, self._lock = file, 0, Lock()
        self._traces: OrderedDict[str, dict[str, Span]] = OrderedDict()
        self._commits: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._minutes: dict[int, Counter[tuple[str, str]]] = {}

    def recent(self, search: str = "") -> list[Mapping[str, Any]]:
        """Return summaries of the latest traces, the newest first.

        With `search`, return those with a span that has this text. Traces of a commit's events and of runs are left
        out, since they are shown with another trace. Visits of the sweeper that enqueued nothing are also left out,
        unless the search finds them.
        """
        with self._lock:
            below = self._read()
            traces = ((trace, self._whole(trace, below)) for trace in reversed(below[""]))
            found = (
                (trace, spans)
                for trace, spans in traces
                if any(_has(search, span) for span in spans) and (search or not _is_idle(spans))
            )
            return [_summary(trace, spans) for trace, spans in islice(found, LISTED_MAX)]

    def trace(self, trace: str) -> Mapping[str, Any] | None:
        """Return a trace, with the events of its commits and the runs that its requests advanced, or None."""
        with self._lock:
            below = self._read()
            if trace not in self._traces:
                return None
            spans = sorted(self._whole(trace, below), key=lambda span: (span["from"], -span["to"]))
            return {**_summary(trace, spans), "spans": spans[:SPANS_MAX], "complete": len(spans) <= SPANS_MAX}

    def minutes(self) -> Mapping[str, Any]:
        """Return the numbers of requests and of failed requests of each function in each minute of the last hour.

        `until` is the end of the last minute, in seconds since 1970.
        """
        with self._lock:
            self._read()
            end = int(time.time() // 60) + 1
            counted = [self._minutes.get(minute, Counter()) for minute in range(end - MINUTES, end)]
            names = sorted({function for counts in counted for function, _ in counts})
            kinds = ("requests", "failed")
            by_name = [{kind: [counts[name, kind] for counts in counted] for kind in kinds} for name in names]
            return {
                "until": end * 60,
                "functions": [{"function": name, **by} for name, by in zip(names, by_name, strict=True)],
            }

    def _read(self) -> Mapping[str, Sequence[str]]:
        """Read the new lines.

        Return the traces that are shown with each trace, and under ``""`` those that are shown alone.
        """
        with suppress(FileNotFoundError), self._file.open("rb") as file:
            if os.fstat(file.fileno()).st_size < self._offset:
                self._offset = 0
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # the rest is still to come
                self._offset += len(line)
                with suppress(ValueError):  # the rest of a line, if the file was emptied and has grown as long again
                    self._take(json.loads(line))
        below: dict[str, list[str]] = {"": []}
        for trace, spans in self._traces.items():
            below.setdefault(self._above(trace, spans.values()), []).append(trace)
        return below

    def _take(self, span: Span) -> None:
        self._traces.setdefault(span["trace"], {})[span["id"]] = span
        committed_at = span["attributes"].get("committed_at", ())
        for at in [committed_at] if isinstance(committed_at, str) else committed_at:
            self._commits[at] = span["trace"], span["id"]
        for kept, most in ((self._traces, TRACES_MAX), (self._commits, COMMITS_MAX)):
            while len(kept) > most:
                kept.popitem(last=False)
        if span["kind"] == "request":
            minute, function = span["to"] // 60_000_000, span["attributes"]["function"]
            if minute not in self._minutes:
                self._minutes = {at: counts for at, counts in self._minutes.items() if at > minute - 2 * MINUTES}
            counts = self._minutes.setdefault(minute, Counter())
            counts.update({(function, "requests"): 1, (function, "failed"): int(bool(span["error"]))})

    def _above(self, trace: str, spans: Iterable[Span]) -> str:
        """Return the trace in which another trace is shown.

        An event is shown in the trace of its commit, and a run in the trace of its request.
        """
        linked = (link[0] for span in spans for link in span.get("links", ())[:1])
        written = (self._commit_of(span)[0] for span in spans)
        return next((above for above in chain(written, linked) if above in self._traces and above != trace), "")

    def _commit_of(self, span: Span) -> tuple[str, str]:
        """Return the trace and the id of the commit that caused the event of a span, if they are known."""
        return self._commits.get(span["attributes"].get("written_at", ""), ("", ""))

    def _whole(self, trace: str, below: Mapping[str, Sequence[str]]) -> list[Span]:
        """Return the spans of a trace, and of the traces that are shown in it. The parent of an event is its commit."""
        found, todo = {trace}, [trace]
        while todo:
            fresh = set(below.get(todo.pop(), ())) - found
            found |= fresh
            todo += fresh
        spans = (span for each in found for span in self._traces[each].values())
        return [{**span, "parent": span["parent"] or self._commit_of(span)[1]} for span in spans]


def _summary(trace: str, spans: Sequence[Span]) -> Mapping[str, Any]:
    first = min(spans, key=lambda span: (span["trace"] != trace, span["kind"] != "request", span["from"]))
    requests = [span for span in spans if span["kind"] == "request"]
    counted = {"requests": len(requests), "failed": sum(bool(span["error"]) for span in requests)}
    times = {"from": min(span["from"] for span in spans), "to": max(span["to"] for span in spans)}
    return {"trace": trace, "name": first["name"], "about": about(first), **times, **counted}


def _is_idle(spans: Sequence[Span]) -> bool:
    """Return whether a trace is a visit of the sweeper from which nothing followed."""
    requests = [span for span in spans if span["kind"] == "request"]
    return all(span["attributes"]["function"] == SWEEP and not span["error"] for span in requests)


def about(span: Span) -> str:
    """Return the subject of a request: its address, or that of its task or event."""
    return " ".join(str(span["attributes"][name]) for name in ("path", "id") if span["attributes"].get(name))


def _has(text: str, span: Span) -> bool:
    return text in span["name"] or text in about(span) or text in span["error"]
