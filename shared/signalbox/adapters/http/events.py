"""The entry points of functions that handle Firestore's events, which Eventarc delivers at least once, in any order.

An event has the record's path and its data before and after the write; a large event may be delivered without the data
(`DocumentEvent.partial`). Only a non-2xx response causes a retry: a `Problem` is acknowledged and logged as an ERROR,
all other exceptions are retried.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import flask
from google.events.cloud.firestore import DocumentEventData
from werkzeug.exceptions import HTTPException, InternalServerError, ServiceUnavailable

from signalbox.adapters import runtime
from signalbox.adapters.firestore.values import decode_fields, timestamp
from signalbox.adapters.http.request_log import entry_point, logged_request
from signalbox.adapters.logs import Headers
from signalbox.core.formats import check_record
from signalbox.core.ports import Data, DocumentEvent
from signalbox.core.problems import BadValue, Problem, Unavailable

if TYPE_CHECKING:
    from cloudevents.http import CloudEvent


EventEntryPoint = Callable[["CloudEvent"], None]

_Data = DocumentEventData.pb()


def document_written(
    function: str, *, rarely_calls_for_anything: bool = False
) -> Callable[[Callable[[DocumentEvent], None]], EventEntryPoint]:
    """Make a handler of writes the entry point of `function`.

    If an event rarely calls for anything, those that cost nothing are logged in a sample only.
    """

    def decorate(handler: Callable[[DocumentEvent], None]) -> EventEntryPoint:
        def entry(event: "CloudEvent") -> None:
            with logged_request(function, _headers(event), "event", task=str(event["id"])) as log_entry:
                log_entry.sampled_by = str(event["id"]) if rarely_calls_for_anything else ""
                try:
                    _handle(handler, event)
                except HTTPException as error:
                    log_entry.status = error.code or log_entry.status
                    raise
                log_entry.status = 200

        return entry_point(function, entry)

    return decorate


def _handle(handler: Callable[[DocumentEvent], None], event: "CloudEvent") -> None:
    try:
        handler(document_event(event.get_attributes(), event.get_data()))
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
    )


def _parse(body: bytes) -> Any:
    try:
        return _Data.FromString(body)
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
