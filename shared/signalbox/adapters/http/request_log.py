"""One log line a request: "handled", with its labels, status, duration and cost, under its trace.

Every entry point (`routes`, `tasks`, `events`) uses `logged_request`, so each request writes exactly one such line.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TypeVar

import flask

from signalbox.adapters import runtime
from signalbox.adapters.logs import Headers, traced, traceparent_of
from signalbox.adapters.meter import measure
from signalbox.adapters.settings import served_name
from signalbox.core import identity

STATUS_UNHANDLED = 500

AnyEntryPoint = TypeVar("AnyEntryPoint", bound=Callable[..., object])


@dataclass(slots=True)
class LogEntry:
    """The log line of the current request. Set `status` to that of the response."""

    status: int = STATUS_UNHANDLED


@contextmanager
def logged_request(function: str, headers: Headers, **labels: object) -> Iterator[LogEntry]:
    """Bind the request's trace, count its cost, and write its log line, with `labels`, at the end.

    The function is the author of everything that is written in the meantime.
    """
    log_entry, started = LogEntry(), time.perf_counter()
    with traced(traceparent_of(headers)), measure() as cost, identity.acting(identity.author_of_function(function)):
        try:
            yield log_entry
        finally:
            duration = {"status": log_entry.status, "milliseconds": round((time.perf_counter() - started) * 1000, 1)}
            runtime.log().info("handled", **({"function": function} | labels | duration | asdict(cost)))


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
