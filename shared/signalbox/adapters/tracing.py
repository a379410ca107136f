"""Spans of requests, commits and runs of flows, if the environment configures them. Otherwise no exporter is imported.

A process exports spans if `OTEL_EXPORTER_OTLP_ENDPOINT` is set (docs/operations.md#traces). `signalbox.adapters.otel`
does it, with OpenTelemetry's SDK, and is imported with the first request.
"""

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from signalbox.adapters.settings import settings
from signalbox.core.effects import RecordedSpan

MISSING = (
    "No spans are exported: OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is missing. "
    "Name the packages of signalbox[otel] in the function's requirements.in and run `signalbox lock`."
)


class Span(Protocol):
    """A span that has begun. Calls inside it propagate `traceparent`, which is empty if nothing is exported."""

    traceparent: str

    def set(self, **attributes: object) -> None:
        """Set attributes. A ``status`` of 500 or more marks an error."""


class Exporter(Protocol):
    """An exporter of spans."""

    def request(self, name: str, parent: str, attributes: Mapping[str, object]) -> AbstractContextManager[Span]:
        """Return the span of a request; `parent` is a ``traceparent``, empty at the beginning of a trace."""

    def span(self, name: str, attributes: Mapping[str, object]) -> AbstractContextManager[Span]:
        """Return a span of the current request."""

    def record(self, recorded: RecordedSpan) -> None:
        """Export a span that a commit has recorded."""


class _NoSpan:
    traceparent = ""

    def set(self, **attributes: object) -> None:
        """Do nothing."""


NO_SPAN: Span = _NoSpan()

_chosen: list[Exporter | None] = []


def exporter() -> Exporter | None:
    """Return the exporter of this process's spans, or None."""
    if not _chosen:
        _chosen.append(_asked_for())
    return _chosen[0]


def bind(chosen: Exporter | None) -> None:
    """Use this exporter from now on; None: choose it by the settings again. For tests."""
    _chosen[:] = [] if chosen is None else [chosen]


def _asked_for() -> Exporter | None:
    endpoint = settings().spans_endpoint
    if not endpoint:
        return None
    try:
        from signalbox.adapters import otel
    except ImportError:
        logging.getLogger(__name__).warning(MISSING)
        return None
    return otel.connect(endpoint)


def request(name: str, parent: str, attributes: Mapping[str, object]) -> AbstractContextManager[Span]:
    """Export the span of a request. A task's span continues the trace of the request that enqueued it."""
    chosen = exporter()
    return nullcontext(NO_SPAN) if chosen is None else chosen.request(name, parent, attributes)


def span(name: str, **attributes: object) -> AbstractContextManager[Span]:
    """Return a span of the current request."""
    chosen = _chosen[0] if _chosen else None
    return nullcontext(NO_SPAN) if chosen is None else chosen.span(name, attributes)


def record(recorded: RecordedSpan) -> None:
    """Export a span that a commit has recorded."""
    if _chosen and (chosen := _chosen[0]):
        chosen.record(recorded)
