"""Links of a document: their places, the copies that they embed, and the refresh of copies whose sources changed.

A link is any object with a ``key`` inside a document, at any depth. The members next to its ``key`` belong to the kit:
they are a denormalised copy of the document under that key (`copies.py`), as it was last stored, including its own
copies. Nothing inside a copy is a link of the embedding document: when a target's own target changes, the target is
refreshed first, and the event of that write refreshes the documents that embed it.

What a document shows follows from the contents of the documents within a fixed number of links alone, and content that
has not changed is never written. So every fan-out ends.

Property: when no events and tasks are left, every copy equals what a put now would embed.
"""

from collections.abc import Collection, Iterator, Mapping, Sized
from enum import Enum
from typing import Any

from signalbox.core import record_values
from signalbox.core.json_values import same
from signalbox.core.keys import valid_key
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import TooLarge
from signalbox.core.record_values import Path
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine.copies import (
    TOO_LARGE,
    Embedding,
    any_too_large,
    copy_at,
    field_of,
    fits_with_any_marks,
    fitted,
)
from signalbox.documents.model.sizes import Size, record_size, size_limits_text, size_max
from signalbox.documents.model.stamped_contents import RESERVED, Content, Document, hops_of, value_at
from signalbox.transforms.requests import valid_transform_name

# --- links ---


def links_of(content: Content) -> list[tuple[Path, Any]]:
    """Return the links of a document with their places, in a fixed order, without those inside copies."""
    return sorted(_links_within(content, ()), key=lambda link: link[0])


def _links_within(value: Any, at: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and at and "key" in value:
        yield at, value
    elif isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, dict | list):
                yield from _links_within(item, (*at, step))


def check_count(content: Content) -> Content:
    """Return the content. Raises `TooLarge` if it has more links than one read can embed."""
    _check_count(links_of(content))
    return content


def _check_count(links: Sized) -> None:
    if len(links) > CORE_LIMITS.links_max:
        raise TooLarge(f"A document has at most {CORE_LIMITS.links_max} links.")


def link_keys(content: Content) -> list[str]:
    """Return the keys that a document embeds. A link whose key is not a valid key (null, a number) embeds none."""
    return sorted({link["key"] for _, link in links_of(content) if valid_key(link["key"])})


def link_fields(content: Content) -> list[str]:
    """Return the fields that have links. For a link in a list, it is the field that has the list."""
    return sorted({field_of(at) for at, _ in links_of(content)})


def keys_in(content: Content, field: str) -> list[str]:
    """Return the keys that the links in one field embed."""
    return sorted({link["key"] for at, link in links_of(content) if field_of(at) == field and valid_key(link["key"])})


def transformed_fields(content: Content, keys: Collection[str]) -> list[str]:
    """Return the fields that have links to these keys and to which a transform may apply."""
    fields = {field_of(at) for at, link in links_of(content) if isinstance(link["key"], str) and link["key"] in keys}
    return sorted(filter(valid_transform_name, fields))


def link_index_matches(data: Mapping[str, Any], content: Content) -> bool:
    """Return whether a record lists the link keys and fields of its content, so that queries find it."""
    reserved = data.get(RESERVED)
    listed = reserved if isinstance(reserved, dict) else {}
    expected = (link_keys(content), link_fields(content))
    return (listed.get("link_keys"), listed.get("link_fields")) == expected


def document_size(content: Content) -> Size:
    """Return the size of a document's record."""
    return record_size(content, link_keys(content), link_fields(content))


# --- embedding ---


def embed_links(key: str, content: Content, embedding: Embedding, hops: int = 0, *, refuse: bool = True) -> Content:
    """Return the content with a copy at every link. Raises `TooLarge` if it has too many links or bytes.

    If a transform's output is not an object, raises `TransformFailed`, or marks that link if `refuse` is false.

    A document must have room for a mark at each link. If its copies do not all fit, some are shown less deep or are
    marked (`copies.fitted`). `hops` is the number of links to the change that this embedding follows (`copy_at`).
    """
    links = links_of(content)
    room = room_for_copies(content)
    copies = {at: copy_at(at, link, key, embedding, hops=hops, refuse=refuse) for at, link in links}
    embedded = with_copies(content, copies)
    if not links or fits_with_any_marks(embedded, document_size(embedded)):
        return embedded
    return with_copies(content, fitted(copies, key, room))


def room_for_copies(content: Content) -> Size:
    """Return the size left for copies, after a mark at each link. Raises `TooLarge` for too many links or bytes."""
    links = links_of(content)
    _check_count(links)
    marks = {at: {"key": link["key"], TOO_LARGE: True} for at, link in links}
    without_copies = document_size(with_copies(content, marks))
    if links and not without_copies.fits_into(size_max()):
        raise TooLarge(f"A document has at most {size_limits_text()}, a mark at each link included.")
    return size_max() - without_copies


def with_copies(content: Content, copies: Mapping[Path, Content]) -> Content:
    """Return the content with each copy in its place."""
    return {name: _replaced(item, copies, (name,)) for name, item in content.items()}


def _replaced(value: Any, copies: Mapping[Path, Content], at: Path) -> Any:
    if at in copies:
        return copies[at]
    if isinstance(value, dict):
        return {name: _replaced(item, copies, (*at, name)) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, copies, (*at, index)) for index, item in enumerate(value)]
    return value


def bare(content: Content) -> Content:
    """Return the part of a content that users wrote: links have only their keys."""
    links = links_of(content)
    return with_copies(content, {at: {"key": link["key"]} for at, link in links}) if links else content


def copy_changed(before: Document | None, after: Document | None) -> bool:
    """Return whether copies of the two may differ: by content, or because only one of them has reached the last hop."""
    if before is None or after is None:
        return before is not after
    return not same(before.content, after.content) or _at_last_hop(before) != _at_last_hop(after)


def _at_last_hop(document: Document) -> bool:
    return hops_of(document) >= LIMITS.hops_max


def failed_fields(content: Content) -> list[str]:
    """Return the places where a transform's output is not an object."""
    return [record_values.field_name(at) for at, link in links_of(content) if "link_transform_failed" in link]


# --- refreshes ---


class Refresh(Enum):
    """Results of a refresh other than a new content."""

    UNCHANGED = "the copies are up to date"
    NORMALIZE = "the decision needs all targets of the document: normalize it"


def refresh_copies(key: str, document: Document, embedding: Embedding, hops: int = 0) -> Content | Refresh:
    """Return a document's content with new copies of the sources in `embedding`. Nothing else changes.

    Returns `Refresh.NORMALIZE` if the document is full or nearly full, if another client has written it since, or if it
    needs a transform that has not been read.
    """
    content = document.content
    stale = [
        (at, link) for at, link in links_of(content) if valid_key(link["key"]) and link["key"] in embedding.sources
    ]
    if not document.stamp_matches or any_too_large(content):
        return Refresh.NORMALIZE
    if not all(embedding.covers(at, link) for at, link in stale):
        return Refresh.NORMALIZE
    copies = {at: copy_at(at, link, key, embedding, hops=hops) for at, link in stale}
    if all(same(value_at(content, at), copy) for at, copy in copies.items()):
        return Refresh.UNCHANGED
    refreshed = with_copies(content, copies)
    return refreshed if fits_with_any_marks(refreshed, document_size(refreshed)) else Refresh.NORMALIZE


def mark_copies(content: Content, embedding: Embedding) -> Content:
    """Return a document's content with a mark in place of its copies of the sources in `embedding`."""
    keys = ((at, link["key"]) for at, link in links_of(content))
    marks = {at: {"key": key, TOO_LARGE: True} for at, key in keys if valid_key(key) and key in embedding.sources}
    return with_copies(content, marks)
