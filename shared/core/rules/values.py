"""JSON values as the kit compares, measures and stores them.

Firestore refuses a list directly inside a list. Such an inner list is stored as a map with the one key ``[]``, and a
user's own map that looks like that (one key, made of ``[]`` only) gets one more ``[]``, so that every value comes
back as it went in.

Two values are the same if their canonical texts are: unlike Python's ``==``, that tells ``1``, ``1.0`` and ``true``
apart.
"""

import json
import re
from datetime import datetime
from itertools import pairwise
from typing import Any

from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadValue, TooDeep

Path = tuple[str | int, ...]

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=datetime.isoformat)
"""Made once: `json.dumps` would make one for each value, at twice the price of writing it."""

_LIST_MARK = re.compile(r"(?:\[\])+\Z")
_RESERVED_NAME = re.compile(r"__.*__\Z", re.DOTALL)
_INTEGERS = range(-(2**63), 2**63)
_FIELD_BYTES_MAX = 1_500
_INNER_LIST_BYTES = 3
"""The key of the map around a list that stands in a list."""


def canonical(value: Any) -> str:
    """Write a value in the one way that equal values share."""
    return _CANONICAL.encode(value)


def same(left: Any, right: Any) -> bool:
    """Return whether two values are the same JSON."""
    return canonical(left) == canonical(right)


def encode(value: Any) -> Any:
    """Turn a JSON value into one that Firestore holds."""
    if isinstance(value, dict):
        return {_escaped(value, name): encode(item) for name, item in value.items()}
    if isinstance(value, list):
        return [{"[]": encode(item)} if isinstance(item, list) else encode(item) for item in value]
    return value


def _escaped(value: dict[str, Any], name: str) -> str:
    return name + "[]" if len(value) == 1 and _LIST_MARK.match(name) else name


def decode(value: Any) -> Any:
    """Undo `encode`."""
    if isinstance(value, dict):
        if len(value) != 1:
            return {name: decode(item) if isinstance(item, dict | list) else item for name, item in value.items()}
        [(name, item)] = value.items()
        if name == "[]":
            return decode(item)
        return {name[:-2] if _LIST_MARK.match(name) else name: decode(item)}
    if isinstance(value, list):
        return [decode(item) for item in value]
    return value


def size_bytes(value: Any) -> int:
    """Measure a value as stored, by Firestore's formula; an empty map or list takes a byte."""
    if isinstance(value, str):
        return 1 + (len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass")))
    if isinstance(value, dict):
        names = value if len(value) != 1 else (_escaped(value, name) for name in value)
        return sum(map(size_bytes, names)) + sum(map(size_bytes, value.values())) or 1
    if isinstance(value, list):
        return sum(size_bytes(item) + _INNER_LIST_BYTES * isinstance(item, list) for item in value) or 1
    return 1 if value is None or isinstance(value, bool) else 8


def depth(value: Any) -> int:
    """Count the maps and lists inside each other, as stored: a list directly in a list has a map between."""
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((depth(item) + isinstance(item, list) for item in value), default=0)
    return 0


def depth_at(at: Path) -> int:
    """Count the maps and lists around a place, as stored."""
    lists_in_lists = sum(isinstance(outer, int) and isinstance(inner, int) for outer, inner in pairwise(at))
    return len(at) + lists_in_lists


def names_bytes(value: Any) -> int:
    """Measure the longest way of names into a value, as stored: each name with a dot, as Firestore counts a path."""
    if isinstance(value, dict):
        return max((_name_bytes(_escaped(value, name)) + names_bytes(item) for name, item in value.items()), default=0)
    if isinstance(value, list):
        inner = (names_bytes(item) + _INNER_LIST_BYTES * isinstance(item, list) for item in value)
        return max(inner, default=0)
    return 0


def names_bytes_at(at: Path) -> int:
    """Measure the names around a place likewise; one that may be escaped counts as if it were."""
    names = (_name_bytes(step + "[]" * bool(_LIST_MARK.match(step))) for step in at if isinstance(step, str))
    return sum(names) + _INNER_LIST_BYTES * (depth_at(at) - len(at))


def _name_bytes(name: str) -> int:
    return len(name.encode("utf-8", "surrogatepass")) + 1


def fits(value: Any, at: Path = ()) -> bool:
    """Tell whether a value can stand at a place: neither too deep nor at the end of too long a path."""
    # A path has one dot fewer than names.
    return (
        depth_at(at) + depth(value) <= LIMITS.depth_max
        and names_bytes_at(at) + names_bytes(value) <= _FIELD_BYTES_MAX + 1
    )


def check(value: Any, at: Path = ()) -> None:
    """Refuse what Firestore cannot hold: raises `BadValue` or `TooDeep` with the field's name."""
    if isinstance(value, dict):
        _check_depth(at)
        for name, item in value.items():
            _check_name(name, at)
            check(item, (*at, name))
    elif isinstance(value, list):
        _check_depth(at, map_between=bool(at) and isinstance(at[-1], int))
        for index, item in enumerate(value):
            check(item, (*at, index))
    elif isinstance(value, str):
        _check_text(value, at)
    elif isinstance(value, int) and value not in _INTEGERS:
        raise BadValue("This integer does not fit into 64 bits; send it as a string or a float.", field=field_name(at))


def _check_depth(at: Path, *, map_between: bool = False) -> None:
    if depth_at(at) + map_between >= LIMITS.depth_max:
        raise TooDeep(f"Objects and lists may stand at most {LIMITS.depth_max} deep.", field=field_name(at))


def _check_name(name: str, at: Path) -> None:
    _check_text(name, (*at, name))
    if not name or _RESERVED_NAME.match(name) or len(name.encode()) > _FIELD_BYTES_MAX:
        detail = f"A field's name has 1 to {_FIELD_BYTES_MAX} bytes and is not of the form __…__."
        raise BadValue(detail, field=field_name((*at, name)))


def _check_text(text: str, at: Path) -> None:
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise BadValue("This text has half of a surrogate pair, which no UTF-8 text can hold.", field=field_name(at))


def field_name(at: Path) -> str:
    """Write a path as people do: ``address.tags[2]``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in at)
    return text.removeprefix(".").encode("utf-8", "backslashreplace").decode()
