"""A document as a value, and how it lies in its record.

The record holds the user's JSON, top level as given, plus one reserved map with what the kit must know:

    version      grows with every write of the content; unique even across delete and recreate
    hops         over how many links the change has come that led to this write; a put's is 0
    author       whose write it was: "put" (a user's, or bringing into shape) or "refresh" (a copy followed its source)
    digest       of the content: tells whether some other client has written it since
    linked       whether anybody embeds this document; only a stored false means nobody does
    link_keys    whom this document embeds (one indexed query finds all that embed a key)
    link_fields  the fields that hold its links

Links need no positions in the record: any object with a `key` is one (see `shared/rules/links.py`).
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from shared.core.rules import values
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import KeyMismatch, NotAnObject, ReservedField, TooLarge
from shared.core.rules.times import microseconds

Content = dict[str, Any]
Author = Literal["put", "refresh"]

COLLECTION = "documents"
RESERVED = "_signalbox"

KNOWLEDGE = tuple((RESERVED, name) for name in ("version", "author", "digest", "hops", "linked"))
"""What a put needs of the record that it replaces: where it stands, not what it holds."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who wrote the content last through the kit, what they wrote, and how far from its cause."""

    version: int
    author: Author
    digest: str
    hops: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """A document's content without its key, and the kit's knowledge of it.

    ``stamp`` is None when another client's write has dropped the reserved map; ``linked`` is None when that is unknown.
    """

    content: Content
    stamp: Stamp | None = None
    linked: bool | None = None

    @property
    def in_shape(self) -> bool:
        """Tell whether the content is what the kit itself wrote last."""
        return self.stamp is not None and self.stamp.digest == digest(self.content)


def digest(content: Content) -> str:
    """Hash a content so that equal contents, and only they, share it."""
    return hashlib.sha256(values.canonical(content).encode()).hexdigest()[:32]


def path_of(key: str) -> str:
    """Give the path of a key's record."""
    return f"{COLLECTION}/{key}"


def check_body(key: str, body: Any) -> Content:
    """Take a document's JSON as it was sent; give its content. Raises a `Problem` for what cannot be stored."""
    if not isinstance(body, dict):
        raise NotAnObject("A document is a JSON object.")
    if body.get("key", key) != key:
        raise KeyMismatch("`key` in the body must equal the key in the URL, or be left out.", field="key")
    if RESERVED in body:
        raise ReservedField(f"The field {RESERVED} belongs to the kit.", field=RESERVED)
    content = {name: value for name, value in body.items() if name != "key"}
    values.check(content)
    return content


def written(
    before: Document | None, content: Content, author: Author, read_time: datetime, *, linked: bool, hops: int = 0
) -> Document:
    """Make the document that a write leaves behind.

    A version is unique in all lives of a key: it moves on by at least one, and a new life begins with the time in
    microseconds.
    """
    previous = before.stamp.version if before and before.stamp else 0
    version = max(previous + 1, microseconds(read_time))
    return Document(content, Stamp(version, author, digest(content), hops), linked)


def counts_as_linked(document: Document | None) -> bool:
    """Only a stored false means that nobody embeds a document."""
    return document is not None and document.linked is not False


def linked_after_put(before: Document | None) -> bool:
    """Say what a put knows of `linked`: nobody embeds a new document yet; what is unknown counts as linked."""
    return before is not None and before.linked is not False


def shown(key: str, content: Content) -> Content:
    """Give a document as people see it."""
    return {"key": key, **content}


def size_bytes(content: Content, link_keys: list[str], link_fields: list[str]) -> int:
    """Measure what fills a record: the content, and whom it links to once more, in the reserved map."""
    return sum(map(values.size_bytes, (content, link_keys, link_fields)))


def encode(document: Document, link_keys: list[str], link_fields: list[str]) -> dict[str, Any]:
    """Give the record of a document that the kit has written. Raises `TooLarge` when no record can hold it."""
    assert document.stamp is not None, "the kit writes no document without its stamp"
    if size_bytes(document.content, link_keys, link_fields) > LIMITS.document_bytes_max:
        raise TooLarge(f"A document has at most {LIMITS.document_bytes_max:,} bytes, its copies included.")
    stamp = document.stamp
    reserved = {
        "version": stamp.version,
        "author": stamp.author,
        "digest": stamp.digest,
        "hops": stamp.hops,
        "linked": document.linked,
        "link_keys": link_keys,
        "link_fields": link_fields,
    }
    return {**values.encode(document.content), RESERVED: reserved}


def decode(data: Mapping[str, Any] | None) -> Document | None:
    """Read a record, whoever wrote it: what is not the kit's own counts as unknown.

    A field `key` can only be another client's. It is dropped: a document's key is its record's id, and no other.
    """
    if data is None:
        return None
    content = values.decode({name: value for name, value in data.items() if name not in (RESERVED, "key")})
    reserved = data.get(RESERVED)
    if not isinstance(reserved, dict):
        return Document(content)
    linked = reserved.get("linked")
    return Document(content, _stamp(reserved), linked if isinstance(linked, bool) else None)


def content_of(data: Mapping[str, Any] | None) -> Content | None:
    """Give what a copy of this record shows; None: there is no record."""
    document = decode(data)
    return None if document is None else document.content


def stamp_of(data: Mapping[str, Any]) -> Stamp | None:
    """Read the stamp of a record, whose content it may or may not fit."""
    reserved = data.get(RESERVED)
    return _stamp(reserved) if isinstance(reserved, dict) else None


def version_tag(stamp: Stamp) -> str:
    """Name what a stamp shows: its version is given once, and two contents never have one digest."""
    return f"{stamp.version}-{stamp.digest[:16]}"


def contents_of(records: Iterable[Mapping[str, Any] | None]) -> list[Content]:
    """Give the contents of those records that exist."""
    return [content for data in records if (content := content_of(data)) is not None]


def hops_of(document: Document | None) -> int:
    """Say over how many links the last change of a document has come."""
    return document.stamp.hops if document and document.stamp else 0


def _stamp(reserved: dict[str, Any]) -> Stamp | None:
    match reserved:
        case {
            "version": int(version),
            "author": "put" | "refresh" as author,
            "digest": str(digested),
            "hops": int(hops),
        }:
            return Stamp(version, author, digested, hops)
    return None
