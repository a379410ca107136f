"""What stands beside a link's key: the target's content, or what a transform makes of it, or a mark that says why not.

A copy stops where it would come back to a document on its own path (``link_cycle``) and where nothing lies under the
key (``link_missing``). A transform is applied to the target as a copy shows it, with its key. When it makes no object,
a put is refused, and a copy that follows its source is marked ``link_transform_failed``.

A transform can carry a value round a cycle of documents and let it grow on its way. So when a change has come over more
than `LIMITS.hops_max` links, a copy made by a transform does not change any more: it is marked ``link_cycle``.
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
"""Contents by key, as read at one instant; None: nothing lies under that key."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """What links are filled from, read at one instant: targets by key, transforms by the field that holds the link.

    None: there is none. A field that is not named has not been read.
    """

    sources: Sources
    transforms: Mapping[str, Any] = field(default_factory=dict)

    def only(self, key: str) -> "Embedding":
        """Leave out all other targets."""
        return Embedding({key: self.sources[key]}, self.transforms)

    def knows(self, at: Path, link: Content) -> bool:
        """Tell whether both that a link is filled from have been read."""
        name = field_of(at)
        return link["key"] in self.sources and (name in self.transforms or not transforms.valid_name(name))


def field_of(at: Path) -> str:
    """Name the field that holds a link; for a link in a list, the field that holds the list."""
    return next(step for step in reversed(at) if isinstance(step, str))


def copy_at(
    at: Path, link: Content, above: str, embedding: Embedding, *, hops: int = 0, refuse: bool = False
) -> Content:
    """Make the copy for the link at a place in the document `above`, over `hops` links from what changed.

    Raises `TransformFailed` if told to `refuse` what cannot be transformed.
    """
    key, transform = link["key"], embedding.transforms.get(field_of(at))
    source = embedding.sources[key] if keys.valid_key(key) else None
    if transform is None or source is None or key == above:
        return copy_of(key, source, above)
    copy = _transformed(at, copy_of(key, source, above), above, transform, refuse=refuse)
    return copy if hops <= LIMITS.hops_max or same(copy, link) else {"key": key, "link_cycle": True}


def _transformed(at: Path, copy: Content, above: str, transform: Any, *, refuse: bool) -> Content:
    try:
        made = _made(transform, copy)
    except TransformFailed as failure:
        if refuse:
            raise TransformFailed(failure.detail, field=values.field_name(at)) from failure
        return {"key": copy["key"], "link_transform_failed": True}
    return {"key": copy["key"], **_cut(_beside_key(made), frozenset((above, copy["key"])))}


def _made(transform: Any, copy: Content) -> Content:
    made = botl.apply(transform, copy)
    if not isinstance(made, dict):
        raise TransformFailed("The transform of this field makes no object of this link's target.")
    return made


def copy_of(key: Any, source: Content | None, above: str) -> Content:
    """Make the plain copy of `source` that stands in the document `above`."""
    if key == above:
        return {"key": key, "link_cycle": True}
    if source is None:
        return {"key": key, "link_missing": True}
    return {"key": key, **_cut(source, frozenset((above, key)))}


def _cut(value: Any, path: frozenset[str]) -> Any:
    """Leave out what comes back to a document on the path."""
    if isinstance(value, list):
        return [_cut_item(item, path) for item in value]
    return {name: _cut_item(item, path) for name, item in value.items()}


def _cut_item(item: Any, path: frozenset[str]) -> Any:
    if not isinstance(item, dict | list):
        return item
    if isinstance(item, dict) and isinstance(key := item.get("key"), str):
        return (
            {"key": key, "link_cycle": True} if key in path else {"key": key, **_cut(_beside_key(item), path | {key})}
        )
    return _cut(item, path)


def _beside_key(copy: Content) -> Content:
    return {name: value for name, value in copy.items() if name != "key"}
