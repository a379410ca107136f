"""OpenTelemetry's SDK as an exporter of spans. Only `signalbox.adapters.tracing` imports it, if spans are configured.

The ids of a recorded span follow from its key by a hash. So a commit whose answer was lost, or a turn that another
process repeats, exports the same span again instead of a second one.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_tracer_provider,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from signalbox.adapters.settings import served_name, settings
from signalbox.core.effects import RecordedSpan, span_id
from signalbox.core.times import rfc3339

SCOPE = "signalbox"
GOOGLE_ENDPOINT = "telemetry.googleapis.com"
FLUSH_MILLISECONDS = 2_000
"""How long a request in the cloud waits for the export of its spans: without a request, an instance has no CPU time."""


class OpenTelemetry:
    """An exporter of spans by a processor of OpenTelemetry's SDK. With `flushes`, every request exports at its end.

    The sampler and the attributes of the resource come from OpenTelemetry's environment variables.
    """

    def __init__(self, processor: SpanProcessor, *, flushes: bool = False) -> None:
        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, "unknown")).startswith("unknown"):
            resource = resource.merge(Resource({SERVICE_NAME: served_name() or SCOPE}))
        self.provider = TracerProvider(resource=resource)
        self.provider.add_span_processor(processor)
        self._processor, self._flushes = processor, flushes
        self._tracer = self.provider.get_tracer(SCOPE)

    @contextmanager
    def request(self, name: str, parent: str, attributes: Mapping[str, object]) -> Iterator["OpenSpan"]:
        """Return the span of a request; `parent` is a ``traceparent``, empty at the beginning of a trace."""
        context = TraceContextTextMapPropagator().extract({"traceparent": parent}, Context())
        kind = SpanKind.CONSUMER if attributes.get("task") else SpanKind.SERVER
        try:
            with self._tracer.start_as_current_span(name, context, kind, _attributes(attributes)) as span:
                yield OpenSpan(span)
        finally:
            if self._flushes:
                self.provider.force_flush(FLUSH_MILLISECONDS)

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, object]) -> Iterator["OpenSpan"]:
        """Return a span of the current request."""
        with self._tracer.start_as_current_span(name, kind=SpanKind.CLIENT, attributes=_attributes(attributes)) as span:
            yield OpenSpan(span)

    def record(self, recorded: RecordedSpan) -> None:
        """Export a span that a commit has recorded, with a link to the request that made the commit."""
        trace_id = span_id(recorded.trace, 16)
        if self.provider.sampler.should_sample(Context(), trace_id, recorded.name).decision is Decision.DROP:
            return
        request = get_current_span().get_span_context()
        linked = [_context(trace, key) for trace, key in recorded.links]
        span = ReadableSpan(
            recorded.name,
            _context(recorded.trace, recorded.key),
            _context(recorded.trace, recorded.parent) if recorded.parent else None,
            self.provider.resource,
            _attributes(recorded.attributes),
            links=[Link(context) for context in (request, *linked) if context.is_valid],
            status=Status(StatusCode.ERROR, recorded.error) if recorded.error else Status(),
            start_time=_nanoseconds(recorded.started_at),
            end_time=_nanoseconds(recorded.ended_at),
            instrumentation_scope=InstrumentationScope(SCOPE),
        )
        self._processor.on_end(span)


class OpenSpan:
    """A span that has begun."""

    def __init__(self, span: Span) -> None:
        self._span, context = span, span.get_span_context()
        self.traceparent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def set(self, **attributes: object) -> None:
        """Set attributes. A ``status`` of 500 or more marks an error."""
        self._span.set_attributes(_attributes(attributes))
        status = attributes.get("status")
        if isinstance(status, int) and status >= 500:
            self._span.set_status(StatusCode.ERROR)


def connect(endpoint: str) -> OpenTelemetry:
    """Return an exporter to `endpoint`, which the SDK also reads from the environment. It also exports users' spans."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter = OTLPSpanExporter(session=_google_session()) if is_google(endpoint) else OTLPSpanExporter()
    exporting = OpenTelemetry(BatchSpanProcessor(exporter), flushes=settings().in_cloud)
    set_tracer_provider(exporting.provider)
    return exporting


def is_google(endpoint: str) -> bool:
    """Return whether an endpoint is Cloud Trace's, which needs a token of the function's account."""
    return urlsplit(endpoint).hostname == GOOGLE_ENDPOINT


def _google_session() -> Any:
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/trace.append"])
    return AuthorizedSession(credentials)


def _context(trace: str, key: str) -> SpanContext:
    return SpanContext(span_id(trace, 16), span_id(key, 8), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1_000


def _attributes(values: Mapping[str, object]) -> dict[str, str | bool | int | float]:
    """Return attributes with the prefix of the kit, and other types as text. Lists are left out: they can be long."""
    return {f"signalbox.{name}": _attribute(value) for name, value in values.items() if not isinstance(value, list)}


def _attribute(value: object) -> str | bool | int | float:
    if isinstance(value, datetime):
        return rfc3339(value)
    return value if isinstance(value, str | bool | int | float) else str(value)
