"""Items: the stored form of a resource's fields in a document, and the form that clients see.

    documents/todos~Vq3…   {"text": "buy tea", "done": false,
                            "_resource": {"name": "todos", "created": …, "modified": …,
                                          "owner": …,        if each user sees only their own items
                                          "hidden": {…},     fields that are never shown
                                          "goes_with": […]}} items whose deletion also deletes this one

Fields that begin with ``_`` are not shown in copies of the item. `goes_with` has the key of each item that a reference
with ``on_delete="cascade"`` names, and the key prefix of its resource, so one query finds all dependent items.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.documents.model.contents import Content
from signalbox.documents.model.stamped_contents import RESOURCE_META
from signalbox.resources.model import fields as resources_fields
from signalbox.resources.model.declared_models import Model
from signalbox.resources.model.fields import Field, key_of, stored_time

Values = dict[str, Any]
"""Stored fields by name."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource: its name, which is the prefix of its keys, and its model.

    If it is `owned`, users see only their own items.
    """

    name: str
    model: Model
    owned: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """A stored item: its id, its owner if it has one, its stored fields, and the times that the kit records."""

    id: str
    values: Values
    owner: str | None = None
    kept: Mapping[str, str] = field(default_factory=dict)


def from_content(resource: Resource, key: str, content: Content | None) -> Item | None:
    """Parse an item from a document. Return None if the document is not an item of this resource."""
    meta = (content or {}).get(RESOURCE_META)
    if content is None or not isinstance(meta, dict) or meta.get("name") != resource.name:
        return None
    hidden = meta.get("hidden")
    stored = {**content, **(hidden if isinstance(hidden, dict) else {})}
    values = {name: stored.get(name, default_of(field)) for name, field in resource.model.fields.items()}
    kept = {name: str(meta.get(name)) for name in ("created", "modified")}
    return Item(resources_fields.id_of(key), values, meta.get("owner"), kept)


def default_of(field: Field) -> Any:
    return None if field.is_required else field.default


def to_content(resource: Resource, values: Values, before: Item | None, owner: str | None, now: datetime) -> Content:
    """Return the document of an item. `modified` changes only if the item's fields change."""
    time, fields = stored_time(now), resource.model.fields
    meta: dict[str, Any] = {"name": resource.name, "created": time, "modified": time}
    if before is not None:
        meta["created"] = before.kept["created"]
        meta["modified"] = before.kept["modified"] if _same(resource.model, values, before.values) else time
    hidden = {name: value for name, value in values.items() if fields[name].is_hidden}
    more = {"owner": owner, "hidden": hidden, "goes_with": sorted({*_goes_with(resource.model, values)})}
    meta |= {name: value for name, value in more.items() if value}
    return {name: value for name, value in values.items() if name not in hidden} | {RESOURCE_META: meta}


def _same(model: Model, values: Values, before: Values) -> bool:
    return _text(model, values) == _text(model, before)


def _text(model: Model, values: Values) -> str:
    bare = {name: keys_in(value) if model.fields[name].refers_to else value for name, value in values.items()}
    return json.dumps(bare, sort_keys=True)


def _goes_with(model: Model, values: Values) -> Iterator[str]:
    for name, declared in model.fields.items():
        if declared.refers_to and declared.refers_to.on_delete == "cascade":
            for key in keys_in(values[name]):
                yield from (key, key_of(declared.refers_to.resource, ""))


def keys_in(value: Any) -> list[str]:
    """Return the keys of a stored reference, or of a list of references."""
    links = value if isinstance(value, list) else [value]
    return [link["key"] for link in links if isinstance(link, dict) and "key" in link]


def shown(resource: Resource, item: Item) -> dict[str, Any]:
    """Return an item as clients see it."""
    values = {**item.values, **item.kept}
    fields = {field.name: _shown(field, values[field.name], item.owner) for field in resource.model.shown}
    return {"id": item.id, **fields}


def editable(model: Model, values: Values) -> dict[str, Any]:
    """Return all fields, including hidden ones, in the form of a request. Hooks can change them."""
    return {
        name: resources_fields.as_ids(value) if model.fields[name].refers_to else value
        for name, value in values.items()
    }


def _shown(field: Field, value: Any, owner: str | None) -> Any:
    return resources_fields.shown_reference(value, owner) if field.refers_to else value
