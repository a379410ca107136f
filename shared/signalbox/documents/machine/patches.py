"""Patches: JSON merged into a document, and edits of copies that are written back to their sources.

Objects are merged member by member, at any depth. Every other value, also a list, replaces the previous value. Members
that the patch does not name stay. The two kinds of patch differ only in null: in a plain merge it is a value like any
other, in a merge patch of RFC 7396 it removes the member.

The members next to a link's key belong to the document under that key, so a patch never changes a copy:

    {"key": K}                 a link replaces the whole previous value, whether a copy or an object of the user's own
    {"key": K, more}           is that link if the document already shows exactly these members, else it is refused
    an object over a copy      is accepted if it would change nothing there, else it is refused

So a caller who reads a document, changes a field and sends back the whole document is not refused because of the copies
in it.

Write-back. With write-back, an edit of a copy is not refused: it becomes a patch of the document under the copy's key.

    P shows {"home": {"key": "t", "city": "a", "zip": 1}}
    a patch of P      {"home": {"city": "b", "zip": 1}}
    becomes one of t  {"city": "b"}

Only the members that differ from the copy as P shows it are written back. So a caller who sends back everything that it
has read edits no source, even if a copy within the copy is cut at another depth than in t. An edit of a copy within the
copy (`home.country.name`) is written back from t in the same way.

An edit depends on what the user saw. So it is refused if the copy differs from the present t: a stale copy, the output
of a transform, a mark, a document that does not exist.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn

from signalbox.core import json_values
from signalbox.core.json_values import same
from signalbox.core.keys import valid_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import Problem
from signalbox.core.records import record_values
from signalbox.core.records.record_values import Path
from signalbox.documents.machine.copies import CUT_MARKS, Embedding, is_nested_link
from signalbox.documents.machine.links import embed_links
from signalbox.documents.model.contents import (
    Content,
    Surveyed,
    field_of,
    links_of,
    value_at,
    with_copies,
    without_key,
)
from signalbox.documents.problems import CannotWriteBack, EditsACopy, StaleCopy


class Null(Enum):
    """The meaning of null in a patch."""

    IS_A_VALUE = "a value like any other"
    REMOVES = "the member is removed"


@dataclass(frozen=True, slots=True)
class CopyEdit:
    """A change that a patch would make in a copy.

    `at` is the patch's place. `shown_at` is the place of the copy in the document before the patch, or None if it shows
    no copy.
    """

    at: Path
    shown_at: Path | None
    copy: Content
    patch: Content


@dataclass(frozen=True, slots=True)
class SourceEdit:
    """A patch of the document `key`, whose copy was shown at `shown_at`.

    `place` is the place of the edit in the request.
    """

    key: str
    patch: Content
    shown_at: Path
    place: Path


# --- merging a patch ---


def _refuse(edit: CopyEdit) -> NoReturn:
    at, copy = _edited_copy(edit.at, edit.copy, edit.patch)
    source = json_values.canonical(copy["key"])
    detail = (
        f"This is a copy of the document {source}: edit that document, send nothing but the key, "
        "or write back with write_back=true."
    )
    raise EditsACopy(detail, field=record_values.field_name(at))


def _edited_copy(at: Path, copy: Content, patch: Content) -> tuple[Path, Content]:
    """Return the innermost copy that has all changes of a patch, with its place: the copy itself, or one inside it."""
    found, shown = (at, copy), copy
    while len(changed := _changed_members(shown, patch)) == 1:
        [name] = changed
        inner, change = shown.get(name), patch[name]
        if not isinstance(inner, dict) or not isinstance(change, dict):
            break
        if is_nested_link(inner) and change.get("key", inner["key"]) != inner["key"]:
            break  # another link: an edit of the document that has the link
        at, shown, patch = (*at, name), inner, change
        found = (at, inner) if is_nested_link(inner) else found
    return found


def _changed_members(copy: Content, patch: Content) -> list[str]:
    before = {name: {name: copy[name]} if name in copy else {} for name in patch}
    return [name for name in patch if would_change(before[name], {name: patch[name]}, Null.IS_A_VALUE)]


def patched(content: Content, patch: Content, null: Null, on_edit: Callable[[CopyEdit], None] = _refuse) -> Content:
    """Return a document's content with a patch merged into it. New links have no copy yet.

    Each change in a copy is passed to `on_edit`, which by default raises `EditsACopy`. The copy itself stays.
    """
    return _Merge(ShownCopies(content), null, on_edit).members(content, patch, ())


def merged_json(target: Any, patch: Any, null: Null) -> Any:
    """Return two JSON values merged by RFC 7396, which has no links."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None and null is Null.REMOVES:
            result.pop(name, None)
        else:
            result[name] = merged_json(result.get(name), value, null)
    return result


def is_link(patch: Content, null: Null) -> bool:
    """Return whether an object of a patch is a link.

    If null removes members, ``{"key": null}`` is not a link: it only removes a key.
    """
    return "key" in patch and (patch["key"] is not None or null is Null.IS_A_VALUE)


class ShownCopies:
    """The copies that a document shows. Copies of one key may differ: one may be cut, or the output of a transform."""

    def __init__(self, content: Content) -> None:
        self._copies = dict(links_of(content))
        self._places: dict[str, dict[str, Path]] = {}
        for at, copy in self._copies.items():
            self._places.setdefault(json_values.canonical(copy["key"]), {}).setdefault(json_values.canonical(copy), at)

    def seen_in(self, link: Content, at: Path, null: Null) -> tuple[Path, Content] | None:
        """Return the copy that a link in a patch was read from, with its place, or None if the document shows no copy.

        It is the copy at the link's own place, unless another copy of the same key shows exactly the link's members.
        """
        text = json_values.canonical(link["key"])
        places = list(self._places.get(text, {}).values())
        if at in self._copies and json_values.canonical(self._copies[at]["key"]) == text:
            places.insert(0, at)
        shown = [(place, self._copies[place]) for place in places]
        unchanged = ((place, copy) for place, copy in shown if not would_change(copy, link, null))
        return next(unchanged, shown[0] if shown else None)


def would_change(copy: Content, patch: Content, null: Null) -> bool:
    """Return whether a patch would change a copy."""
    return json_values.canonical(merged_json(copy, patch, null)) != json_values.canonical(copy)


@dataclass(frozen=True, slots=True)
class _Merge:
    """A merge into a document that shows these copies."""

    copies: ShownCopies
    null: Null
    on_edit: Callable[[CopyEdit], None]

    def members(self, before: Content, patch: Content, at: Path) -> Content:
        result = dict(before)
        for name, value in patch.items():
            if value is None and self.null is Null.REMOVES:
                result.pop(name, None)
            else:
                result[name] = self._value(result.get(name), value, (*at, name))
        return result

    def _value(self, before: Any, patch: Any, at: Path) -> Any:
        if isinstance(patch, list):
            for place, link in links_of({str(at[-1]): patch}):
                self._link((*at, *place[1:]), link)
        if not isinstance(patch, dict):
            return patch
        if is_link(patch, self.null):
            return self._link(at, patch)
        if isinstance(before, dict) and "key" in before:
            self._compare(CopyEdit(at, at, before, patch))
            return before
        return self.members(before if isinstance(before, dict) else {}, patch, at)

    def _link(self, at: Path, link: Content) -> Content:
        """Return a link with its key alone.

        Its other members are first compared with the copy that the document shows.
        """
        if len(link) > 1 and is_link(link, self.null):
            shown_at, copy = self.copies.seen_in(link, at, self.null) or (None, {"key": link["key"]})
            self._compare(CopyEdit(at, shown_at, copy, link))
        return {"key": link["key"]}

    def _compare(self, edit: CopyEdit) -> None:
        if would_change(edit.copy, edit.patch, self.null):
            self.on_edit(edit)


# --- write-back ---


def merged_with_edits(
    content: Content, patch: Content, null: Null, place: Path = ()
) -> tuple[Content, list[SourceEdit]]:
    """Return a document's content with a patch merged into it, and the edits of sources that follow from the patch.

    `place` is the document's place in the request. Raises `CannotWriteBack`.
    """
    edits: list[SourceEdit] = []

    def on_edit(edit: CopyEdit) -> None:
        made = _source_edit(edit, null, (*place, *edit.at))
        if made.patch:
            edits.append(made)

    return patched(content, patch, null, on_edit), edits


def all_merged(content: Content, several: list[Content], null: Null, key: str) -> Content:
    """Return a content with several patches merged into it. Raises `CannotWriteBack` if they contradict each other."""
    for patch in several:
        content = merged_with_edits(content, patch, null)[0]
    if len(several) > 1:
        made = Surveyed(content).bare()
        again = (Surveyed(merged_with_edits(content, patch, null)[0]).bare() for patch in several)
        if any(not same(one.content, made.content) for one in again):
            raise CannotWriteBack(
                f"The document {key!r} is shown more than once here, and the edits contradict each other."
            )
    return content


def _source_edit(edit: CopyEdit, null: Null, place: Path) -> SourceEdit:
    key = edit.copy["key"]
    if edit.shown_at is None:
        raise _refused("The document shows no copy of this key yet: link to it first", key, place)
    if not valid_key(key):
        raise _refused("No document can have this key", key, place)
    if edit.patch.get("key", key) != key:
        raise _refused("The key of a copy cannot be removed", key, place)
    change = _change(edit.copy, edit.patch, null, place)
    return SourceEdit(key, change, edit.shown_at, place)


def _change(copy: Content, patch: Content, null: Null, place: Path) -> Content:
    """Return the part of a patch that would change a copy. Raises `CannotWriteBack` if the copy is cut."""
    shown = without_key(copy)
    change = _Difference(ShownCopies(shown), null, place).members(shown, without_key(patch), ())
    if change and _is_cut(copy):
        raise _refused("This copy is cut, and its source is not shown here", copy["key"], place)
    return change


@dataclass(frozen=True, slots=True)
class _Difference:
    """Finds the part of a patch at `place` that differs from a copy. `copies` are the copies inside that copy."""

    copies: ShownCopies
    null: Null
    place: Path

    def members(self, shown: Content, patch: Content, at: Path) -> Content:
        """Return the members of a patch that differ from the ones shown at a place inside the copy."""
        return {
            name: value[0]
            for name, item in patch.items()
            if (value := self._member(name in shown, shown.get(name), item, (*at, name)))
        }

    def _member(self, is_shown: bool, shown: Any, patch: Any, at: Path) -> tuple[Any, ...]:
        """Return the new value of a member, or nothing if it does not change."""
        if is_shown and same(shown, patch):
            return ()
        if isinstance(shown, dict) and isinstance(patch, dict) and not _replaces_link(shown, patch, self.null):
            inside = self._inside(shown, patch, at)
            return (inside,) if inside else ()
        if not is_shown and patch is None and self.null is Null.REMOVES:
            return ()
        return (self._without_copies(patch, at),)

    def _inside(self, shown: Content, patch: Content, at: Path) -> Content:
        if not is_nested_link(shown):
            return self.members(shown, patch, at)
        if patch.get("key", shown["key"]) != shown["key"]:
            raise _refused("The key of a copy cannot be removed", shown["key"], (*self.place, *at))
        change = _change(shown, patch, self.null, (*self.place, *at))
        return {"key": shown["key"], **change} if change else {}

    def _without_copies(self, value: Any, at: Path) -> Any:
        """Return a new value. Links that the copy already shows are reduced to their keys and the changed members."""
        reduced: dict[Path, Content] = {}
        for inner, link in links_of({"value": value}):
            place = (*at, *inner[1:])
            seen = self.copies.seen_in(link, place, self.null) if is_nested_link(link) else None
            if seen is not None:
                reduced[inner] = {"key": link["key"], **_change(seen[1], link, self.null, (*self.place, *place))}
        return with_copies({"value": value}, reduced)["value"]


def _replaces_link(shown: Content, value: Content, null: Null) -> bool:
    """Return whether a value in a patch is a link to another document than the value shown."""
    return is_link(value, null) and shown.get("key") != value["key"]


def check_edit(key: str, content: Surveyed, edit: SourceEdit, embedding: Embedding) -> None:
    """Raise a `Problem` unless an edit in the document `key` was made in an up-to-date copy of its source.

    `content` is the document as stored. `embedding` has the document's transforms and all its targets, read at the same
    instant as the document.
    """
    check_source(edit, embedding)
    check_fresh(key, content, edit, embedding)


def check_source(edit: SourceEdit, embedding: Embedding) -> None:
    """Raise `CannotWriteBack` if an edit's source does not exist, or if a transform made the copy."""
    if embedding.sources[edit.key] is None:
        raise _refused("The source does not exist", edit.key, edit.place)
    if embedding.transforms.get(field_of(edit.shown_at)) is not None:
        raise _refused("A transform applies to this field, and it cannot be reversed", edit.key, edit.place)


def check_fresh(key: str, content: Surveyed, edit: SourceEdit, embedding: Embedding) -> None:
    """Raise `StaleCopy` unless the edited copy equals the one that a put would embed now."""
    try:
        now = embed_links(key, content, embedding, refuse=False)
    except Problem as problem:
        raise _stale(edit) from problem
    if not same(value_at(now.content, edit.shown_at), value_at(content.content, edit.shown_at)):
        raise _stale(edit)


def _stale(edit: SourceEdit) -> StaleCopy:
    detail = f"This copy differs from the document {edit.key!r} as it is now: read it again and repeat the edit."
    return StaleCopy(detail, field=record_values.field_name(edit.place))


def _refused(reason: str, key: Any, place: Path) -> CannotWriteBack:
    return CannotWriteBack(f"{reason} (key {json_values.canonical(key)}).", field=record_values.field_name(place))


def _is_cut(copy: Content) -> bool:
    """Return whether a mark stands in for the copy. A missing target is noticed when it is read."""
    names = copy.keys() - {"key"}
    return len(names) == 1 and names <= CUT_MARKS and all(copy[name] is True for name in names)
