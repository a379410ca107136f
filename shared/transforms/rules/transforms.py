"""A stored transform: its name, what it must be, and its record.

Its name is that of a field: it is applied to the copies under links in that field, in any document. The record holds
it as JSON text. So it comes back unchanged, nothing in it is indexed, and an object with a ``key`` in it is not a link.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from shared.core.rules import keys, values
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadKey, BadTransform, TooLarge
from shared.transforms.rules import botl

COLLECTION = "transforms"


@dataclass(frozen=True, slots=True)
class PutTransformRequest:
    """Store `transform` for the links in the field `name`."""

    name: str
    transform: Any

    @classmethod
    def from_request(cls, name: str, transform: Any) -> Self:
        """Check a name and a transform. Raises a `Problem` for what cannot be stored."""
        return cls(check_name(name), check(transform))


def path_of(name: str) -> str:
    """Return the path of a transform's record."""
    return f"{COLLECTION}/{name}"


def valid_name(name: str) -> bool:
    """Return whether a transform may have this field's name; a field `key` never holds a link."""
    return name != "key" and keys.valid_key(name)


def check_name(name: str) -> str:
    """Return the name. Raises `BadKey`."""
    if not valid_name(name):
        raise BadKey("A transform's name is a valid key other than 'key'.", field="name")
    return name


def check(transform: Any) -> Any:
    """Return the transform. Raises a `Problem` for one that cannot be stored or can never produce an object."""
    values.check(transform)
    if len(values.canonical(transform)) > LIMITS.transform_bytes_max:
        raise TooLarge(f"A transform has at most {LIMITS.transform_bytes_max:,} bytes.")
    if not botl.may_produce_an_object(transform):
        raise BadTransform("A transform must produce an object, and this one never does.")
    for at in botl.unclosed_braces(transform):
        raise BadTransform("`{{` without a closing `}}`.", field=values.field_name(at))
    return transform


def walk_task(name: str, change_id: str) -> Effect:
    """Return the task that starts a walk over the documents with links in this field, named once a change."""
    payload = {"event": change_id, "work": {"transform": name, "cursor": ""}}
    return Effect(name_of("links", change_id, "transform", name), "links", "link_refresh", "refresh", payload)


def to_record(transform: Any) -> dict[str, Any]:
    """Return the record of a transform."""
    return {"botl": json.dumps(transform)}


def from_record(data: Mapping[str, Any] | None) -> Any:
    """Return the transform of a record, or None if there is no record, or another client wrote something else in it."""
    try:
        return json.loads(data["botl"]) if data is not None else None
    except (KeyError, TypeError, ValueError):
        return None
