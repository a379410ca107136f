"""Write-back: what a patch would change in a copy becomes a patch of the document under the copy's key.

    P shows {"home": {"key": "t", "city": "a", "zip": 1}}
    a patch of P      {"home": {"city": "b", "zip": 1}}
    becomes one of t  {"city": "b"}

Only what differs from the copy as P shows it goes on: a caller who sends back all that was read edits nothing by it,
not even where a copy within the copy is cut less deep, or deeper, than in t. What reaches into a copy within the copy
(`home.country.name`) goes on from t in the same way.

An edit rests on what its writer saw. So it is refused where the copy is not what t now is: a stale copy, the output of
a transform, a mark, a document that does not exist.
"""

from dataclasses import dataclass
from typing import Any

from shared.core.rules import keys, values
from shared.core.rules.problems import CannotWriteBack, Problem, StaleCopy
from shared.core.rules.values import Path, same
from shared.documents.rules import copies, links, patches
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import Content
from shared.documents.rules.patches import CopyEdit, Null, ShownCopies


@dataclass(frozen=True, slots=True)
class SourceEdit:
    """A patch of the document `key`, which a copy showed at `shown_at`; `place` is that of the edit in the request."""

    key: str
    patch: Content
    shown_at: Path
    place: Path


def merged(content: Content, patch: Content, null: Null, place: Path = ()) -> tuple[Content, list[SourceEdit]]:
    """Return a document's content with a patch merged into it, and the edits that go on to sources.

    ``place`` is where this document stands in the request. Raises `CannotWriteBack`.
    """
    found: list[SourceEdit] = []

    def on_edit(edit: CopyEdit) -> None:
        made = _source_edit(edit, null, (*place, *edit.at))
        if made.patch:
            found.append(made)

    return patches.patched(content, patch, null, on_edit), found


def all_merged(content: Content, several: list[Content], null: Null, key: str) -> Content:
    """Return a content with several patches merged into it. Raises `CannotWriteBack` if they contradict each other."""
    for patch in several:
        content = merged(content, patch, null)[0]
    if len(several) > 1 and any(not same(bare(merged(content, one, null)[0]), bare(content)) for one in several):
        raise CannotWriteBack(
            f"The document {key!r} is shown more than once here, and the edits contradict each other."
        )
    return content


def bare(content: Content) -> Content:
    """Return what users wrote of a content: its links with their keys only."""
    return links.with_copies(content, {at: {"key": link["key"]} for at, link in links.links(content)})


def _source_edit(edit: CopyEdit, null: Null, place: Path) -> SourceEdit:
    key = edit.copy["key"]
    if edit.shown_at is None:
        raise _refused("The document shows no copy of this key yet: link to it first", key, place)
    if not keys.valid_key(key):
        raise _refused("No document can have this key", key, place)
    if edit.patch.get("key", key) != key:
        raise _refused("The key of a copy cannot be removed", key, place)
    change = _change(edit.copy, edit.patch, null, place)
    return SourceEdit(key, change, edit.shown_at, place)


def _change(copy: Content, patch: Content, null: Null, place: Path) -> Content:
    """Return what of a patch would change something in a copy. Raises `CannotWriteBack` for a copy that is cut."""
    shown = without_key(copy)
    change = _Difference(ShownCopies(shown), null, place).members(shown, without_key(patch), ())
    if change and _is_cut(copy):
        raise _refused("This copy is cut: what it stands for is not shown here", copy["key"], place)
    return change


@dataclass(frozen=True, slots=True)
class _Difference:
    """What differs from a copy, which stands at a place and shows copies of its own."""

    copies: ShownCopies
    null: Null
    place: Path

    def members(self, shown: Content, patch: Content, at: Path) -> Content:
        """Return the members of a patch that differ from what is shown at a place inside the copy."""
        return {
            name: value[0]
            for name, item in patch.items()
            if (value := self._member(name in shown, shown.get(name), item, (*at, name)))
        }

    def _member(self, is_shown: bool, shown: Any, patch: Any, at: Path) -> tuple[Any, ...]:
        """Return the new value of a member, or nothing if it does not change."""
        if is_shown and same(shown, patch):
            return ()
        if isinstance(shown, dict) and isinstance(patch, dict) and not _links_anew(shown, patch, self.null):
            inside = self._inside(shown, patch, at)
            return (inside,) if inside else ()
        if not is_shown and patch is None and self.null is Null.REMOVES:
            return ()
        return (self._without_copies(patch, at),)

    def _inside(self, shown: Content, patch: Content, at: Path) -> Content:
        if not copies.is_nested_link(shown):
            return self.members(shown, patch, at)
        if patch.get("key", shown["key"]) != shown["key"]:
            raise _refused("The key of a copy cannot be removed", shown["key"], (*self.place, *at))
        change = _change(shown, patch, self.null, (*self.place, *at))
        return {"key": shown["key"], **change} if change else {}

    def _without_copies(self, value: Any, at: Path) -> Any:
        """Return a new value; of links in it that the copy shows already, only keys and what changes."""
        reduced: dict[Path, Content] = {}
        for inner, link in links.links({"value": value}):
            place = (*at, *inner[1:])
            seen = self.copies.seen_in(link, place, self.null) if copies.is_nested_link(link) else None
            if seen is not None:
                reduced[inner] = {"key": link["key"], **_change(seen[1], link, self.null, (*self.place, *place))}
        return links.with_copies({"value": value}, reduced)["value"]


def _links_anew(shown: Content, value: Content, null: Null) -> bool:
    """Return whether a value in a patch is a link to another document than what is shown."""
    return patches.is_link(value, null) and shown.get("key") != value["key"]


def check(key: str, content: Content, edit: SourceEdit, embedding: Embedding) -> None:
    """Raise a `Problem` unless an edit in the document `key` was made in a copy of what its source now holds.

    Its transforms and all targets of `content`, the document as stored, have been read at one instant with it.
    """
    check_source(edit, embedding)
    check_fresh(key, content, edit, embedding)


def check_source(edit: SourceEdit, embedding: Embedding) -> None:
    """Raise `CannotWriteBack` if an edit's source does not exist, or a transform made the copy."""
    if embedding.sources[edit.key] is None:
        raise _refused("The source does not exist", edit.key, edit.place)
    if embedding.transforms.get(copies.field_of(edit.shown_at)) is not None:
        raise _refused("A transform applies to this field, and has no way back", edit.key, edit.place)


def check_fresh(key: str, content: Content, edit: SourceEdit, embedding: Embedding) -> None:
    """Raise `StaleCopy` unless the copy that was edited is what a put now would embed."""
    try:
        now = links.embed_links(key, content, embedding, refuse=False)
    except Problem as problem:
        raise _stale(edit) from problem
    if not same(_at(now, edit.shown_at), _at(content, edit.shown_at)):
        raise _stale(edit)


def _stale(edit: SourceEdit) -> StaleCopy:
    detail = (
        f"This copy is not yet what the document {edit.key!r} now holds: read the document again, and repeat the edit."
    )
    return StaleCopy(detail, field=values.field_name(edit.place))


def _refused(reason: str, key: Any, place: Path) -> CannotWriteBack:
    return CannotWriteBack(f"{reason} (key {values.canonical(key)}).", field=values.field_name(place))


def _is_cut(copy: Content) -> bool:
    """Return whether a mark stands for the copy; a missing target is seen when it is read."""
    names = copy.keys() - {"key"}
    return len(names) == 1 and names <= copies.CUT_MARKS and all(copy[name] is True for name in names)


def _at(value: Any, at: Path) -> Any:
    for step in at:
        value = value[step]
    return value


def without_key(copy: Content) -> Content:
    return {name: value for name, value in copy.items() if name != "key"}
