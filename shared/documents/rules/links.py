"""Links of a document: where they stand, what they embed, and what their copies look like in the end.

A link is any object with a ``key`` inside a document, at any depth. What stands beside its ``key`` belongs to the kit:
a denormalised copy of the document under that key (see `copies.py`), as last stored, its own copies included. Nothing
inside a copy is a link of the embedding document: when a target's own target changes, the target is refreshed first,
and its event refreshes the documents that embed it.

A copy is cut where it would return to a document on its own path, below a fixed number of links (``link_too_deep``),
and where the embedding document would exceed its record (``link_too_large``). What a document shows follows from the
contents of the documents within that number of links alone, and since unchanged content is never written, every fan-out
ends.

Property: once no event and no task is left, every copy equals what a put now would embed.
"""

from collections.abc import Collection, Iterator, Mapping, Sized
from typing import Any

from shared.core.rules import keys, values
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import TooLarge
from shared.core.rules.values import Path, same
from shared.documents.rules import documents, sizes
from shared.documents.rules.copies import Embedding, copy_at, field_of
from shared.documents.rules.documents import Content, Document
from shared.documents.rules.fitting import MARK, fits_with_any_marks, fitted
from shared.documents.rules.sizes import Size
from shared.transforms.rules import transforms


def links(content: Content) -> list[tuple[Path, Any]]:
    """Return the links of a document with their places, in a fixed order, without those inside copies."""
    return sorted(_links(content, ()), key=lambda link: link[0])


def _links(value: Any, at: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and at and "key" in value:
        yield at, value
    elif isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, dict | list):
                yield from _links(item, (*at, step))


def check_count(content: Content) -> Content:
    """Return the content. Raises `TooLarge` for more links than one read can embed."""
    _check_count(links(content))
    return content


def _check_count(found: Sized) -> None:
    if len(found) > LIMITS.links_max:
        raise TooLarge(f"A document has at most {LIMITS.links_max} links.")


def link_keys(content: Content) -> list[str]:
    """Return the keys that a document embeds. A link whose key is not a valid key (null, a number) embeds none."""
    return sorted({link["key"] for _, link in links(content) if keys.valid_key(link["key"])})


def link_fields(content: Content) -> list[str]:
    """Return the fields that hold links; for a link in a list, the field that holds the list."""
    return sorted({field_of(at) for at, _ in links(content)})


def keys_in(content: Content, field: str) -> list[str]:
    """Return the keys that the links in one field embed."""
    here = {link["key"] for at, link in links(content) if field_of(at) == field and keys.valid_key(link["key"])}
    return sorted(here)


def transformed_fields(content: Content, keys: Collection[str]) -> list[str]:
    """Return the fields that hold links to these keys and that a transform may apply to."""
    fields = {field_of(at) for at, link in links(content) if isinstance(link["key"], str) and link["key"] in keys}
    return sorted(filter(transforms.valid_name, fields))


def link_index_matches(data: Mapping[str, Any], content: Content) -> bool:
    """Return whether a record lists the link keys and fields of its content, so that queries find it."""
    reserved = data.get(documents.RESERVED)
    listed = reserved if isinstance(reserved, dict) else {}
    expected = (link_keys(content), link_fields(content))
    return (listed.get("link_keys"), listed.get("link_fields")) == expected


def size(content: Content) -> Size:
    """Return the size of a document's record."""
    return documents.size(content, link_keys(content), link_fields(content))


def embed_links(key: str, content: Content, embedding: Embedding, hops: int = 0, *, refuse: bool = True) -> Content:
    """Return the content with a copy at every link. Raises `TooLarge` for too many links or bytes.

    Raises `TransformFailed` where a transform's output is not an object, or marks that link if `refuse` is false.

    A document must have room for a mark at each link. If its copies need more, they are placed in the order of their
    fields as long as they fit, and the others are marked (`fitting.py`). ``hops`` counts the links to the change that
    this embedding follows: see `copy_at`.
    """
    found = links(content)
    room = room_for_copies(content)
    copies = {at: copy_at(at, link, key, embedding, hops=hops, refuse=refuse) for at, link in found}
    embedded = with_copies(content, copies)
    if not found or fits_with_any_marks(embedded, size(embedded)):
        return embedded
    return with_copies(content, fitted(copies, key, room))


def room_for_copies(content: Content) -> Size:
    """Return the size left for copies, beyond a mark at each link. Raises `TooLarge` for too many links or bytes."""
    found = links(content)
    _check_count(found)
    marks = {at: {"key": link["key"], MARK: True} for at, link in found}
    without_copies = size(with_copies(content, marks))
    if found and not without_copies.fits_into(sizes.size_max()):
        raise TooLarge(f"A document has at most {sizes.described()}, a mark at each link included.")
    return sizes.size_max() - without_copies


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
    """Return what users wrote of a content: its links with their keys only."""
    found = links(content)
    return with_copies(content, {at: {"key": link["key"]} for at, link in found}) if found else content


def copy_changed(before: Document | None, after: Document | None) -> bool:
    """Return whether copies of the two may differ: by content, or because only one of them has reached the last hop."""
    if before is None or after is None:
        return before is not after
    return not same(before.content, after.content) or _at_last_hop(before) != _at_last_hop(after)


def _at_last_hop(document: Document) -> bool:
    return documents.hops_of(document) >= LIMITS.hops_max


def failed_fields(content: Content) -> list[str]:
    """Return the places where a transform's output is not an object."""
    return [values.field_name(at) for at, link in links(content) if "link_transform_failed" in link]
