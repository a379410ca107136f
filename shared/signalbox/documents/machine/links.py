"""Links of a document: their places, the copies that they embed, and the refresh of copies whose sources changed.

A link is any object with a ``key`` inside a document, at any depth. The members next to its ``key`` belong to the kit:
they are a denormalised copy of the document under that key (`copies.py`), as it was last stored, including its own
copies. Nothing inside a copy is a link of the embedding document: when a target's own target changes, the target is
refreshed first, and the event of that write refreshes the documents that embed it.

What a document shows follows from the contents of the documents within a fixed number of links alone, and content that
has not changed is never written. So every fan-out ends.

Property: when no events and tasks are left, every copy equals what a put now would embed.
"""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

from signalbox.core.keys import valid_key
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import TooLarge
from signalbox.core.records import record_values
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine.copies import (
    TOO_LARGE,
    Embedding,
    any_too_large,
    copy_at,
    fits_with_any_marks,
    fitted,
    marks_size,
)
from signalbox.documents.model.contents import Content, Surveyed, field_of
from signalbox.documents.model.sizes import Size
from signalbox.documents.model.stamped_contents import RESERVED, Document, hops_of
from signalbox.transforms.requests import valid_transform_name

# --- links ---


def check_count(content: Surveyed) -> None:
    """Raise `TooLarge` if a content has more links than one read can embed."""
    if len(content.links) > CORE_LIMITS.links_max:
        raise TooLarge(f"A document has at most {CORE_LIMITS.links_max} links.")


def keys_in(content: Surveyed, field: str) -> list[str]:
    """Return the keys that the links in one field embed."""
    return sorted({link["key"] for at, link in content.links if field_of(at) == field and valid_key(link["key"])})


def transformed_fields(content: Surveyed, keys: Collection[str]) -> list[str]:
    """Return the fields that have links to these keys and to which a transform may apply."""
    fields = {field_of(at) for at, link in content.links if isinstance(link["key"], str) and link["key"] in keys}
    return sorted(filter(valid_transform_name, fields))


def link_index_matches(data: Mapping[str, Any], content: Surveyed) -> bool:
    """Return whether a record lists the link keys and fields of its content, so that queries find it."""
    reserved = data.get(RESERVED)
    listed = reserved if isinstance(reserved, dict) else {}
    return (listed.get("link_keys"), listed.get("link_fields")) == (content.link_keys, content.link_fields)


# --- embedding ---


def embed_links(key: str, content: Surveyed, embedding: Embedding, hops: int = 0, *, refuse: bool = True) -> Surveyed:
    """Return the content with a copy at every link. Raises `TooLarge` if it has too many links or bytes.

    If a transform's output is not an object, raises `TransformFailed`, or marks that link if `refuse` is false.

    A document must have room for a mark at each link. If its copies do not all fit, some are shown less deep or are
    marked (`copies.fitted`). `hops` is the number of links to the change that this embedding follows (`copy_at`).
    """
    if not content.links:
        return content
    check_count(content)
    if not marks_size(len(content.links)).fits_into(content.size.room):
        room_for_copies(content)  # perhaps the copies that it shows now are larger than marks
    copies = {at: copy_at(at, link, key, embedding, hops=hops, refuse=refuse) for at, link in content.links}
    embedded = content.with_copies(copies)
    if fits_with_any_marks(embedded):
        return embedded
    return content.with_copies(fitted(copies, key, room_for_copies(content)))


def room_for_copies(content: Surveyed) -> Size:
    """Return the size left for copies, after a mark at each link. Raises `TooLarge` for too many links or bytes."""
    check_count(content)
    marked = content.with_copies({at: {"key": link["key"], TOO_LARGE: True} for at, link in content.links})
    if content.links:
        marked.size.check("a mark at each link")
    return marked.size.room


def copy_changed(before: Document | None, after: Document | None) -> bool:
    """Return whether copies of the two may differ.

    They may if the contents differ, or if only one of the two has reached the last hop.
    """
    if before is None or after is None:
        return before is not after
    before_at_last_hop, after_at_last_hop = (hops_of(document) >= LIMITS.hops_max for document in (before, after))
    return before.surveyed.digest != after.surveyed.digest or before_at_last_hop != after_at_last_hop


def failed_fields(content: Surveyed) -> list[str]:
    """Return the places where a transform's output is not an object."""
    return [record_values.field_name(at) for at, link in content.links if "link_transform_failed" in link]


# --- refreshes ---


class Refresh(Enum):
    """Results of a refresh other than a new content."""

    UNCHANGED = "the copies are up to date"
    NORMALIZE = "the decision needs all targets of the document: normalize it"


def refresh_copies(key: str, document: Document, embedding: Embedding, hops: int = 0) -> Surveyed | Refresh:
    """Return a document's content with new copies of the sources in `embedding`. Nothing else changes.

    Returns `Refresh.NORMALIZE` if the document is full or nearly full, if another client has written it since, or if it
    needs a transform that has not been read.
    """
    content = document.surveyed
    stale = [(at, link) for at, link in content.links if _is_of(link, embedding)]
    if not document.stamp_matches or any_too_large(content.content):
        return Refresh.NORMALIZE
    if not all(embedding.covers(at, link) for at, link in stale):
        return Refresh.NORMALIZE
    copies = {at: copy_at(at, link, key, embedding, hops=hops) for at, link in stale}
    refreshed = content.with_copies(copies)
    if refreshed.digest == content.digest:
        return Refresh.UNCHANGED
    return refreshed if fits_with_any_marks(refreshed) else Refresh.NORMALIZE


def mark_copies(content: Surveyed, embedding: Embedding) -> Surveyed:
    """Return a document's content with a mark in place of its copies of the sources in `embedding`."""
    marks = {at: {"key": link["key"], TOO_LARGE: True} for at, link in content.links if _is_of(link, embedding)}
    return content.with_copies(marks)


def _is_of(link: Content, embedding: Embedding) -> bool:
    return valid_key(link["key"]) and link["key"] in embedding.sources
