"""References: fields that name an item of a resource. In documents they are links; in the API they are its `id`.

An item's document has the key ``RESOURCE~ID``. A client sends a reference as an id, or as an object with it, so that
it can send back what it has read; it is shown as the item's `id` and fields, which the link's copy holds. Fields whose
names begin with ``_`` are the kit's, and are not shown: neither who owns an item, nor its hidden fields.
"""

from typing import Any

from shared.core.rules.keys import valid_key
from shared.core.rules.problems import NotFound
from shared.resources.rules.field_types import FieldType

SEPARATOR = "~"
META = "_resource"
"""The field of an item's document that holds what the kit keeps about it: see `items.py`."""

SCHEMA = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "minLength": 1}}},
    ]
}


def key_of(resource: str, id_: str) -> str:
    """Return the key of an item's document."""
    return f"{resource}{SEPARATOR}{id_}"


def id_of(key: str) -> str:
    """Return the id of an item, given its document's key; that of any other document is its key."""
    resource, separator, id_ = key.partition(SEPARATOR)
    return id_ if separator and resource else key


def valid_item_id(resource: str, id_: str) -> str:
    """Return an id as an address names it. Raises `NotFound` for one that no item can have."""
    if not valid_key(key_of(resource, id_)):
        raise NotFound(f"{resource} has no item {id_[:100]!r}.", field="id")
    return id_


def reference_to(resource: str) -> FieldType:
    """Return the type of references to items of a resource."""

    def check(value: Any) -> dict[str, Any]:
        id_ = value.get("id") if isinstance(value, dict) else value
        if not isinstance(id_, str) or not id_ or not valid_key(key_of(resource, id_)):
            raise ValueError(f"must be the id of one of {resource}, or an object with it")
        return {"key": key_of(resource, id_)}

    return FieldType("reference", SCHEMA, check, check)


def shown(value: Any, owner: str | None) -> Any:
    """Return a stored reference, or what is inside its copy, as a client of this owner's items sees it."""
    if isinstance(value, list):
        return [shown(each, owner) for each in value]
    if not isinstance(value, dict):
        return value
    if not isinstance(value.get("key"), str):
        return {name: shown(each, owner) for name, each in value.items() if not name.startswith("_")}
    id_ = {"id": id_of(value["key"])}
    if not is_visible(value, owner):
        return {**id_, "link_missing": True}
    fields = {name: each for name, each in value.items() if name != "key" and not name.startswith("_")}
    return {**id_, **{name: shown(each, owner) for name, each in fields.items()}}


def is_visible(content: dict[str, Any], owner: str | None) -> bool:
    """Return whether an owner's item may show another item: one that is nobody's in particular, or this owner's."""
    meta = content.get(META)
    return not isinstance(meta, dict) or meta.get("owner") in (None, owner)


def bare(value: Any) -> Any:
    """Return a stored reference, or a list of them, as ids."""
    if isinstance(value, list):
        return [bare(each) for each in value]
    return id_of(value["key"]) if isinstance(value, dict) and "key" in value else value
