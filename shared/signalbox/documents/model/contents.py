"""The content of a document, and the properties of it that reads and writes need: `Surveyed`.

A write of a document needs the links of its content, their keys and fields, the stored form, the size and the digest.
Each of these takes a walk over the whole content, so a `Surveyed` content keeps them. It is passed from the request to
the write, and no part is computed twice:

    request   check the stored form, which also measures it
    read      find the inputs of the links
    embed     put a copy at every link: a new content, whose links have the same places and keys
    stamp     hash the content
    write     check the size, store the stored form with the keys and fields of the links
"""

import hashlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from signalbox.core import json_values
from signalbox.core.keys import valid_key
from signalbox.core.records import record_values
from signalbox.core.records.record_values import Path
from signalbox.documents.model.sizes import Size

Content = dict[str, Any]

Link = tuple[Path, Any]
"""The place of a link in its document, and the object there."""

Copies = Mapping[Path, Content]
"""Copies by the places of their links."""


class Surveyed:
    """A content with its links, stored form, size and digest. Each of these is computed on its first use.

    The content must not change any more.
    """

    def __init__(self, content: Content) -> None:
        self.content = content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Surveyed) and self.content == other.content

    __hash__ = None  # type: ignore[assignment]  # a content is a dict

    def __repr__(self) -> str:
        return f"Surveyed({self.content!r})"

    @cached_property
    def links(self) -> list[Link]:
        """The links with their places, in a fixed order, without those inside copies."""
        return links_of(self.content)

    @cached_property
    def link_keys(self) -> list[str]:
        """The keys that the document embeds. A link whose key is not a valid key (null, a number) embeds none."""
        return sorted({link["key"] for _, link in self.links if valid_key(link["key"])})

    @cached_property
    def link_fields(self) -> list[str]:
        """The fields that have links."""
        return sorted({field_of(at) for at, _ in self.links})

    @cached_property
    def stored(self) -> dict[str, Any]:
        """The content as Firestore stores it."""
        stored: dict[str, Any] = json_values.encode(self.content)
        return stored

    @cached_property
    def fields_bytes(self) -> int:
        """The bytes of the names and values of all fields as stored."""
        return record_values.map_bytes(self.stored)

    @cached_property
    def size(self) -> Size:
        """The size of the record: the stored content, and the keys and fields of links in the reserved map."""
        keys, fields = self.link_keys, self.link_fields  # lists of texts, which are stored as they are
        in_lists = record_values.size_bytes(keys) + record_values.size_bytes(fields)
        entries = record_values.index_entries(self.stored) + len(keys) + len(fields)
        return Size((self.fields_bytes or 1) + in_lists, entries)

    @cached_property
    def digest(self) -> str:
        """A hash that equal contents share. Different contents have different hashes."""
        return digest_of(self.content)

    def check(self) -> None:
        """Raise `BadValue`, `TooDeep` or `TooLarge`, with the field's name, if a document cannot have this content."""
        self.fields_bytes = json_values.check_map(self.stored)

    def with_copies(self, copies: Copies) -> "Surveyed":
        """Return the content with copies in the places of some of its links. A copy has its link's key."""
        if not copies:
            return self
        made = Surveyed(with_copies(self.content, copies))
        made.links = [(at, copies.get(at, link)) for at, link in self.links]
        return made

    def bare(self) -> "Surveyed":
        """Return the part of the content that users wrote: links have only their keys."""
        return self.with_copies({at: {"key": link["key"]} for at, link in self.links})


def links_of(content: Content) -> list[Link]:
    """Return the links of a content with their places, in a fixed order, without those inside copies."""
    return sorted(_links_within(content, ()), key=lambda link: link[0])


def _links_within(value: Any, at: Path) -> Iterator[Link]:
    if isinstance(value, dict) and at and "key" in value:
        yield at, value
    elif isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, dict | list):
                yield from _links_within(item, (*at, step))


def field_of(at: Path) -> str:
    """Return the field that has a link. For a link in a list, return the field that has the list."""
    return next(step for step in reversed(at) if isinstance(step, str))


def with_copies(content: Content, copies: Copies) -> Content:
    """Return the content with each copy in its place. Other parts are shared with `content`, which must not change."""
    made = dict(content)
    own: dict[Path, Any] = {(): made}
    for at, copy in copies.items():
        for length in range(1, len(at)):
            if at[:length] not in own:
                own[at[:length]] = own[at[: length - 1]][at[length - 1]] = own[at[: length - 1]][at[length - 1]].copy()
        own[at[:-1]][at[-1]] = copy
    return made


def digest_of(content: Content) -> str:
    """Return a hash that equal contents share. Different contents have different hashes."""
    return hashlib.sha256(json_values.canonical(content).encode()).hexdigest()[:32]


def without_key(copy: Content) -> Content:
    """Return a copy without the key of its source."""
    return {name: value for name, value in copy.items() if name != "key"}


def value_at(value: Any, at: Path) -> Any:
    """Return the value at a place inside another."""
    for step in at:
        value = value[step]
    return value
