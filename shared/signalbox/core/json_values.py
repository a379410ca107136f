"""JSON values of documents: how they are compared, stored, measured and checked.

Firestore refuses a list directly inside a list. Such an inner list is stored as a map with the one name ``[]``. A
user's own map of that form (one name, made of ``[]`` only) gets one more ``[]``, so every value is read as it was
written. Sizes, levels and checks are those of `record_values`, applied to the value as stored.

Two values are the same if their canonical texts are equal. Unlike Python's ``==``, this distinguishes ``1``, ``1.0``
and ``true``.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from signalbox.core.limits import LIMITS
from signalbox.core.records import record_values
from signalbox.core.records.record_values import PATH_BYTES_MAX, Path, ValueRules, field_name

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=datetime.isoformat)
"""The encoder of canonical texts. It is created only once: `json.dumps` would create an encoder for each value, which
takes longer than encoding the value."""

_COMPACT = json.JSONEncoder(separators=(",", ":"))


_INNER_LIST = "[]"

_LIST_MARK = re.compile(r"(?:\[\])+\Z")


def json_text(value: Any) -> str:
    """Return a value's JSON: without spaces and in ASCII, so that its length is its size in bytes.

    Limits of values count these bytes, and the content of a payload consists of them.
    """
    return _COMPACT.encode(value)


def canonical(value: Any) -> str:
    """Return a value's canonical text. Equal values have the same text, and other values have different ones."""
    return _CANONICAL.encode(value)


def same(left: Any, right: Any) -> bool:
    """Return whether two values are the same JSON."""
    return canonical(left) == canonical(right)


def encode(value: Any) -> Any:
    """Return a JSON value as Firestore stores it."""
    if isinstance(value, dict):
        if len(value) == 1:
            [(name, item)] = value.items()
            return {_escaped(name): encode(item)}
        return {name: encode(item) if isinstance(item, dict | list) else item for name, item in value.items()}
    if isinstance(value, list):
        return [{_INNER_LIST: encode(item)} if isinstance(item, list) else encode(item) for item in value]
    return value


def _escaped(name: str) -> str:
    return name + _INNER_LIST if _LIST_MARK.match(name) else name


def _unescaped(name: str) -> str:
    return name.removesuffix(_INNER_LIST) if _LIST_MARK.match(name) else name


def decode(value: Any) -> Any:
    """Undo `encode`."""
    if isinstance(value, dict):
        if len(value) != 1:
            return {name: decode(item) if isinstance(item, dict | list) else item for name, item in value.items()}
        [(name, item)] = value.items()
        return decode(item) if name == _INNER_LIST else {_unescaped(name): decode(item)}
    if isinstance(value, list):
        return [decode(item) for item in value]
    return value


def size_bytes(value: Any) -> int:
    """Return the size of a value as stored."""
    return record_values.size_bytes(encode(value))


def depth(value: Any) -> int:
    """Return the number of nested maps and lists, as stored: a list in a list has a map in between."""
    return record_values.depth(encode(value))


def path_bytes(value: Any) -> int:
    """Return the size of the longest path of names into a value, as stored."""
    return record_values.path_bytes(encode(value))


def fits(value: Any, at: Path = ()) -> bool:
    """Return whether a value can be stored at a place: neither too deep nor under too long a path."""
    return fits_as_stored(encode(value), at)


def fits_as_stored(stored: Any, at: Path = ()) -> bool:
    """Return whether an encoded value can be stored at a place: neither too deep nor under too long a path."""
    place = _stored_place(at)
    # A path has one dot fewer than names.
    return (
        len(place) + record_values.depth(stored) <= LIMITS.depth_max
        and record_values.place_bytes(place) + record_values.path_bytes(stored) <= PATH_BYTES_MAX + 1
    )


def check(value: Any) -> None:
    """Raise `BadValue`, `TooDeep` or `TooLarge`, with the field's name, for a value that a document cannot hold."""
    _rules().check(encode(value), ())


def check_map(stored: Mapping[str, Any]) -> int:
    """Return the size of the names and values of an encoded object. Raises as `check` does."""
    return _rules().check_map(stored.items())


def _rules() -> ValueRules:
    return ValueRules(LIMITS.depth_max - 1, natives=False, name=_json_field_name)


def _stored_place(at: Path) -> Path:
    """Return a place as stored. A name that may be escaped counts as escaped."""
    place: Path = ()
    for step in at:
        if isinstance(step, str):
            place += (_escaped(step),)
        else:
            place += (_INNER_LIST, step) if place and isinstance(place[-1], int) else (step,)
    return place


def _json_field_name(place: Path) -> str:
    """Return the name of a stored place as the document's author wrote it."""
    steps = [
        _unescaped(step) if isinstance(step, str) else step
        for before, step in zip((None, *place), place, strict=False)
        if not (step == _INNER_LIST and isinstance(before, int))
    ]
    return field_name(tuple(steps))
