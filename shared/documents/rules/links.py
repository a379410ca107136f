"""Links and their copies: what a put embeds, what a refresh replaces.

A link is any object with a ``key`` inside a document, at any depth. What stands beside its ``key`` is the kit's: a
copy of the document under that key (see `copies.py`), as last stored, its own copies included. Nothing inside a copy is
a link of the embedding document: when the target's own targets change, the target changes first, and that change
travels on.

A copy stops where it would come back to a document on its own path, and where the embedding document would outgrow its
record (``link_too_large``). So a copy's depth is bounded by the number of documents, and since unchanged content is
never written, cycles come to rest.

The property all this serves: once no event and no task is left, every copy equals what a put now would embed.
"""

from collections.abc import Collection, Iterator, Mapping, Sized
from enum import Enum
from typing import Any

from shared.core.rules import keys, values
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import TooLarge
from shared.core.rules.values import Path, same
from shared.documents.rules import documents
from shared.documents.rules.copies import Embedding, copy_at, field_of
from shared.documents.rules.documents import Content, Document
from shared.transforms.rules import transforms


def links(content: Content) -> list[tuple[Path, Any]]:
    """List the links of a document with their places, in a fixed order; what is inside a copy does not count."""
    return sorted(_links(content, ()), key=lambda link: link[0])


def _links(value: Any, at: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and at and "key" in value:
        yield at, value
    elif isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, dict | list):
                yield from _links(item, (*at, step))


def check_count(content: Content) -> Content:
    """Give the content back. Raises `TooLarge` for more links than one read can fill."""
    _refuse_too_many(links(content))
    return content


def _refuse_too_many(found: Sized) -> None:
    if len(found) > LIMITS.links_max:
        raise TooLarge(f"A document has at most {LIMITS.links_max} links.")


def link_keys(content: Content) -> list[str]:
    """List whom a document embeds. A link to what can be no key (null, a number) embeds nobody."""
    return sorted({link["key"] for _, link in links(content) if keys.valid_key(link["key"])})


def link_fields(content: Content) -> list[str]:
    """List the fields that hold links; for a link in a list, the field that holds the list."""
    return sorted({field_of(at) for at, _ in links(content)})


def keys_in(content: Content, field: str) -> list[str]:
    """List whom the links in one field embed."""
    here = {link["key"] for at, link in links(content) if field_of(at) == field and keys.valid_key(link["key"])}
    return sorted(here)


def transformed_fields(content: Content, keys: Collection[str]) -> list[str]:
    """List the fields that hold links to these keys and that a transform may lie under."""
    fields = {field_of(at) for at, link in links(content) if isinstance(link["key"], str) and link["key"] in keys}
    return sorted(filter(transforms.valid_name, fields))


def well_listed(data: Mapping[str, Any], content: Content) -> bool:
    """Tell whether a record lists whom its content embeds, and where, so that queries find it."""
    reserved = data.get(documents.RESERVED)
    listed = reserved if isinstance(reserved, dict) else {}
    wanted = (link_keys(content), link_fields(content))
    return (listed.get("link_keys"), listed.get("link_fields")) == wanted


def size_bytes(content: Content) -> int:
    """Measure what a document's content fills of its record."""
    return documents.size_bytes(content, link_keys(content), link_fields(content))


def shape(key: str, content: Content, embedding: Embedding, hops: int = 0, *, refuse: bool = True) -> Content:
    """Embed: give the content with every link filled. Raises `TooLarge` for too many links or bytes.

    Raises `TransformFailed` where a transform makes no object, or marks that link if told not to `refuse`.

    A document must have room for a mark at each link. Where the copies need more, they are placed in the order of their
    fields as long as they fit, and the others are marked. A change that has come over more than `LIMITS.hops_max` links
    (``hops``) unmarks nothing: see there.
    """
    found = links(content)
    _refuse_too_many(found)
    marks = {at: {"key": link["key"], "link_too_large": True} for at, link in found}
    room = LIMITS.document_bytes_max - size_bytes(placed(content, marks))
    if found and room < 0:
        raise TooLarge(f"A document has at most {LIMITS.document_bytes_max:,} bytes, a mark at each link included.")
    copies = {at: copy_at(at, link, key, embedding, hops=hops, refuse=refuse) for at, link in found}
    if hops > LIMITS.hops_max:
        copies |= {at: marks[at] for at, link in found if "link_too_large" in link}
    copies |= {at: marks[at] for at, copy in copies.items() if not values.fits(copy, at)}
    return placed(content, _fitting(copies, marks, room))


def _fitting(copies: dict[Path, Content], marks: dict[Path, Content], room: int) -> dict[Path, Content]:
    """Choose between each copy and its mark, so that all of it takes at most `room` bytes more than the marks alone."""
    growth = {at: values.size_bytes(copy) - values.size_bytes(marks[at]) for at, copy in copies.items()}
    if sum(growth.values()) <= room:
        return copies
    chosen = dict(marks)
    for at, copy in copies.items():
        if growth[at] <= room:
            chosen[at] = copy
            room -= growth[at]
    return chosen


def placed(content: Content, copies: Mapping[Path, Content]) -> Content:
    """Give the content with each copy in its place."""
    return {name: _replaced(item, copies, (name,)) for name, item in content.items()}


def _replaced(value: Any, copies: Mapping[Path, Content], at: Path) -> Any:
    if at in copies:
        return copies[at]
    if isinstance(value, dict):
        return {name: _replaced(item, copies, (*at, name)) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, copies, (*at, index)) for index, item in enumerate(value)]
    return value


class Refresh(Enum):
    """What a refresh can say instead of a new content."""

    UNCHANGED = "the copies are what they should be"
    RESHAPE = "whether everything fits has to be decided with all targets at hand"


def refresh(key: str, document: Document, embedding: Embedding, hops: int = 0) -> Content | Refresh:
    """Replace a document's copies of the sources that the embedding has.

    A document that is full, that another client has written since, or that needs a transform which has not been read,
    is for `shape` to decide.
    """
    content = document.content
    found = links(content)
    stale = [(at, link) for at, link in found if keys.valid_key(link["key"]) and link["key"] in embedding.sources]
    if not document.in_shape or any("link_too_large" in link for _, link in found):
        return Refresh.RESHAPE
    if not all(embedding.knows(at, link) for at, link in stale):
        return Refresh.RESHAPE
    copies = {at: copy_at(at, link, key, embedding, hops=hops) for at, link in stale}
    if all(same(_at(content, at), copy) for at, copy in copies.items()):
        return Refresh.UNCHANGED
    refreshed = placed(content, copies)
    if size_bytes(refreshed) > LIMITS.document_bytes_max or not values.fits(refreshed):
        return Refresh.RESHAPE
    return refreshed


def _at(value: Any, at: Path) -> Any:
    for step in at:
        value = value[step]
    return value


def moved(before: Document | None, after: Document | None) -> bool:
    """Tell whether a copy of the one may be another than a copy of the other: how far it has come counts too."""
    if before is None or after is None:
        return before is not after
    return not same(before.content, after.content) or _came_far(before) != _came_far(after)


def _came_far(document: Document) -> bool:
    return documents.hops_of(document) >= LIMITS.hops_max


def failed_fields(content: Content) -> list[str]:
    """List where a transform made no object."""
    return [values.field_name(at) for at, link in links(content) if "link_transform_failed" in link]
