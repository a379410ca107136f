"""What stands beside a link's key: the target's content, the output of a transform, or a mark with the reason.

A copy is cut where it would return to a document on its own path (``link_cycle``), and below `LIMITS.link_levels_max`
links (``link_too_deep``). So what a document shows follows from the documents that many links away, and a change
travels no further. A key without a document gives ``link_missing``. A transform is applied to the target as a copy
shows it, with its key. If its output is not an object, a put is refused, and a copy that is refreshed is marked
``link_transform_failed``.

A document that has no room for all of its copies marks some ``link_too_large`` (`fitting.py`). Which, depends on what
else it holds. So a copy shows a target's own copies only down to the first level at which the target marks any: these
levels are the same wherever they are shown.

A transform can carry a value round a cycle of documents and make it grow on each pass. So beyond `LIMITS.hops_max` hops
a refresh no longer changes the output of a transform: the copy is marked ``link_cycle`` instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from shared.core.rules import keys, values
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import TransformFailed
from shared.core.rules.values import Path, same
from shared.documents.rules.documents import Content
from shared.transforms.rules import botl, transforms

CUT_MARKS = frozenset({"link_cycle", "link_too_deep", "link_too_large"})
"""Marks of copies whose target may hold more than they show."""

Sources = Mapping[str, Content | None]
"""Contents by key, as read at one instant; None: there is no document under that key."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """The inputs of copies, read at one instant: targets by key, transforms by the field that holds the link.

    None: there is none. What is not in a mapping has not been read.
    """

    sources: Sources
    transforms: Mapping[str, Any] = field(default_factory=dict)

    def only(self, key: str) -> "Embedding":
        """Return this embedding without all other targets."""
        return Embedding({key: self.sources[key]}, self.transforms)

    def covers(self, at: Path, link: Content) -> bool:
        """Return whether both the target and the transform of a link have been read."""
        name = field_of(at)
        return link["key"] in self.sources and (name in self.transforms or not transforms.valid_name(name))


def field_of(at: Path) -> str:
    """Return the field that holds a link; for a link in a list, the field that holds the list."""
    return next(step for step in reversed(at) if isinstance(step, str))


def copy_at(
    at: Path, link: Content, above: str, embedding: Embedding, *, hops: int = 0, refuse: bool = False
) -> Content:
    """Return the copy for the link at a place in the document `above`, after a change `hops` links away.

    With `refuse`, raises `TransformFailed` where a transform's output is not an object.
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
            raise TransformFailed(failure.detail, field=values.field_name(at)) from failure
        return {"key": copy["key"], "link_transform_failed": True}
    return _nested(copy["key"], _without_key(output), above)


def _output(transform: Any, copy: Content) -> Content:
    output = botl.apply(transform, copy)
    if not isinstance(output, dict):
        raise TransformFailed("The transform of this field does not produce an object from this link's target.")
    return output


def copy_of(key: Any, source: Content | None, above: str) -> Content:
    """Return the untransformed copy of `source` that stands in the document `above`."""
    if key == above:
        return {"key": key, "link_cycle": True}
    if source is None:
        return {"key": key, "link_missing": True}
    return _nested(key, source, above)


def _nested(key: Any, source: Content, above: str) -> Content:
    """Return the copy of a content, as deep as the content can show it."""
    levels = complete_levels(source) + 1
    mark = "link_too_large" if levels < LIMITS.link_levels_max else "link_too_deep"
    return cut({"key": key, **source}, above, levels, mark)


def cut(copy: Content, above: str, levels: int, mark: str) -> Content:
    """Return a copy nested to at most so many links, itself counted, with a mark at each link that is cut."""
    if not levels:
        return {"key": copy["key"], mark: True}
    return {"key": copy["key"], **_cut(_without_key(copy), frozenset((above, copy["key"])), levels - 1, mark)}


def _cut(value: Any, path: frozenset[str], levels: int, mark: str) -> Any:
    """Return a value with every link cut that leads back to a document on the path, or further than some levels."""
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
    return {"key": key, **_cut(_without_key(item), path | {key}, levels - 1, mark)}


def is_nested_link(item: Any) -> TypeGuard[Content]:
    """Return whether a value inside a copy is a link of the copied document."""
    return isinstance(item, dict) and isinstance(item.get("key"), str)


def complete_levels(content: Any) -> int:
    """Return down to how many links a content shows all copies; at most as many as a copy of it can show."""
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
    return 1 + _complete_levels(_without_key(item), levels_max - 1)


def is_too_large(item: Any) -> bool:
    """Return whether a value is the mark of a copy for which there was no room."""
    return isinstance(item, dict) and item.keys() == {"key", "link_too_large"} and item["link_too_large"] is True


def any_too_large(value: Any) -> bool:
    """Return whether a value holds the mark of a copy for which there was no room, its own or that of a target."""
    items = value.values() if isinstance(value, dict) else value
    return any(is_too_large(item) or any_too_large(item) for item in items if isinstance(item, dict | list))


def _without_key(copy: Content) -> Content:
    return {name: value for name, value in copy.items() if name != "key"}
