"""The types that a model's fields may have: what JSON each takes, how it is stored, and its JSON Schema.

Stored values sort as their meaning does: a date is ``2026-11-22``, a datetime is in UTC with six digits of a second.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

INTEGER_MAX = 2**63 - 1
"""Firestore's integers have 64 bits."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """A type of single values. `check` returns a JSON value as stored, `parse` that of a query parameter's text.

    Both raise `ValueError`, which says what the value must be.
    """

    name: str
    schema: Mapping[str, Any]
    check: Callable[[Any], Any]
    parse: Callable[[str], Any]


def _integer(value: Any) -> int:
    if type(value) is not int or not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
        raise ValueError("must be an integer of at most 64 bits")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or abs(value) > 1e308 or not math.isfinite(value):
        raise ValueError("must be a number")
    return float(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004  all checks raise the same
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")  # noqa: TRY004
    return value


def _date(value: Any) -> str:
    try:
        if date.fromisoformat(value).isoformat() == value:
            return str(value)
    except (TypeError, ValueError):
        pass
    raise ValueError("must be a date such as 2026-11-22")


def _datetime(value: Any) -> str:
    try:
        moment = datetime.fromisoformat(_text(value))
        if moment.tzinfo is not None and "T" in value.upper():
            return stored_time(moment)
    except (ValueError, OverflowError):
        pass
    raise ValueError("must be a time with its offset, such as 2026-11-22T12:00:00Z (RFC 3339)")


def stored_time(moment: datetime) -> str:
    """Return a time as it is stored: texts that sort as the times do. Raises `OverflowError` beyond the calendar."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _integer_of(text: str) -> int:
    if len(text) > 20 or not text.lstrip("-").isdecimal():
        raise ValueError("must be an integer of at most 64 bits")
    try:
        return _integer(int(text))
    except ValueError as error:
        raise ValueError("must be an integer of at most 64 bits") from error


def _number_of(text: str) -> float:
    try:
        return _number(float(text))
    except ValueError as error:
        raise ValueError("must be a number") from error


def _boolean_of(text: str) -> bool:
    return _boolean({"true": True, "false": False}.get(text))


INTEGER = FieldType(
    "int", {"type": "integer", "minimum": -INTEGER_MAX - 1, "maximum": INTEGER_MAX}, _integer, _integer_of
)
NUMBER = FieldType("float", {"type": "number", "minimum": -1e308, "maximum": 1e308}, _number, _number_of)
BOOLEAN = FieldType("bool", {"type": "boolean"}, _boolean, _boolean_of)
TEXT = FieldType("string", {"type": "string"}, _text, _text)
DATE = FieldType("date", {"type": "string", "format": "date"}, _date, _date)
DATETIME = FieldType("datetime", {"type": "string", "format": "date-time"}, _datetime, _datetime)

TYPES: Mapping[Any, FieldType] = {
    int: INTEGER,
    float: NUMBER,
    bool: BOOLEAN,
    str: TEXT,
    date: DATE,
    datetime: DATETIME,
}
"""By annotation."""


def choice(choices: tuple[str, ...]) -> FieldType:
    """Return the type of texts of which there are only these."""

    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return FieldType("string", {"type": "string", "enum": list(choices)}, check, check)
