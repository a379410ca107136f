"""Firestore's events, as Eventarc posts them to a function: CloudEvents in binary mode with a protobuf body."""

from datetime import datetime
from typing import Any
from urllib.parse import quote

from google.events.cloud.firestore import DocumentEventData

from signalbox.adapters.firestore.values import fill_fields, fill_timestamp
from signalbox.core.ports import Data, DocumentEvent, Snapshot

DATABASE = "projects/demo-signalbox/databases/(default)"


def event_of(event_id: str, path: str, before: Snapshot, after: Snapshot) -> DocumentEvent:
    """Return the event of a write that the store observed."""
    collection, _, key = path.rpartition("/")
    times = (before.update_time, after.update_time, after.create_time)
    return DocumentEvent(event_id, collection, key, path, before.data, after.data, *times)


def kind_of(event: DocumentEvent) -> str:
    """Return the type of the event: created, updated or deleted."""
    if event.before is None:
        return "created"
    return "deleted" if event.after is None else "updated"


def headers_of(event: DocumentEvent) -> dict[str, str]:
    """Return the headers that carry an event's attributes."""
    return {
        "ce-specversion": "1.0",
        "ce-type": "google.cloud.firestore.document.v1.written",
        "ce-source": f"//firestore.googleapis.com/{DATABASE}",
        "ce-id": event.id,
        "ce-document": quote(event.path),
        "Content-Type": "application/protobuf",
    }


def body_of(event: DocumentEvent) -> bytes:
    """Return an event's body, without records if the event is `partial`."""
    data = DocumentEventData.pb()()
    name = f"{DATABASE}/documents/{event.path}"
    fill_record(data, "old_value", name, event.before, update_time=event.before_update_time)
    fill_record(data, "value", name, event.after, update_time=event.update_time, create_time=event.create_time)
    return bytes(data.SerializeToString())


def fill_record(data: Any, which: str, name: str, held: Data | None, **times: datetime | None) -> None:
    """Write a record's name, fields and times into one side of an event, unless the record does not exist."""
    if held is None:
        return
    document = getattr(data, which)
    document.name = name
    fill_fields(document.fields, held)
    for field, time in times.items():
        if time is not None:
            fill_timestamp(getattr(document, field), time)
