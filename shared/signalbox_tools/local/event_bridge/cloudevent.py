"""Convert the events of the Firestore emulator to those that Eventarc delivers in the cloud.

The emulator labels base64 text as protobuf, doubles ``projects/`` in the source, repeats the content type as a ``ce-``
header, leaves names unescaped, and reports writes that changed nothing. Eventarc sends the bare message, in
CloudEvents' binary mode (attributes as ``ce-`` headers, values percent-encoded), and only for writes that changed
something.

The update mask stays empty, as the emulator leaves it, and ``ce-time`` has whole seconds only.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from google.events.cloud.firestore import DocumentEventData
from google.protobuf.message import DecodeError

DOCUMENT_EVENT_DATA: Any = DocumentEventData.pb()
PRINTABLE = "".join(map(chr, range(0x21, 0x7F))).replace('"', "").replace("%", "")
EMULATORS_SOURCE = "//firestore.googleapis.com/projects/projects/"
CLOUDS_SOURCE = "//firestore.googleapis.com/projects/"


class NotAnEventError(ValueError):
    """The body is not one that the emulator sends."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event as it is delivered: its trigger, its headers and the protobuf message."""

    trigger: str
    headers: Mapping[str, str]
    body: bytes


def decoded(body: bytes) -> bytes:
    """Return the protobuf message in the emulator's base64 text. Raises `NotAnEventError`."""
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise NotAnEventError(f"the body is not base64: {error}") from error


def parsed(message: bytes) -> Any:
    """Parse a `DocumentEventData`. Raises `NotAnEventError`."""
    try:
        return DOCUMENT_EVENT_DATA.FromString(message)
    except DecodeError as error:
        raise NotAnEventError(f"the body is not a DocumentEventData: {error}") from error


def changed_something(data: Any) -> bool:
    """Return False for events that the cloud does not send: a write of equal content, a create and delete in one."""
    had, has = data.HasField("old_value"), data.HasField("value")
    if had and has:
        return bool(data.old_value.fields != data.value.fields)
    return bool(had or has)


def event(trigger: str, headers: Mapping[str, str], message: bytes, data: Any) -> Event:
    """Return the event that Eventarc would deliver. `headers` come from the emulator; `data` is the parsed message."""
    given = {name.lower(): value for name, value in headers.items() if name.lower().startswith("ce-")}
    given.pop("ce-datacontenttype", None)  # in binary mode the content type says it
    given["ce-source"] = given.get("ce-source", "").replace(EMULATORS_SOURCE, CLOUDS_SOURCE)
    name = (data.value if data.HasField("value") else data.old_value).name
    document = escaped(name.partition("/documents/")[2])
    given |= {"ce-document": document, "ce-subject": f"documents/{document}"}
    return Event(trigger, {**given, "content-type": "application/protobuf"}, message)


def escaped(value: str) -> str:
    """Percent-encode an attribute as CloudEvents' HTTP binding requires: space, quote, percent, non-ASCII."""
    return quote(value, safe=PRINTABLE)
