"""What stands beside a link's key: the target's content, the output of a transform, or a mark with the reason.

A copy is cut where it would return to a document on its own path (``link_cycle``). A key without a document gives
``link_missing``. A transform is applied to the target as a copy shows it, with its key. If its output is not an object,
a put is refused, and a copy that is refreshed is marked ``link_transform_failed``.

A transform can carry a value round a cycle of documents and make it grow on each pass. So beyond `LIMITS.hops_max` hops
a refresh no longer changes the output of a transform: the copy is marked ``link_cycle`` instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.core.rules import keys, values
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import TransformFailed
from shared.core.rules.values import Path, same
from shared.documents.rules.documents import Content
from shared.transforms.rules import botl, transforms

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
    return {"key": copy["key"], **_cut(_without_key(output), frozenset((above, copy["key"])))}


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
    return {"key": key, **_cut(source, frozenset((above, key)))}


def _cut(value: Any, path: frozenset[str]) -> Any:
    """Return a value with every link back to a document on the path cut."""
    if isinstance(value, list):
        return [_cut_item(item, path) for item in value]
    return {name: _cut_item(item, path) for name, item in value.items()}


def _cut_item(item: Any, path: frozenset[str]) -> Any:
    if not isinstance(item, dict | list):
        return item
    if not (isinstance(item, dict) and isinstance(key := item.get("key"), str)):
        return _cut(item, path)
    if key in path:
        return {"key": key, "link_cycle": True}
    return {"key": key, **_cut(_without_key(item), path | {key})}


def _without_key(copy: Content) -> Content:
    return {name: value for name, value in copy.items() if name != "key"}
