"""Patches: JSON merged into a document.

Objects are merged member by member, at any depth; every other value, a list too, replaces what was there. What the
patch does not name stays. The two kinds of patch differ in null alone: in a plain merge it is a value like any other,
in a merge patch of RFC 7396 it removes the member.

What stands beside a link's key belongs to the document under that key, so a patch never changes a copy:

    {"key": K}                 a link replaces what was there whole, be it a copy or an object of the user's own
    {"key": K, more}           is that link if the document shows exactly this beside the key already, else refused
    an object over a copy      is accepted if it would change nothing there, else refused

So a caller who reads a document, changes a field and sends all of it back is not refused for the copies in it. With
write-back, what would change a copy is not refused but collected, for the document under its key (`write_backs.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

from shared.core.rules import values
from shared.core.rules.problems import EditsACopy
from shared.core.rules.values import Path
from shared.documents.rules import links
from shared.documents.rules.documents import Content


class Null(Enum):
    """What null means in a patch."""

    IS_A_VALUE = "a value like any other"
    REMOVES = "the member is removed"


@dataclass(frozen=True, slots=True)
class CopyEdit:
    """What a patch would change in a copy.

    ``at`` is the patch's place; ``shown_at`` is that of the copy in the document before, None if it shows none.
    """

    at: Path
    shown_at: Path | None
    copy: Content
    patch: Content


def _refuse(edit: CopyEdit) -> NoReturn:
    source = values.canonical(edit.copy["key"])
    detail = (
        f"This is a copy of the document {source}: edit that document, send nothing beside its key, "
        "or write back with write_back=true."
    )
    raise EditsACopy(detail, field=values.field_name(edit.at))


def patched(content: Content, patch: Content, null: Null, on_edit: Callable[[CopyEdit], None] = _refuse) -> Content:
    """Return a document's content with a patch merged into it; new links have no copy yet.

    What would change a copy goes to `on_edit`, which by default raises `EditsACopy`; the copy itself stays.
    """
    return _Merge(ShownCopies(content), null, on_edit).members(content, patch, ())


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


def is_link(patch: Content, null: Null) -> bool:
    """Return whether an object of a patch is a link; where null removes, one with the key null only removes a key."""
    return "key" in patch and (patch["key"] is not None or null is Null.IS_A_VALUE)


class ShownCopies:
    """The copies that a document shows. Those of one key may differ: cut for want of room, or made by a transform."""

    def __init__(self, content: Content) -> None:
        self._copies = dict(links.links(content))
        self._places: dict[str, dict[str, Path]] = {}
        for at, copy in self._copies.items():
            self._places.setdefault(values.canonical(copy["key"]), {}).setdefault(values.canonical(copy), at)

    def seen_in(self, link: Content, at: Path, null: Null) -> tuple[Path, Content] | None:
        """Return the copy that a link in a patch goes back to, with its place, or None if the document shows none.

        That is the one at its own place, unless another of the same key shows exactly what the link holds.
        """
        text = values.canonical(link["key"])
        places = list(self._places.get(text, {}).values())
        if at in self._copies and values.canonical(self._copies[at]["key"]) == text:
            places.insert(0, at)
        found = [(place, self._copies[place]) for place in places]
        return next((one for one in found if not changes(one[1], link, null)), found[0] if found else None)


def changes(copy: Content, patch: Content, null: Null) -> bool:
    """Return whether a patch would change a copy."""
    return values.canonical(merged(copy, patch, null)) != values.canonical(copy)


@dataclass(frozen=True, slots=True)
class _Merge:
    """A merge into a document that shows these copies."""

    copies: ShownCopies
    null: Null
    on_edit: Callable[[CopyEdit], None]

    def members(self, held: Content, patch: Content, at: Path) -> Content:
        result = dict(held)
        for name, value in patch.items():
            if value is None and self.null is Null.REMOVES:
                result.pop(name, None)
            else:
                result[name] = self._value(result.get(name), value, (*at, name))
        return result

    def _value(self, held: Any, patch: Any, at: Path) -> Any:
        if isinstance(patch, list):
            for place, link in links.links({str(at[-1]): patch}):
                self._link((*at, *place[1:]), link)
        if not isinstance(patch, dict):
            return patch
        if is_link(patch, self.null):
            return self._link(at, patch)
        if isinstance(held, dict) and "key" in held:
            self._compare(CopyEdit(at, at, held, patch))
            return held
        return self.members(held if isinstance(held, dict) else {}, patch, at)

    def _link(self, at: Path, link: Content) -> Content:
        """Return a link without what stands beside its key, which is compared with the copy that the document shows."""
        if len(link) > 1 and is_link(link, self.null):
            shown_at, copy = self.copies.seen_in(link, at, self.null) or (None, {"key": link["key"]})
            self._compare(CopyEdit(at, shown_at, copy, link))
        return {"key": link["key"]}

    def _compare(self, edit: CopyEdit) -> None:
        if changes(edit.copy, edit.patch, self.null):
            self.on_edit(edit)
