"""Items: how the fields of a model lie in a document, what a request changes in them, and what a client sees.

    documents/todos~Vq3…   {"text": "buy tea", "done": false,
                            "_resource": {"name": "todos", "created": …, "modified": …,
                                          "owner": …,        of a resource in which each user sees their own
                                          "hidden": {…},     fields that are never shown
                                          "goes_with": […]}} whose deletion takes this item along

What begins with ``_`` shows in no copy of the item, wherever it is referred to. `goes_with` holds the key of each item
that a reference with ``on_delete="cascade"`` names, and the prefix of its resource's keys; one query finds all of them.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shared.core.rules.problems import FieldError, InvalidFields
from shared.documents.rules.documents import Content
from shared.resources.rules import references
from shared.resources.rules.field_types import stored_time
from shared.resources.rules.fields import Field
from shared.resources.rules.models import Model
from shared.resources.rules.references import META, SEPARATOR, key_of

Values = dict[str, Any]
"""Fields as stored, by name."""

ERRORS_MAX = 100
"""Of one answer: a list may have many wrong members."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource: its name, which begins the keys of its items, and its model. `owned`: each user sees their own."""

    name: str
    model: Model
    owned: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """An item that exists: its id, its owner if it has one, and its fields as stored."""

    id: str
    values: Values
    owner: str | None = None
    kept: Mapping[str, str] = field(default_factory=dict)


def checked(model: Model, body: Mapping[str, Any], *, is_new: bool = False) -> Values:
    """Return the fields that a request sets; unknown ones, and those a client does not set, are ignored.

    Raises `InvalidFields` with every one that is wrong or, of a new item, missing.
    """
    sent = [each for name, each in model.fields.items() if name in body and not each.is_read_only]
    wrong = [one for each in sent for one in each.errors_of(body[each.name])]
    _raise_if_any(wrong + (_missing(model, {each.name for each in sent}) if is_new else []))
    return {each.name: each.stored(body[each.name]) for each in sent}


def _missing(model: Model, names: Collection[str]) -> list[tuple[str, str]]:
    """List the required fields that a new item lacks. One that clients do not set is left to code."""
    required = [each.name for each in model.fields.values() if each.is_required and not each.is_read_only]
    return [(name, "is required") for name in required if name not in names]


def complete(model: Model, values: Values) -> Values:
    """Return the fields of a new item, with defaults. Raises `InvalidFields` for each that is required and missing."""
    _raise_if_any(_missing(model, values))
    return {name: values.get(name, _default(each)) for name, each in model.fields.items()}


def _raise_if_any(errors: list[tuple[str, str]]) -> None:
    if errors:
        raise InvalidFields.of([FieldError(*each) for each in errors[:ERRORS_MAX]])


def from_content(resource: Resource, key: str, content: Content | None) -> Item | None:
    """Return the item that a document holds, or None if it is none of this resource's."""
    meta = (content or {}).get(META)
    if content is None or not isinstance(meta, dict) or meta.get("name") != resource.name:
        return None
    hidden = meta.get("hidden")
    stored = {**content, **(hidden if isinstance(hidden, dict) else {})}
    values = {name: stored.get(name, _default(each)) for name, each in resource.model.fields.items()}
    kept = {name: str(meta.get(name)) for name in ("created", "modified")}
    return Item(references.id_of(key), values, meta.get("owner"), kept)


def _default(each: Field) -> Any:
    return None if each.is_required else each.default


def to_content(resource: Resource, values: Values, before: Item | None, owner: str | None, now: datetime) -> Content:
    """Return the document of an item with these fields. `modified` stays if they are as before."""
    time, fields = stored_time(now), resource.model.fields
    meta: dict[str, Any] = {"name": resource.name, "created": time, "modified": time}
    if before is not None:
        meta["created"] = before.kept["created"]
        meta["modified"] = before.kept["modified"] if _same(resource.model, values, before.values) else time
    hidden = {name: value for name, value in values.items() if fields[name].is_hidden}
    more = {"owner": owner, "hidden": hidden, "goes_with": sorted({*_goes_with(resource.model, values)})}
    meta |= {name: value for name, value in more.items() if value}
    return {name: value for name, value in values.items() if name not in hidden} | {META: meta}


def _same(model: Model, values: Values, before: Values) -> bool:
    return _text(model, values) == _text(model, before)


def _text(model: Model, values: Values) -> str:
    bare = {name: keys_in(value) if model.fields[name].refers_to else value for name, value in values.items()}
    return json.dumps(bare, sort_keys=True)


def _goes_with(model: Model, values: Values) -> Iterator[str]:
    for name, each in model.fields.items():
        if each.refers_to and each.refers_to.on_delete == "cascade":
            for key in keys_in(values[name]):
                yield from (key, key_of(each.refers_to.resource, ""))


def keys_in(value: Any) -> list[str]:
    """Return the keys of a stored reference, or of a list of them."""
    links = value if isinstance(value, list) else [value]
    return [link["key"] for link in links if isinstance(link, dict) and "key" in link]


def check_references(model: Model, changes: Values, targets: Mapping[str, Content | None], owner: str | None) -> None:
    """Raise `InvalidFields` for each reference that a request sets to what its owner cannot see, or is none.

    `targets` are the documents behind them by key; what is not among them is not checked.
    """
    references_set = [(each, value) for name, value in changes.items() if (each := model.fields[name]).refers_to]
    keys = [(each.name, key) for each, value in references_set for key in keys_in(value) if key in targets]
    wrong = [(name, key) for name, key in keys if not _may_refer(targets[key], key, owner)]
    _raise_if_any([(name, f"refers to {references.id_of(key)!r}, which does not exist") for name, key in wrong])


def _may_refer(target: Content | None, key: str, owner: str | None) -> bool:
    meta = (target or {}).get(META)
    is_item = isinstance(meta, dict) and meta.get("name") == key.partition(SEPARATOR)[0]
    return target is not None and is_item and references.is_visible(target, owner)


def shown(resource: Resource, item: Item) -> dict[str, Any]:
    """Return an item as clients see it."""
    values = {**item.values, **item.kept}
    fields = {each.name: _shown(each, values[each.name], item.owner) for each in resource.model.shown}
    return {"id": item.id, **fields}


def editable(model: Model, values: Values) -> dict[str, Any]:
    """Return all fields as a request would have them, hidden ones too, for code that changes them before a write."""
    return {name: references.bare(value) if model.fields[name].refers_to else value for name, value in values.items()}


def edited(model: Model, fields: Mapping[str, Any]) -> Values:
    """Return all fields as stored after such a change. Raises `InvalidFields` for each that does not fit its type."""
    _raise_if_any([wrong for name, each in model.fields.items() for wrong in each.errors_of(fields[name])])
    return {name: each.stored(fields[name]) for name, each in model.fields.items()}


def changes_between(before: Values, after: Values) -> Values:
    """Return the fields that a write changes; a reference to the same item is unchanged, whatever its copy shows."""
    return {name: value for name, value in after.items() if name not in before or not _equal(value, before[name])}


def _equal(one: Any, other: Any) -> bool:
    return one == other or bool(keys_in(one) and keys_in(one) == keys_in(other))


def _shown(each: Field, value: Any, owner: str | None) -> Any:
    return references.shown(value, owner) if each.refers_to else value
