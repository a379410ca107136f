"""A stored transform: its name, the checks before it is stored, and its record.

A transform is named after a field and applies to the copies under links in that field, in every document. The record
contains the transform as JSON text, so it is read back unchanged, Firestore indexes none of its parts, and an object in
it with a ``key`` is not a link.
"""

import json
from collections.abc import Mapping
from typing import Any, Self

from signalbox.core import json_values, keys, record_values
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import BadKey, TooLarge
from signalbox.transforms import machine
from signalbox.transforms.limits import LIMITS
from signalbox.transforms.problems import BadTransform

TRANSFORMS = "transforms"


@dataclass(frozen=True, slots=True)
class PutTransformRequest:
    """A request to store `transform` for the links in the field `name`."""

    name: str
    transform: Any

    @classmethod
    def from_request(cls, name: str, transform: Any) -> Self:
        """Check a name and a transform. Raises a `Problem` if the transform cannot be stored."""
        return cls(check_transform_name(name), check_transform(transform))


@dataclass(frozen=True, slots=True)
class StoredTransform:
    """A transform as callers see it. `etag` changes with every change of the transform and is never reused."""

    transform: Any
    etag: str
    created: bool = False


def transform_path(name: str) -> str:
    return f"{TRANSFORMS}/{name}"


def valid_transform_name(name: str) -> bool:
    """Return whether a transform may have this name: any field but `key`, which never contains a link."""
    return name != "key" and keys.valid_key(name)


def check_transform_name(name: str) -> str:
    """Return the name. Raises `BadKey`."""
    if not valid_transform_name(name):
        raise BadKey("A transform's name is a valid key other than 'key'.", field="name")
    return name


def check_transform(transform: Any) -> Any:
    """Return the transform. Raises a `Problem` if it cannot be stored or can never produce an object."""
    json_values.check(transform)
    if len(json_values.canonical(transform)) > LIMITS.transform_bytes_max:
        raise TooLarge(f"A transform has at most {LIMITS.transform_bytes_max:,} bytes.")
    if not machine.may_produce_an_object(transform):
        raise BadTransform("A transform must produce an object, and this one never does.")
    for at in machine.unclosed_braces(transform):
        raise BadTransform("`{{` without a closing `}}`.", field=record_values.field_name(at))
    return transform


def transform_to_record(transform: Any) -> dict[str, Any]:
    return {"botl": json.dumps(transform)}


def transform_from_record(data: Mapping[str, Any] | None) -> Any:
    """Return the transform of a record. It is None without a record, and where another client wrote something else."""
    try:
        return json.loads(data["botl"]) if data is not None else None
    except (KeyError, TypeError, ValueError):
        return None
