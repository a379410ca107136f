"""The effect of a write on a record's data, as Firestore computes it. Pure: stored data is never changed, only shared.

Values are copied on the way in and out, so that no caller holds a reference into what is stored.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from shared.core.operations.ports import REMOVE, SERVER_TIME, Change, Field, Increment, Put
from shared.core.operations.write_validation import is_server_value
from shared.core.rules.record_values import INTEGER_MAX
from shared.core.rules.times import instant, microseconds
from shared.testing.query_evaluation import MISSING, value_at

Stored = dict[str, Any]

_PLAIN = frozenset((str, int, float, bool, type(None)))


def copied(value: Any) -> Any:
    """Copy a value, maps with their keys in the alphabet's order, times in UTC: as Firestore returns it."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        return copied_map(value)
    if kind is list:
        return [item if type(item) in _PLAIN else copied(item) for item in value]
    if kind is datetime and value.tzinfo is UTC and not value.fold:
        return value
    return instant(microseconds(value))


def copied_map(data: Any) -> Stored:
    """Copy a map. Lists of keys mostly come sorted already, which makes sorting them one comparison a key."""
    return {key: value if type(value := data[key]) in _PLAIN else copied(value) for key in sorted(data)}


def after_put(put: Put, server_time: datetime) -> tuple[Stored, dict[Field, Any]]:
    """Return the record's new data and the new values of its increments."""
    plain = {key: value for key, value in put.data.items() if not is_server_value(value)}
    fill = [((key,), value) for key, value in put.data.items() if is_server_value(value)]
    return _filled_in(copied_map(plain), fill, server_time)


def after_change(change: Change, before: Stored, server_time: datetime) -> tuple[Stored, dict[Field, Any]]:
    """Return the record's new data and the new values of its increments."""
    data = before
    for field, value in change.fields.items():
        if value is REMOVE:
            data = _without(data, field)
        elif not is_server_value(value):
            data = _with(data, field, copied(value))
    fill = [(field, value) for field, value in change.fields.items() if is_server_value(value)]
    return _filled_in(data, fill, server_time)


def masked(data: Stored, fields: Iterable[Field] | None) -> Stored:
    """Return the fields of a mask that a record has; None: all of them."""
    if fields is None:
        return data
    chosen: Stored = {}
    for field in fields:
        if (value := value_at(data, field)) is not MISSING:
            chosen = _with(chosen, field, value)
    return chosen


def _filled_in(
    data: Stored, fill: Iterable[tuple[Field, Any]], server_time: datetime
) -> tuple[Stored, dict[Field, Any]]:
    values: dict[Field, Any] = {}
    for field, marker in fill:
        new = _new_value(marker, value_at(data, field), server_time)
        data = _with(data, field, new)
        if isinstance(marker, Increment):
            values[field] = new
    return data, values


def _new_value(marker: Any, old: Any, server_time: datetime) -> Any:
    if marker is SERVER_TIME:
        return server_time
    return _sum(old, marker.by)


def _sum(old: Any, by: int) -> int | float:
    """Return a sum. What is not a number counts as 0; integers saturate."""
    if type(old) is float:
        return old + by
    return max(-INTEGER_MAX - 1, min(INTEGER_MAX, old + by)) if type(old) is int else by


def _with(data: Stored, field: Field, value: Any) -> Stored:
    """Return the data with a field set; a value in its way that is not a map is replaced."""
    key, *rest = field
    if rest:
        inner = data.get(key)
        value = _with(inner if isinstance(inner, dict) else {}, tuple(rest), value)
    return {**data, key: value}


def _without(data: Stored, field: Field) -> Stored:
    """Return the data without a field; the maps above it stay, even empty."""
    if value_at(data, field) is MISSING:
        return data
    if len(field) > 1:
        return {**data, field[0]: _without(data[field[0]], field[1:])}
    return {key: value for key, value in data.items() if key != field[0]}
