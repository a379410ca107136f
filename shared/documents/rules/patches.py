"""Patches: JSON merged into a document.

Objects are merged member by member, at any depth; every other value, a list too, replaces what was there. What the
patch does not name stays. The two kinds of patch differ in null alone: in a plain merge it is a value like any other,
in a merge patch of RFC 7396 it removes the member.

What stands beside a link's key belongs to the document under that key, so a patch never changes a copy:

    {"key": K}                 a link replaces what was there whole, be it a copy or an object of the user's own
    {"key": K, more}           is that link if the document shows exactly this beside the key already, else refused
    an object over a copy      is accepted if it would change nothing there, else refused

So a caller who reads a document, changes a field and sends all of it back is not refused for the copies in it.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from shared.core.rules import values
from shared.core.rules.problems import EditsACopy
from shared.core.rules.values import Path
from shared.documents.rules import links
from shared.documents.rules.documents import Content

Copies = Mapping[str, Content]
"""A document's copies by the canonical texts of their keys, for a link's key may be any JSON value."""


class Null(Enum):
    """What null means in a patch."""

    IS_A_VALUE = "a value like any other"
    REMOVES = "the member is removed"


def patched(content: Content, patch: Content, null: Null) -> Content:
    """Return a document's content with a patch merged into it; new links have no copy yet. Raises `EditsACopy`."""
    copies = {values.canonical(link["key"]): link for _, link in links.links(content)}
    for at, link in links.links(patch):
        _check_beside(at, link, copies, null)
    return _members(content, patch, null, ())


def merged(target: Any, patch: Any, null: Null) -> Any:
    """Return two JSON values merged by RFC 7396, which has no links."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None and null is Null.REMOVES:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value, null)
    return result


def _members(held: Content, patch: Content, null: Null, at: Path) -> Content:
    result = dict(held)
    for name, value in patch.items():
        if value is None and null is Null.REMOVES:
            result.pop(name, None)
        else:
            result[name] = _value(result.get(name), value, null, (*at, name))
    return result


def _value(held: Any, patch: Any, null: Null, at: Path) -> Any:
    if not isinstance(patch, dict):
        return patch
    if _is_link(patch, null):
        return {"key": patch["key"]}
    if isinstance(held, dict) and "key" in held:
        return _unchanged(held, patch, null, at)
    return _members(held if isinstance(held, dict) else {}, patch, null, at)


def _is_link(patch: Content, null: Null) -> bool:
    """Return whether an object of a patch is a link; where null removes, one with the key null only removes a key."""
    return "key" in patch and (patch["key"] is not None or null is Null.IS_A_VALUE)


def _check_beside(at: Path, link: Content, copies: Copies, null: Null) -> None:
    if not _is_link(link, null) or len(link) == 1:
        return
    _unchanged(copies.get(values.canonical(link["key"]), {"key": link["key"]}), link, null, at)


def _unchanged(copy: Content, patch: Content, null: Null, at: Path) -> Content:
    """Return a copy in which a patch would change nothing. Raises `EditsACopy` if it would."""
    if values.canonical(merged(copy, patch, null)) == values.canonical(copy):
        return copy
    source = values.canonical(copy["key"])
    detail = f"This is a copy of the document {source}: edit that document, or send nothing beside its key."
    raise EditsACopy(detail, field=values.field_name(at))
