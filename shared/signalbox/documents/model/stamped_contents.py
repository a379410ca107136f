"""A document as a value, and its Firestore record.

The record has the user's JSON, top level as given, plus one reserved map with the kit's metadata:

    version      grows with every write of the content; unique across delete and recreate
    hops         number of links between the change that caused this write and this document; 0 for a put
    author       what wrote the content: "put" (a user's write, or a normalization) or "refresh" (a copy was updated)
    digest       hash of the content; differs if another client has written the record since
    linked       whether any document embeds this one; only a stored false means that none does
    link_keys    keys of the documents that this one embeds (one indexed query finds all that embed a key)
    link_fields  the fields that contain its links
    history      a summary of the log of its versions, if it has one (`signalbox/history/model.py`)
    large        true if the record is so large that its events may not arrive; otherwise left out

The record does not store positions of links: any nested object with a `key` is a link (`model/contents.py`).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, Self

from signalbox.core import json_values
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import NotAnObject
from signalbox.core.records import record_values
from signalbox.core.records.formats import FORMAT
from signalbox.core.times import entity_tag, microseconds
from signalbox.documents.model.contents import Content, Surveyed
from signalbox.documents.model.sizes import exceeds_events
from signalbox.documents.problems import KeyMismatch, ReservedField
from signalbox.history.model import Mark

Author = Literal["put", "refresh"]

COLLECTION = "documents"
RESERVED = "_signalbox"

_NOT_CONTENT = (RESERVED, "key")

_METADATA = ("version", "author", "digest", "hops", "linked", "large", "history", FORMAT)
METADATA_FIELDS = tuple((RESERVED, name) for name in _METADATA)
"""The fields that a put reads of the record that it replaces: the metadata without the content."""

RESOURCE_META = "_resource"
"""The field of a document with data about the resource's item in it: see `resources/model/items.py`."""

GOES_WITH = (RESOURCE_META, "goes_with")
"""The keys of the documents whose deletion also deletes this one, and ``NAME~`` of the resource of each."""

RESOURCE_SEPARATOR = "~"


WANTED = "wanted"
"""The collection of notes. A note records that some document embeds a key that has no document."""


def path_of(key: str) -> str:
    return f"{COLLECTION}/{key}"


def wanted_path(key: str) -> str:
    """Return the path of the note that some document embeds a missing key."""
    return f"{WANTED}/{key}"


# --- documents ---


@dataclass(frozen=True, slots=True)
class Stamp:
    """The kit's last write of the content: its version, its author, a digest of the content, and its hops."""

    version: int
    author: Author
    digest: str
    hops: int = 0

    @classmethod
    def from_record(cls, reserved: object) -> Self | None:
        """Return the stamp in a reserved map, or None if the map has no stamp."""
        if not isinstance(reserved, dict):
            return None
        version, author, digest, hops = map(reserved.get, ("version", "author", "digest", "hops"))
        if author not in ("put", "refresh") or not isinstance(digest, str):
            return None
        return cls(version, author, digest, hops) if isinstance(version, int) and isinstance(hops, int) else None

    def to_record(self) -> dict[str, Any]:
        return {"version": self.version, "author": self.author, "digest": self.digest, "hops": self.hops}

    @property
    def etag(self) -> str:
        """The entity tag of the stamped content. Versions and digests are never reused, so neither is a tag."""
        return f'"{self.version}-{self.digest[:16]}"'


@dataclass(frozen=True, slots=True)
class Document:
    """A document's content without its key, and the kit's metadata.

    ``stamp`` is None if another client's write has dropped the reserved map. ``linked`` is None if it is unknown.
    """

    surveyed: Surveyed
    stamp: Stamp | None = None
    linked: bool | None = None
    history: Mark | None = None

    @property
    def content(self) -> Content:
        """The content alone."""
        return self.surveyed.content

    @property
    def stamp_matches(self) -> bool:
        """Whether the kit wrote the content last."""
        return self.stamp is not None and self.stamp.digest == self.surveyed.digest

    def etag(self, update_time: datetime | None) -> str:
        """Return the entity tag of a document whose record was written at `update_time`.

        It is made from the stamp, which stays the same when only the kit's metadata changes. Content that another
        client has written has no stamp, so its tag is made from the update time.
        """
        if self.stamp is None or not self.stamp_matches:
            return entity_tag(update_time)
        return self.stamp.etag

    @classmethod
    def from_record(cls, data: Mapping[str, Any] | None) -> Self | None:
        """Return the document of a record, whichever client wrote it, or None if the record does not exist.

        Only another client can have written a field `key`. It is dropped: a document's key is its record's id.
        """
        if data is None:
            return None
        reserved = data.get(RESERVED)
        kept = reserved if isinstance(reserved, dict) else {}
        linked = kept.get("linked")
        history = Mark.from_record(kept.get("history"))
        stamp = Stamp.from_record(reserved)
        return cls(_surveyed(data), stamp, linked if isinstance(linked, bool) else None, history)

    def to_record(self) -> dict[str, Any]:
        """Return the record of a document that the kit has stamped. Raises `TooLarge` if no record can contain it."""
        assert self.stamp is not None, "the kit writes no document without a stamp"
        surveyed = self.surveyed
        surveyed.size.check("its copies")
        links = {"link_keys": surveyed.link_keys, "link_fields": surveyed.link_fields}
        metadata = {**self.stamp.to_record(), "linked": self.linked, **links}
        if self.history:
            metadata["history"] = self.history.to_record()
        record = {**surveyed.stored, RESERVED: metadata}
        if exceeds_events(record, self.record_bytes(record)):
            metadata["large"] = True
        return record

    def record_bytes(self, record: Mapping[str, Any]) -> int:
        """Return the size of the names and values in this document's record. Only the reserved map is measured."""
        return self.surveyed.fields_bytes + record_values.map_bytes({RESERVED: record[RESERVED]})


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as callers see it. `etag` changes with what `document` shows, and no two contents share one."""

    document: Content
    etag: str
    created: bool = False


def stamped(
    before: Document | None, content: Surveyed, author: Author, read_time: datetime, *, linked: bool, hops: int = 0
) -> Document:
    """Return the document after a write of `content`. Its history is that of the document before.

    Its version is unique across delete and recreate: at least the previous one plus 1, and at least the read time in
    microseconds.
    """
    previous = before.stamp.version if before and before.stamp else 0
    version = max(previous + 1, microseconds(read_time))
    stamp = Stamp(version, author, content.digest, hops)
    return Document(content, stamp, linked, before.history if before else None)


def check_body(key: str, body: Any) -> Surveyed:
    """Return the content of a document's JSON. Raises a `Problem` if it cannot be stored."""
    if not isinstance(body, dict):
        raise NotAnObject("A document is a JSON object.")
    if body.get("key", key) != key:
        raise KeyMismatch("`key` in the body must equal the key in the URL, or be left out.", field="key")
    if RESERVED in body:
        raise ReservedField(f"The field {RESERVED} is reserved.", field=RESERVED)
    content = Surveyed({name: value for name, value in body.items() if name != "key"})
    content.check()
    return content


def counts_as_linked(document: Document | None) -> bool:
    """Return whether some document may embed this one: only a stored false means that none does.

    A put keeps what is stored about the document that it replaces. A document that does not exist is not linked.
    """
    return document is not None and document.linked is not False


def hops_of(document: Document | None) -> int:
    """Return the hops of a document's last write, or 0 if they are unknown."""
    return document.stamp.hops if document and document.stamp else 0


# --- contents ---


def goes_with(content: Content) -> list[str]:
    """Return the keys of the documents whose deletion also deletes a document with this content."""
    meta = content.get(RESOURCE_META)
    keys = meta.get("goes_with") if isinstance(meta, dict) else None
    found = keys if isinstance(keys, list) else []
    return [key for key in found if isinstance(key, str) and not key.endswith(RESOURCE_SEPARATOR)]


def document_json(key: str, content: Content) -> Content:
    """Return a document as callers see it."""
    return {"key": key, **content}


def content_of(data: Mapping[str, Any] | None) -> Content | None:
    """Return the content of a record, or None if the record does not exist."""
    document = Document.from_record(data)
    return None if document is None else document.content


def contents_of(records: Iterable[Mapping[str, Any] | None]) -> list[Surveyed]:
    """Return the contents of the records that exist."""
    return [_surveyed(record) for record in records if record is not None]


def _surveyed(data: Mapping[str, Any]) -> Surveyed:
    """Return the content of a record, without the fields `key` and `RESERVED`."""
    return Surveyed(json_values.decode({name: value for name, value in data.items() if name not in _NOT_CONTENT}))


# --- sizes of events ---


def is_large(record: Mapping[str, Any] | None) -> bool:
    """Return whether an event with this record may not arrive. Only the record's metadata needs to have been read."""
    if record is None:
        return False
    reserved = record.get(RESERVED)
    return (isinstance(reserved, dict) and reserved.get("large") is True) or exceeds_events(record)
