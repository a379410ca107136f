"""A stored transform: its name, the checks before it is stored, and its record.

A transform is named after a field and applies to the copies under links in that field, in every document. The record
contains the transform as JSON text, so it is read back unchanged, Firestore indexes none of its parts, and an object in
it with a ``key`` is not a link.
"""

import json
from collections.abc import Mapping
from typing import Any

from signalbox.core.lazy_dataclasses import dataclass

TRANSFORMS = "transforms"


@dataclass(frozen=True, slots=True)
class StoredTransform:
    """A transform as callers see it. `etag` changes with every change of the transform and is never reused."""

    transform: Any
    etag: str
    created: bool = False


def transform_path(name: str) -> str:
    return f"{TRANSFORMS}/{name}"


def transform_to_record(transform: Any) -> dict[str, Any]:
    return {"botl": json.dumps(transform)}


def transform_from_record(data: Mapping[str, Any] | None) -> Any:
    """Return the transform of a record.

    Return None if there is no record, or if another client has written something else.
    """
    try:
        return json.loads(data["botl"]) if data is not None else None
    except (KeyError, TypeError, ValueError):
        return None
