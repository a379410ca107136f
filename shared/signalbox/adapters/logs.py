"""Structured logging: JSON lines on standard output, in the format that Cloud Logging parses.

A line has a severity, a constant message and values. The trace of the current request is bound once, is part of every
line and is propagated in tasks, so one search shows a request and everything that it caused. No logging library is
used: importing Google's takes longer than the rest of a cold start.
"""

import json
import re
import secrets
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Protocol, TextIO

from signalbox.adapters import tracing
from signalbox.core.bound_values import Bound
from signalbox.core.dropped_calls import NO_EFFECT
from signalbox.core.effects import RecordedSpan


class Headers(Protocol):
    """Headers by name: Flask's, or a plain dictionary."""

    def get(self, name: str, default: str, /) -> str: ...


_trace: ContextVar[str] = ContextVar("signalbox.trace", default="")

_noted: ContextVar[dict[str, float] | None] = ContextVar("signalbox.noted", default=None)

_line_lock = threading.Lock()

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")

_CLOUD_TRACE = re.compile(r"([0-9a-fA-F]{32})(?:/(\d{1,20}))?(?:;o=(\d))?")


def new_trace() -> str:
    """Return the trace of a request that has none, as a W3C ``traceparent``."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00"


def given_trace(headers: Headers) -> str:
    """Return the trace of a request as a W3C ``traceparent``, or an empty string if it has none."""
    given = headers.get("traceparent", "")
    if _TRACEPARENT.fullmatch(given):
        return given
    if cloud := _CLOUD_TRACE.fullmatch(headers.get("X-Cloud-Trace-Context", "")):
        span = int(cloud[2] or 0) % 2**64 or 1
        return f"00-{cloud[1].lower()}-{span:016x}-{'01' if cloud[3] == '1' else '00'}"
    return ""


def current_trace() -> str:
    """Return the ``traceparent`` of the current request, or an empty text outside a request."""
    return _trace.get()


def traced(traceparent: str) -> Bound[str]:
    """Bind a trace while the context is entered."""
    return Bound(_trace, traceparent)


def noted() -> AbstractContextManager[dict[str, float]]:
    """Collect the durations that are noted while the context is entered, in this thread."""
    return Bound(_noted, {})


class JsonLog:
    """A log that writes JSON lines. An exception among the values is written as its traceback.

    An ERROR line also has the deployment's database, by which the alerts of a deployment find its lines.
    """

    def __init__(self, project: str, database: str = "") -> None:
        self._project = project
        self._deployment = {"database": database} if database else {}

    def note(self, **seconds: float) -> None:
        durations = _noted.get()
        if durations is not None:
            longest = {name: max(each, durations.get(name, each)) for name, each in seconds.items()}
            durations |= {name: round(each, 3) for name, each in longest.items()}

    def info(self, message: str, /, **values: object) -> None:
        self._write("INFO", message, values)

    def warning(self, message: str, /, **values: object) -> None:
        self._write("WARNING", message, values)

    def error(self, message: str, /, **values: object) -> None:
        self._write("ERROR", message, {**values, **self._deployment})

    def span(self, recorded: RecordedSpan) -> None:
        tracing.record(recorded)

    def _write(self, severity: str, message: str, values: Mapping[str, object]) -> None:
        entry = {name: _loggable(value) for name, value in values.items()}
        entry |= {"severity": severity, "message": message, "time": datetime.now(UTC).isoformat()} | self._trace()
        line = _encode(entry) + "\n"
        with _line_lock:
            sys.stdout.write(line)
            sys.stdout.flush()

    def _trace(self) -> dict[str, object]:
        match = _TRACEPARENT.fullmatch(_trace.get())
        if match is None:
            return {}
        return {
            "logging.googleapis.com/trace": f"projects/{self._project}/traces/{match[1]}",
            "logging.googleapis.com/spanId": match[2],
        }


FORGOTTEN = {"was never awaited": "await forgotten", NO_EFFECT: "call without effect"}
"""The messages of Python's and the kit's warnings about a call that does nothing, and the messages of their lines."""


def log_forgotten_awaits(log: JsonLog) -> None:
    """Write a line for each coroutine or call that code has created and dropped, in place of the text of a warning.

    Python shows such a warning once for each place. Other warnings stay as they are.
    """
    shown = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        kind = next((kind for text, kind in FORGOTTEN.items() if text in str(message)), None)
        if category is RuntimeWarning and kind:
            log.warning(kind, detail=f"{message}", place=f"{filename.rpartition('/')[2]}:{lineno}")
        else:
            shown(message, category, filename, lineno, file, line)

    warnings.showwarning = show


_encode = json.JSONEncoder(default=str).encode


def _loggable(value: object) -> object:
    return "".join(traceback.format_exception(value)) if isinstance(value, BaseException) else value
