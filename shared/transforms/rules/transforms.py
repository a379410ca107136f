"""A stored transform: under which names it lies, what it must be, and its record.

Its name is a field's: it is applied to what stands under links in that field, in any document. The record holds it as
JSON text. So it comes back to the letter, nothing in it is indexed, and an object with a ``key`` in it is no link.
"""

import json
from collections.abc import Mapping
from typing import Any

from shared.core.rules import keys, values
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadKey, BadTransform, TooLarge
from shared.transforms.rules import botl

COLLECTION = "transforms"


def path_of(name: str) -> str:
    """Give the path of a transform's record."""
    return f"{COLLECTION}/{name}"


def valid_name(name: str) -> bool:
    """Tell whether a transform can lie under this field's name; a field `key` never holds a link."""
    return name != "key" and keys.valid_key(name)


def check_name(name: str) -> str:
    """Give the name back, or raise `BadKey`."""
    if not valid_name(name):
        raise BadKey("No transform can lie under this name.", field="name")
    return name


def check(transform: Any) -> Any:
    """Give the transform back. Raises a `Problem` for what cannot be stored, or could never make an object."""
    values.check(transform)
    if len(values.canonical(transform)) > LIMITS.transform_bytes_max:
        raise TooLarge(f"A transform has at most {LIMITS.transform_bytes_max:,} bytes.")
    if not botl.may_give_an_object(transform):
        raise BadTransform("A transform must produce an object, and this one never does.")
    for at in botl.unclosed_braces(transform):
        raise BadTransform("`{{` without a closing `}}`.", field=values.field_name(at))
    return transform


def walk_task(name: str, change_id: str) -> Effect:
    """Return the task that starts a walk over the documents with links in this field: once a change."""
    payload = {"event": change_id, "work": {"transform": name, "cursor": ""}}
    return Effect(name_of("links", change_id, "transform", name), "links", "link_refresh", "follow", payload)


def encode(transform: Any) -> dict[str, Any]:
    """Give the record of a transform."""
    return {"botl": json.dumps(transform)}


def decode(data: Mapping[str, Any] | None) -> Any:
    """Read a record; None: there is no transform. What another client wrote there, and is none, counts as none."""
    try:
        return json.loads(data["botl"]) if data is not None else None
    except (KeyError, TypeError, ValueError):
        return None
