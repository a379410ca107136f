"""Copies: what the kit stores next to a link's key, and how deep it is shown.

A copy is the target's content, the output of a transform, or a mark with the reason why neither is shown:

    link_missing           there is no document under the key
    link_cycle             the copy would lead back to a document on its own path
    link_too_deep          it is more than `LIMITS.link_levels_max` links away
    link_too_large         the document has no room for it
    link_transform_failed  the output of the transform is not an object (a put is refused instead)

So what a document shows follows from the documents within that number of links, and a change travels no further. A
transform is applied to the target as a copy shows it, with its key.

A transform can carry a value round a cycle of documents and make it grow on each pass. Therefore, more than
`LIMITS.hops_max` hops from the first change, a refresh no longer changes the output of a transform: the copy becomes
the mark ``link_cycle``.

Fitting. If the copies of a document do not all fit into it, all links are shown to the same depth, the deepest for
which there is room. The remaining room goes to the first links, in the order of their fields, each shown as deep as it
fits. Copies of this document show its copies only down to the equal depth (`complete_levels`), so what they show
depends on nothing deeper. Hence documents that embed each other in a cycle and outgrow each other have one stable
state, whatever the order of their changes: each level follows from the level above it. This requires that a deeper copy
never counts as smaller. It could be smaller, since a mark can be longer than the copy that it replaces, so a copy
counts with the size of the largest of the less deep ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeGuard

from signalbox.core import json_values, keys
from signalbox.core.json_values import same
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.records import record_values
from signalbox.core.records.record_values import Path
from signalbox.documents.limits import LIMITS
from signalbox.documents.model.contents import Content, Surveyed, field_of, without_key
from signalbox.documents.model.sizes import Size, size_of
from signalbox.transforms import machine as botl
from signalbox.transforms.problems import TransformFailed
from signalbox.transforms.requests import valid_transform_name

TOO_LARGE = "link_too_large"

TOO_LARGE_SIZE = Size(len(TOO_LARGE) + 2, 2)
"""The size of the mark `TOO_LARGE` next to a key."""

CUT_MARKS = frozenset({"link_cycle", "link_too_deep", TOO_LARGE})
"""Marks of copies whose target may have more content than the copies show."""

Sources = Mapping[str, Content | None]
"""Contents by key, read at one instant. The content of a key without a document is None."""


# --- one copy ---


@dataclass(frozen=True, slots=True)
class Embedding:
    """The inputs of copies, read at one instant: targets by key, transforms by the field that has the link.

    A value of None means that the document or the transform does not exist. Keys and fields that are absent have not
    been read.
    """

    sources: Sources
    transforms: Mapping[str, Any] = field(default_factory=dict)

    def only(self, key: str) -> "Embedding":
        """Return this embedding with `key` as its only target."""
        return Embedding({key: self.sources[key]}, self.transforms)

    def covers(self, at: Path, link: Content) -> bool:
        """Return whether both the target and the transform of a link have been read."""
        name = field_of(at)
        return link["key"] in self.sources and (name in self.transforms or not valid_transform_name(name))


def copy_at(
    at: Path, link: Content, above: str, embedding: Embedding, *, hops: int = 0, refuse: bool = False
) -> Content:
    """Return the copy for the link at a place in the document `above`, after a change `hops` links away.

    With `refuse`, raises `TransformFailed` if a transform's output is not an object.
    """
    key, transform = link["key"], embedding.transforms.get(field_of(at))
    source = embedding.sources[key] if keys.valid_key(key) else None
    if transform is None or source is None or key == above:
        return copy_of(key, source, above)
    copy = _transformed(at, copy_of(key, source, above), above, transform, refuse=refuse)
    return copy if hops <= LIMITS.hops_max or same(copy, link) else {"key": key, "link_cycle": True}


def _transformed(at: Path, copy: Content, above: str, transform: Any, *, refuse: bool) -> Content:
    try:
        output = _output(transform, copy)
    except TransformFailed as failure:
        if refuse:
            raise TransformFailed(failure.detail, field=record_values.field_name(at)) from failure
        return {"key": copy["key"], "link_transform_failed": True}
    return _nested(copy["key"], without_key(output), above)


def _output(transform: Any, copy: Content) -> Content:
    output = botl.apply(transform, copy, LIMITS.transform_output_bytes_max)
    if not isinstance(output, dict):
        raise TransformFailed("The transform of this field does not produce an object from this link's target.")
    return output


def copy_of(key: Any, source: Content | None, above: str) -> Content:
    """Return the copy of `source`, without a transform, in the document `above`."""
    if key == above:
        return {"key": key, "link_cycle": True}
    if source is None:
        return {"key": key, "link_missing": True}
    return _nested(key, source, above)


def _nested(key: Any, source: Content, above: str) -> Content:
    """Return the copy of `source`, nested no deeper than `source` shows all copies."""
    levels = complete_levels(source) + 1
    mark = TOO_LARGE if levels < LIMITS.link_levels_max else "link_too_deep"
    return cut({"key": key, **source}, above, levels, mark)


def cut(copy: Content, above: str, levels: int, mark: str) -> Content:
    """Return a copy nested to at most `levels` links, including itself, with a mark at each link that is cut."""
    if not levels:
        return {"key": copy["key"], mark: True}
    return {"key": copy["key"], **_cut(without_key(copy), frozenset((above, copy["key"])), levels - 1, mark)}


def _cut(value: Any, path: frozenset[str], levels: int, mark: str) -> Any:
    """Cut every link in a value that leads back to a document on the path, or is more than `levels` links away."""
    if isinstance(value, list):
        return [_cut_item(item, path, levels, mark) for item in value]
    return {name: _cut_item(item, path, levels, mark) for name, item in value.items()}


def _cut_item(item: Any, path: frozenset[str], levels: int, mark: str) -> Any:
    if not isinstance(item, dict | list):
        return item
    if not is_nested_link(item):
        return _cut(item, path, levels, mark)
    key = item["key"]
    if key in path:
        return {"key": key, "link_cycle": True}
    if not levels:
        return {"key": key, mark: True}
    return {"key": key, **_cut(without_key(item), path | {key}, levels - 1, mark)}


def is_nested_link(item: Any) -> TypeGuard[Content]:
    """Return whether a value inside a copy is a link of the copied document."""
    return isinstance(item, dict) and isinstance(item.get("key"), str)


# --- depth ---


def complete_levels(content: Any) -> int:
    """Return the number of levels of links down to which a content shows all copies.

    The number is at most that which a copy of the content can show.
    """
    return _complete_levels(content, LIMITS.link_levels_max - 1)


def _complete_levels(value: Any, levels_max: int) -> int:
    items = value.values() if isinstance(value, dict) else value
    nested = (item for item in items if isinstance(item, dict | list))
    return min((_levels_through(item, levels_max) for item in nested), default=levels_max)


def _levels_through(item: Any, levels_max: int) -> int:
    if not is_nested_link(item):
        return _complete_levels(item, levels_max)
    if not levels_max or is_too_large(item):
        return 0
    return 1 + _complete_levels(without_key(item), levels_max - 1)


def is_too_large(item: Any) -> bool:
    """Return whether a value is the mark of a copy for which there was no room."""
    return isinstance(item, dict) and item.keys() == {"key", TOO_LARGE} and item[TOO_LARGE] is True


def any_too_large(value: Any) -> bool:
    """Return whether a value contains a mark of a copy that did not fit, either here or in a target."""
    items = value.values() if isinstance(value, dict) else value
    return any(is_too_large(item) or any_too_large(item) for item in items if isinstance(item, dict | list))


# --- fitting ---


@dataclass(frozen=True, slots=True)
class _Step:
    """A copy cut to some number of levels of links, and the size that the copy counts as."""

    copy: Content
    counted: Size


def fits_with_any_marks(content: Surveyed) -> bool:
    """Return whether a content fits, and would also fit if any of its copies were replaced by marks."""
    marks = marks_size(_links_in(content.content))
    return marks.fits_into(content.size.room) and json_values.fits_as_stored({TOO_LARGE: content.stored})


def marks_size(links: int) -> Size:
    """Return the size of the marks at `links` links, without the links' keys."""
    return Size(links * TOO_LARGE_SIZE.bytes, links * TOO_LARGE_SIZE.index_entries)


def _links_in(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value
    return sum(
        (isinstance(item, dict) and "key" in item) + _links_in(item) for item in items if isinstance(item, dict | list)
    )


def fitted(copies: Mapping[Path, Content], above: str, room: Size) -> dict[Path, Content]:
    """Return the copies, each nested as deep as `room` allows: the size that is left after a mark at each link."""
    steps = {at: _steps(at, copy, above) for at, copy in copies.items()}
    levels = fitting_levels({at: _sizes(steps_of_copy) for at, steps_of_copy in steps.items()}, room)
    return {at: steps_of_copy[levels[at]].copy for at, steps_of_copy in steps.items()}


def fitting_levels(sizes: Mapping[Path, Sequence[Size]], room: Size) -> dict[Path, int]:
    """Return the depth to which each copy is shown (0: a mark), given its size at each depth."""
    depth = 0
    while depth < LIMITS.link_levels_max and _all_growth(sizes, depth + 1).fits_into(room):
        depth += 1
    room -= _all_growth(sizes, depth)
    chosen: dict[Path, int] = {}
    for at, steps in sizes.items():
        depths = range(depth, depth + len(steps))
        deepest = max(deeper for deeper in depths if _growth_beyond(steps, depth, deeper).fits_into(room))
        room -= _growth_beyond(steps, depth, deepest)
        chosen[at] = min(deepest, len(steps) - 1)
    return chosen


def sizes_by_depth(at: Path, copy: Content, above: str) -> tuple[Size, ...]:
    """Return the sizes that a copy counts as at each depth, beginning with its mark."""
    return _sizes(_steps(at, copy, above))


def nested_to(depth: int, at: Path, copy: Content, above: str) -> Content:
    """Return a copy nested to a depth that `fitting_levels` has chosen."""
    return _steps(at, copy, above)[depth].copy


def _sizes(steps: Iterable[_Step]) -> tuple[Size, ...]:
    return tuple(step.counted for step in steps)


def _steps(at: Path, copy: Content, above: str) -> list[_Step]:
    """Return a copy at each depth that its place allows, beginning with the copy's mark."""
    mark = {"key": copy["key"], TOO_LARGE: True}
    steps = [_Step(mark, size_of(mark))]
    for levels in range(1, LIMITS.link_levels_max + 1):
        whole = levels == LIMITS.link_levels_max or not is_nested_link(copy)
        nested = copy if whole else cut(copy, above, levels, TOO_LARGE)
        if not json_values.fits(nested, at):
            break
        steps.append(_Step(nested, size_of(nested).at_least(steps[-1].counted)))
        if same(nested, copy):
            break
    return steps


def _all_growth(sizes: Mapping[Path, Sequence[Size]], depth: int) -> Size:
    return sum((_growth(steps, depth) for steps in sizes.values()), Size())


def _growth(sizes: Sequence[Size], depth: int) -> Size:
    """Return the size that a copy takes in addition to its mark."""
    return sizes[min(depth, len(sizes) - 1)] - sizes[0]


def _growth_beyond(sizes: Sequence[Size], depth: int, deeper: int) -> Size:
    return _growth(sizes, deeper) - _growth(sizes, depth)
