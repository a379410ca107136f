"""The entry points of functions that handle Firestore's events, which Eventarc delivers at least once, in any order.

An event has the record's path and its data before and after the write; a large event may be delivered without the data
(`DocumentEvent.partial`). Only a non-2xx response causes a retry: a `Problem` is acknowledged and logged as an ERROR,
all other exceptions are retried.

The handlers of `on_document` are tasks. Their events reach `receiving_entry`, which acknowledges an event once its task
is enqueued, and no other event: an event that it cannot take stays with Eventarc, which keeps it as a dead letter.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import flask
from werkzeug.exceptions import HTTPException, InternalServerError, ServiceUnavailable

from signalbox.adapters import runtime
from signalbox.adapters.firestore.values import decode_fields, timestamp
from signalbox.adapters.http.cloud_run import calling_account
from signalbox.adapters.http.json_bodies import event_body
from signalbox.adapters.http.request_log import LogEntry, entry_point, logged_request
from signalbox.adapters.http.responses import (
    EntryPoint,
    internal_error_response,
    problem_response,
    unavailable_response,
)
from signalbox.adapters.logs import Headers
from signalbox.adapters.settings import settings
from signalbox.core.document_patterns import CREATED, DELETED, UPDATED
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import Data, DocumentEvent
from signalbox.core.problems import BadValue, MethodNotAllowed, PermissionDenied, Problem, Unavailable
from signalbox.core.records.formats import OPEN_RECORDS, check_record

if TYPE_CHECKING:
    from cloudevents.http import CloudEvent


EventEntryPoint = Callable[["CloudEvent"], None]


def document_written(
    function: str, *, rarely_calls_for_anything: bool = False
) -> Callable[[Callable[[DocumentEvent], None]], EventEntryPoint]:
    """Make a handler of writes the entry point of `function`.

    With `rarely_calls_for_anything`, only a sample of the events that cost nothing is logged.
    """

    def decorate(handler: Callable[[DocumentEvent], None]) -> EventEntryPoint:
        def entry(event: "CloudEvent") -> None:
            with logged_request(function, _headers(event), "event", task=str(event["id"])) as log_entry:
                log_entry.sampled_by = str(event["id"]) if rarely_calls_for_anything else ""
                try:
                    _handle(handler, event, log_entry)
                except HTTPException as error:
                    log_entry.status = error.code or log_entry.status
                    raise
                log_entry.status = 200

        return entry_point(function, entry)

    return decorate


def _handle(handler: Callable[[DocumentEvent], None], event: "CloudEvent", log_entry: LogEntry) -> None:
    try:
        parsed = document_event(event.get_attributes(), event.get_data())
        _mark(log_entry, parsed.update_time)
        handler(parsed)
    except Problem as problem:
        runtime.log().error("event abandoned", problem=problem.slug(), detail=problem.detail, exception=problem)
    except Unavailable as error:
        runtime.log().info("unavailable", reason=str(error))
        raise ServiceUnavailable from error
    except Exception as error:
        runtime.log().error("unhandled exception", exception=error)
        raise InternalServerError from error


def document_event(attributes: Mapping[str, Any], body: bytes | None) -> DocumentEvent:
    """Parse a CloudEvent's attributes and protobuf body.

    Raises `BadValue` if it is not an event of a record, and `NewerFormat` if this release cannot read the record.
    """
    data = _parse(body or b"")
    before, after = _held(data, "old_value"), _held(data, "value")
    path = _path(data.value.name or data.old_value.name, attributes)
    collection, _, key = path.rpartition("/")
    if path.partition("/")[0] in OPEN_RECORDS:  # in a user's collection, a field of the format's name is the user's
        for held in filter(None, (before, after)):
            check_record(path, held)
    return DocumentEvent(
        id=str(attributes["id"]),
        collection=collection,
        key=key,
        path=path,
        before=before,
        after=after,
        before_update_time=_time(data.old_value, "update_time"),
        update_time=_time(data.value, "update_time"),
        create_time=_time(data.value, "create_time"),
        kind=kind_of(str(attributes.get("type") or ""), data),
    )


# --- events whose handlers are tasks ---


EVENT_BYTES_MAX = 10 * 1024 * 1024
"""Bytes of an event's body: more than two records of 1 MiB."""


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """An event as it is received: its id, the record's path, the body, and the sides of the event that have data."""

    id: str
    path: str
    body: bytes
    kind: str
    """``created``, ``updated`` or ``deleted``, by the event's type or else by its data; empty if neither shows it."""
    written_at: datetime | None
    """The time of the commit; None for a delete, or if the event came without that time."""
    before_written_at: datetime | None = None
    """The time of the commit before; None for a creation, or if the event came without that time."""

    def arguments(self, bytes_max: int) -> dict[str, str]:
        """Return the arguments of the event's task. If they would exceed `bytes_max`, they omit the event's data."""
        text = base64.b64encode(self.body).decode()
        data = text if len(text) <= bytes_max else ""
        return {"event": self.id, "path": self.path, "data": data, "kind": self.kind}

    def sides(self) -> tuple[Data | None, Data | None]:
        """Return the record's data before and after the write. If a side that exists did not arrive, return neither."""
        event = document_event({"id": self.id, "document": quote(self.path), "type": self.kind}, self.body)
        return (None, None) if event.partial else (event.before, event.after)


def event_of_arguments(event: str, path: str, data: str, kind: str) -> DocumentEvent:
    """Return the event in a task's arguments, as `ReceivedEvent.arguments` wrote them. Raises as `document_event`."""
    return document_event({"id": event, "document": quote(path), "type": kind}, base64.b64decode(data))


INTERNAL = ("_signalbox", "_resource")
"""The fields of a document that the kit writes for itself."""

DOCUMENTS = "documents"


def without_internal(event: DocumentEvent) -> DocumentEvent:
    """Return an event without the fields that the kit writes into its documents. Other collections have none."""
    if event.collection != DOCUMENTS:
        return event
    sides = ({name: side[name] for name in side if name not in INTERNAL} if side else side for side in _sides(event))
    before, after = sides
    return replace(event, before=before, after=after)


def _sides(event: DocumentEvent) -> tuple[Data | None, Data | None]:
    return event.before, event.after


def receiving_entry(function: str, receive: Callable[[str, ReceivedEvent], None]) -> EntryPoint:
    """Return the entry point for the events of `on_document`. `receive` enqueues the task of a named handler.

    The last segment of the path names the handler. Only a response of 204 acknowledges the event: a problem is
    answered with its status, and Eventarc repeats the delivery.
    """

    def entry(request: flask.Request) -> flask.Response:
        with logged_request(function, request.headers, "event", task=request.headers.get("ce-id", "")) as log_entry:
            response = _received(request, receive, log_entry)
            log_entry.status = response.status_code
            return response

    return entry_point(function, entry)


def _received(
    request: flask.Request, receive: Callable[[str, ReceivedEvent], None], log_entry: LogEntry
) -> flask.Response:
    if request.method != "POST":
        return problem_response(MethodNotAllowed("Triggers POST.", headers={"Allow": "POST"}))
    if settings().in_cloud and (not settings().events_account or calling_account(request) != settings().events_account):
        refused = PermissionDenied("Only the triggers of this function call this address.")
        runtime.log().error("caller refused", problem=refused.slug(), detail=refused.detail)
        return problem_response(refused)
    try:
        event = received_event(request.headers, event_body(request, EVENT_BYTES_MAX))
        _mark(log_entry, event.written_at)
        receive(request.path.rstrip("/").rpartition("/")[2], event)
    except Problem as problem:
        runtime.log().error("event refused", problem=problem.slug(), detail=problem.detail, exception=problem)
        return problem_response(problem)
    except Unavailable as error:
        runtime.log().info("unavailable", reason=str(error))
        return unavailable_response(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, Eventarc must retry and the alert must fire
        runtime.log().error("unhandled exception", exception=error)
        return internal_error_response()
    return flask.Response(status=204)


def received_event(headers: Headers, body: bytes) -> ReceivedEvent:
    """Parse an event in CloudEvents' binary mode. Raises `BadValue`."""
    event_id = headers.get("ce-id", "")
    if not event_id:
        raise BadValue("The request has no header ce-id: it is not a CloudEvent.")
    data = _parse(body)
    path = _path(data.value.name or data.old_value.name, {"document": headers.get("ce-document", "")})
    times = _time(data.value, "update_time"), _time(data.old_value, "update_time")
    return ReceivedEvent(event_id, path, body, kind_of(headers.get("ce-type", ""), data), *times)


def kind_of(event_type: str, data: Any) -> str:
    """Return the kind of change: from the event's type, or else from its data, of which a side may be missing."""
    said = event_type.rpartition(".")[2]
    if said in (CREATED, UPDATED, DELETED):
        return said
    if data.HasField("old_value"):
        return UPDATED if data.HasField("value") or data.update_mask.field_paths else DELETED
    if not data.HasField("value"):
        return ""
    created, updated = _time(data.value, "create_time"), _time(data.value, "update_time")
    return UPDATED if created and updated and created < updated else CREATED


def _mark(log_entry: LogEntry, written_at: datetime | None) -> None:
    """Set the time of the commit on the event's span: Eventarc does not propagate the trace of the commit's request."""
    if written_at:
        log_entry.span.set(written_at=written_at)


def _parse(body: bytes) -> Any:
    from google.events.cloud.firestore import DocumentEventData  # an instance that gets no event starts without it

    try:
        return DocumentEventData.pb().FromString(body)
    except Exception as error:  # the class of this error differs between protobuf's implementations
        raise BadValue("The event's body is not a DocumentEventData.") from error


def _held(data: Any, which: str) -> Data | None:
    if not data.HasField(which):
        return None
    return decode_fields(getattr(data, which).fields)


def _path(name: str, attributes: Mapping[str, Any]) -> str:
    """Return the record's path: its name after ``projects/P/databases/D/documents/``, or else the event's attribute."""
    parts = name.split("/", 5)
    if len(parts) == 6:
        return parts[5]
    # CloudEvents percent-encode what travels in headers.
    path = unquote(str(attributes.get("document") or ""))
    if not path:
        raise BadValue("The event names no document.")
    return path


def _time(document: Any, which: str) -> datetime | None:
    return timestamp(getattr(document, which)) if document.HasField(which) else None


def _headers(event: "CloudEvent") -> Headers:
    if flask.has_request_context():
        return flask.request.headers
    return {"traceparent": str(event.get("traceparent") or "")}
