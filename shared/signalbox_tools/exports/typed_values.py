"""The values of an export: the typed JSON of Firestore's REST interface, without loss.

    {"integerValue": "1"}          an integer of 64 bits, as text
    {"doubleValue": 1.0}           also "NaN", "Infinity" and "-Infinity"
    {"timestampValue": "2026-11-29T08:30:00.000001Z"}
    {"bytesValue": "AAEC"}, {"referenceValue": "projects/…"}, {"geoPointValue": {"latitude": 48.85, "longitude": 2.35}}
    {"arrayValue": {"values": […]}}, {"mapValue": {"fields": {…}}}

Values are read as the stores have them (`signalbox.core.records.record_values`).
"""

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from signalbox.core.keys import NAME_BYTES_MAX
from signalbox.core.records.record_values import (
    BYTES,
    INTEGER_MAX,
    LEVELS_MAX,
    POINT,
    REFERENCE,
    check_native,
    mark_of,
)
from signalbox.core.times import rfc3339

TYPE_NAME = "__type__"
"""The name in the map as which Firestore stores a vector. It is the only name ``__…__`` that a map can have."""

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class BadValueInFile(ValueError):
    """A value that no record can have. The message names its place."""


def typed_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed values of a record or of a map."""
    return {name: typed(value) for name, value in data.items()}


def typed(value: Any) -> dict[str, Any]:
    """Return the typed form of a value that a store has returned."""
    kind = type(value)
    if kind is str:
        return {"stringValue": value}
    if kind is bool:
        return {"booleanValue": value}
    if kind is int:
        return {"integerValue": str(value)}
    if kind is float:
        return {"doubleValue": value if math.isfinite(value) else _name_of(value)}
    if value is None:
        return {"nullValue": None}
    if kind is dict:
        return _typed_map(value)
    if kind is list:
        return {"arrayValue": {"values": [typed(item) for item in value]}}
    return {"timestampValue": rfc3339(value)}


def _name_of(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _typed_map(value: dict[str, Any]) -> dict[str, Any]:
    mark = mark_of(value)
    if mark == POINT:
        latitude, longitude = value[mark]
        return {"geoPointValue": {"latitude": latitude, "longitude": longitude}}
    if mark:
        return {"bytesValue" if mark == BYTES else "referenceValue": value[mark]}
    return {"mapValue": {"fields": typed_fields(value)}}


def fields_of(held: Any, place: str = "fields", level: int = 0) -> dict[str, Any]:
    """Return the values of typed fields, sorted by name. Raises `BadValueInFile`."""
    if not isinstance(held, dict):
        raise BadValueInFile(f"{place} is not an object")
    if level > LEVELS_MAX:
        raise BadValueInFile(f"{place} is nested deeper than {LEVELS_MAX} levels")
    return {_checked(name, place): value_of(held[name], f"{place}.{name}", level) for name in sorted(held)}


def _checked(name: str, place: str) -> str:
    reserved = len(name) >= 4 and name.startswith("__") and name.endswith("__") and name != TYPE_NAME
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if reserved or not 0 < size <= NAME_BYTES_MAX:
        raise BadValueInFile(f"{place} has the name {name[:60]!a}, which Firestore refuses")
    return name


def value_of(held: Any, place: str, level: int) -> Any:
    """Return the value of its typed form. Raises `BadValueInFile`."""
    if not isinstance(held, dict) or len(held) != 1:
        raise BadValueInFile(f"{place} is not an object with one typed value")
    [(kind, content)] = held.items()
    if kind == "mapValue":
        return fields_of(_member(content, "fields", {}, place), place, level + 1)
    if kind == "arrayValue":
        return _items(_member(content, "values", [], place), place, level + 1)
    if kind not in READ:
        raise BadValueInFile(f"{place} has the type {kind[:60]!a}, which is not one of {', '.join(sorted(KINDS))}")
    try:
        return READ[kind](content)
    except (ArithmeticError, AttributeError, TypeError, ValueError, KeyError) as error:
        raise BadValueInFile(f"{place}: {str(content)[:60]!a} is not a valid {kind}") from error


def _member(content: Any, name: str, absent: Any, place: str) -> Any:
    """Return the only member of a map or a list; Firestore leaves out one that is empty."""
    if not isinstance(content, dict) or not content.keys() <= {name}:
        raise BadValueInFile(f"{place} has other members than {name!r}")
    return content.get(name, absent)


def _items(held: Any, place: str, level: int) -> list[Any]:
    if not isinstance(held, list):
        raise BadValueInFile(f"{place} is not a list")
    if level > LEVELS_MAX:
        raise BadValueInFile(f"{place} is nested deeper than {LEVELS_MAX} levels")
    if any(isinstance(item, dict) and "arrayValue" in item for item in held):
        raise BadValueInFile(f"{place} is a list directly in a list, which Firestore refuses")
    return [value_of(item, f"{place}[{at}]", level) for at, item in enumerate(held)]


def time_of(text: Any) -> datetime:
    """Return the time of a text in RFC 3339. Raises `ValueError` or `TypeError`."""
    moment = datetime.fromisoformat(text)
    if moment.utcoffset() is None:
        raise ValueError("a time needs its zone")
    return moment


def _exactly(kind: type) -> Callable[[Any], Any]:
    def read(content: Any) -> Any:
        if type(content) is not kind:
            raise TypeError
        return content

    return read


def _text(content: Any) -> str:
    if type(content) is not str:
        raise TypeError
    content.encode()  # raises a ValueError for a lone surrogate
    return content


def _integer(content: Any) -> int:
    number = int(_text(content))
    if not -INTEGER_MAX - 1 <= number <= INTEGER_MAX:
        raise ValueError
    return number


def _double(content: Any) -> float:
    if type(content) is str:
        return NOT_FINITE[content]
    if type(content) not in {int, float}:
        raise TypeError
    return float(content)


def _native(value: dict[str, Any]) -> dict[str, Any]:
    check_native(value)
    return value


def _point(content: Any) -> dict[str, Any]:
    if content.keys() > {"latitude", "longitude"}:
        raise KeyError
    return _native({POINT: [content["latitude"], content["longitude"]]})


READ: Mapping[str, Callable[[Any], Any]] = {
    "nullValue": _exactly(type(None)),
    "booleanValue": _exactly(bool),
    "stringValue": _text,
    "integerValue": _integer,
    "doubleValue": _double,
    "timestampValue": time_of,
    "bytesValue": lambda content: _native({BYTES: content}),
    "referenceValue": lambda content: _native({REFERENCE: content}),
    "geoPointValue": _point,
}
KINDS = {*READ, "mapValue", "arrayValue"}
