"""One log line a request: "handled", with its labels, status, durations and cost, under its trace.

Every entry point (`routes`, `task_deliveries`, `event_deliveries`) uses `logged_request`, so each request writes one
such line.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar
from zlib import crc32

import flask

from signalbox.adapters import runtime, tracing
from signalbox.adapters.cost_meter import Cost, measure
from signalbox.adapters.known_requests import REQUESTS
from signalbox.adapters.logs import Headers, given_trace, new_trace, noted, traced
from signalbox.adapters.settings import served_name, settings
from signalbox.core import authors
from signalbox.core.bound_values import Bound
from signalbox.core.lazy_dataclasses import dataclass

STATUS_UNHANDLED = 500

SAMPLE = 100
"""One of this many sampled lines is written, with this number as `sampled`."""

current_function: ContextVar[str] = ContextVar("signalbox.current_function", default="")
"""The function that handles the request, empty outside of requests. In tests, one process serves many functions."""

AnyEntryPoint = TypeVar("AnyEntryPoint", bound=Callable[..., object])


@dataclass(slots=True)
class LogEntry:
    """The log line of the current request, and the request's span. Set `status` to the response's.

    With `sampled_by`, an id of the request, most lines of requests that succeeded and cost nothing are left out in the
    cloud: all but one of `SAMPLE`, chosen by the id.
    """

    status: int = STATUS_UNHANDLED
    sampled_by: str = ""
    span: tracing.Span = tracing.NO_SPAN

    def sample(self, cost: Cost) -> int:
        """Return the number of similar requests that this request's line represents; 0 if this request has no line."""
        if not self.sampled_by or self.status >= 400 or cost != Cost() or not settings().in_cloud:
            return 1
        return 0 if crc32(self.sampled_by.encode()) % SAMPLE else SAMPLE


@contextmanager
def logged_request(function: str, headers: Headers, kind: str, **labels: object) -> Iterator[LogEntry]:
    """Bind the request's trace, count its cost, and write its log line, with `labels`, at the end.

    `kind` is a part of the span's name: the method, or the path of a task. The function is the author of all writes
    inside the context.
    """
    started = time.perf_counter()
    author, given = authors.author_of_function(function), given_trace(headers)
    with (
        tracing.request(f"{function} {kind}", given, {"function": function, **labels}) as span,
        traced(span.traceparent or given or new_trace()),
        measure() as cost,
        noted() as durations,
        authors.acting(author),
        handled_by(function),
        REQUESTS.handled(is_request=True),
    ):
        log_entry = LogEntry(span=span)
        try:
            yield log_entry
        finally:
            counts = cost.to_json()
            span.set(status=log_entry.status, **counts)
            if sample := log_entry.sample(cost):
                duration = {
                    "status": log_entry.status,
                    "milliseconds": round((time.perf_counter() - started) * 1000, 1),
                }
                sampled = {"sampled": sample} if sample > 1 else {}
                values = {"function": function} | labels | duration | counts | durations | sampled
                runtime.log().info("handled", **values)


def handled_by(function: str) -> Bound[str]:
    """Make a function the one that handles the request."""
    return Bound(current_function, function)


def entry_point(function: str, entry: AnyEntryPoint) -> AnyEntryPoint:
    """Name an entry point after its function. If this process serves it, import what its first request needs.

    Raises `ValueError` if the function is served under another name than its own: its tasks would not reach it.
    """
    entry.__name__ = entry.__qualname__ = function
    if flask.has_app_context():  # the framework is loading the function; a test only imports it
        served = served_name() or function
        if served != function:
            raise ValueError(f'Function("{function}") is served as {served}: write Function("{served}")')
        runtime.load()
    return entry
