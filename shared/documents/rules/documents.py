"""A document as a value, and its Firestore record.

The record holds the user's JSON, top level as given, plus one reserved map with the kit's metadata:

    version      grows with every write of the content; unique across delete and recreate
    hops         number of links between the change that caused this write and this document; 0 for a put
    author       what wrote the content: "put" (a user's write, or a normalization) or "refresh" (a copy was updated)
    digest       hash of the content; differs if another client has written the record since
    linked       whether any document embeds this one; only a stored false means that none does
    link_keys    keys of the documents that this one embeds (one indexed query finds all that embed a key)
    link_fields  the fields that hold its links
    history      what the log of its versions knows of it, if it has one (see `shared/history`)
    large        true if the record is so large that its events may not arrive; otherwise left out

The record does not store positions of links: any nested object with a `key` is one (see `links.py`).
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, Self

from shared.core.rules import values
from shared.core.rules.problems import KeyMismatch, NotAnObject, ReservedField, TooLarge
from shared.core.rules.times import microseconds
from shared.documents.rules import sizes
from shared.documents.rules.sizes import Size
from shared.history.rules.entries import Mark

Content = dict[str, Any]
Author = Literal["put", "refresh"]

COLLECTION = "documents"
RESERVED = "_signalbox"

_METADATA = ("version", "author", "digest", "hops", "linked", "large", "history")
METADATA_FIELDS = tuple((RESERVED, name) for name in _METADATA)
"""What a put reads of the record that it replaces: its metadata, not its content."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The kit's last write of the content: its version, its author, a digest of what was written, and its hops."""

    version: int
    author: Author
    digest: str
    hops: int = 0

    @classmethod
    def from_record(cls, reserved: object) -> Self | None:
        """Return the stamp in a reserved map, or None if it has none."""
        match reserved:
            case {
                "version": int(version),
                "author": "put" | "refresh" as author,
                "digest": str(digested),
                "hops": int(hops),
            }:
                return cls(version, author, digested, hops)
        return None

    @property
    def tag(self) -> str:
        """Return an identifier of the stamped content: versions and digests do not repeat."""
        return f"{self.version}-{self.digest[:16]}"


@dataclass(frozen=True, slots=True)
class Document:
    """A document's content without its key, and the kit's metadata.

    ``stamp`` is None when another client's write has dropped the reserved map; ``linked`` is None when it is unknown.
    """

    content: Content
    stamp: Stamp | None = None
    linked: bool | None = None
    history: Mark | None = None

    @property
    def stamp_matches(self) -> bool:
        """Return whether the content is what the kit itself wrote last."""
        return self.stamp is not None and self.stamp.digest == digest(self.content)

    @classmethod
    def from_record(cls, data: Mapping[str, Any] | None) -> Self | None:
        """Return the document of a record, whoever wrote it, or None if there is no record.

        Only another client can have written a field `key`. It is dropped: a document's key is its record's id.
        """
        if data is None:
            return None
        content = values.decode({name: value for name, value in data.items() if name not in (RESERVED, "key")})
        reserved = data.get(RESERVED)
        kept = reserved if isinstance(reserved, dict) else {}
        linked = kept.get("linked")
        history = Mark.from_record(kept.get("history"))
        return cls(content, Stamp.from_record(reserved), linked if isinstance(linked, bool) else None, history)

    def to_record(self, link_keys: list[str], link_fields: list[str]) -> dict[str, Any]:
        """Return the record of a document that the kit has stamped. Raises `TooLarge` when no record can hold it."""
        assert self.stamp is not None, "the kit writes no document without a stamp"
        if not size(self.content, link_keys, link_fields).fits_into(sizes.size_max()):
            raise TooLarge(f"A document has at most {sizes.described()}, its copies included.")
        metadata = {**asdict(self.stamp), "linked": self.linked, "link_keys": link_keys, "link_fields": link_fields}
        if self.history:
            metadata["history"] = self.history.to_record()
        record = {**values.encode(self.content), RESERVED: metadata}
        if sizes.exceeds_events(record):
            metadata["large"] = True
        return record


def is_large(record: Mapping[str, Any] | None) -> bool:
    """Return whether an event that carries a record, of which only the metadata may have been read, may not arrive."""
    if record is None:
        return False
    reserved = record.get(RESERVED)
    return (isinstance(reserved, dict) and reserved.get("large") is True) or sizes.exceeds_events(record)


def digest(content: Content) -> str:
    """Return a hash that equal contents, and only they, share."""
    return hashlib.sha256(values.canonical(content).encode()).hexdigest()[:32]


def path_of(key: str) -> str:
    """Return the path of a key's record."""
    return f"{COLLECTION}/{key}"


def check_body(key: str, body: Any) -> Content:
    """Return the content of a document's JSON. Raises a `Problem` for what cannot be stored."""
    if not isinstance(body, dict):
        raise NotAnObject("A document is a JSON object.")
    if body.get("key", key) != key:
        raise KeyMismatch("`key` in the body must equal the key in the URL, or be left out.", field="key")
    if RESERVED in body:
        raise ReservedField(f"The field {RESERVED} is reserved.", field=RESERVED)
    content = {name: value for name, value in body.items() if name != "key"}
    values.check(content)
    return content


def stamped(
    before: Document | None, content: Content, author: Author, read_time: datetime, *, linked: bool, hops: int = 0
) -> Document:
    """Return the document that a write of `content` leaves; its history is what it was.

    Its version is unique across delete and recreate: at least the previous one plus 1, and at least the read time in
    microseconds.
    """
    previous = before.stamp.version if before and before.stamp else 0
    version = max(previous + 1, microseconds(read_time))
    return Document(content, Stamp(version, author, digest(content), hops), linked, before.history if before else None)


def counts_as_linked(document: Document | None) -> bool:
    """Return whether some document may embed this one: only a stored false means that none does."""
    return document is not None and document.linked is not False


def linked_after_put(before: Document | None) -> bool:
    """Return the `linked` that a put stores: false for a new document, true where it was unknown."""
    return before is not None and before.linked is not False


def to_json(key: str, content: Content) -> Content:
    """Return a document as callers see it."""
    return {"key": key, **content}


def size(content: Content, link_keys: list[str], link_fields: list[str]) -> Size:
    """Return the size of a record: the content, and the link keys and fields in the reserved map."""
    return sizes.size_of(content) + sizes.size_of(link_keys) + sizes.size_of(link_fields)


def content_of(data: Mapping[str, Any] | None) -> Content | None:
    """Return the content of a record, or None if there is no record."""
    document = Document.from_record(data)
    return None if document is None else document.content


def contents_of(records: Iterable[Mapping[str, Any] | None]) -> list[Content]:
    """Return the contents of those records that exist."""
    return [content for data in records if (content := content_of(data)) is not None]


def hops_of(document: Document | None) -> int:
    """Return the hops of a document's last write, 0 if unknown."""
    return document.stamp.hops if document and document.stamp else 0
