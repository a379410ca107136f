"""The effect of a write on a record: whether its guard holds, and the record's new data. The same for all stores."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from signalbox.core.ports import (
    REMOVE,
    SERVER_TIME,
    AlreadyExists,
    Change,
    Data,
    Guard,
    Increment,
    Must,
    Put,
    RecordMissing,
    Stale,
)
from signalbox.core.records.queries import Field
from signalbox.core.records.record_values import INTEGER_MAX, RECORD_BYTES_MAX, map_bytes, mark_of, record_bytes
from signalbox.core.times import instant, microseconds
from signalbox.core.write_checks import is_server_value, server_values

MISSING = object()

Stored = dict[str, Any]

_PLAIN = frozenset((str, int, float, bool, type(None)))


def check_guard(path: str, guard: Guard, update_time: datetime | None) -> None:
    """Raise the `Conflict` of a guard that does not hold. `update_time` is the record's, None if there is no record."""
    if isinstance(guard, datetime):
        if update_time != guard:
            raise Stale(f"{path} was written after {guard.isoformat()}")
    elif guard is Must.EXIST and update_time is None:
        raise RecordMissing(f"{path} does not exist")
    elif guard is Must.NOT_EXIST and update_time is not None:
        raise AlreadyExists(f"{path} exists")


def value_at(data: Data, field: Field) -> Any:
    """Return the value of a field, or `MISSING`."""
    value: Any = data
    for key in field:
        if not isinstance(value, dict) or key not in value:
            return MISSING
        value = value[key]
    return value


def copied(value: Any) -> Any:
    """Copy a value as Firestore returns it: maps with sorted keys, times in UTC."""
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
    """Copy a map. The keys are mostly sorted already, so sorting takes one comparison a key."""
    return {key: value if type(value := data[key]) in _PLAIN else copied(value) for key in sorted(data)}


def server_time_at(moment: datetime) -> datetime:
    """Return the `SERVER_TIME` of a request that is processed at a moment: in whole milliseconds."""
    return moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)


def after_write(
    write: Put | Change, before: Stored, before_bytes: int, added_bytes: int, server_time: datetime
) -> tuple[Stored, int, dict[Field, Any]]:
    """Return the record's new data, an upper bound of its size, and the new values of its increments.

    `before` is the record's data, `before_bytes` an upper bound of its size; both are empty if there is no record.
    `added_bytes` is what `check_commit` has returned for the write. Raises `TooLarge`.
    """
    if isinstance(write, Put):
        data, values = _after_put(write, server_time)
        return data, added_bytes, values
    data, values = _after_change(write, before, server_time)
    bound = before_bytes + added_bytes
    return data, bound if bound <= RECORD_BYTES_MAX else record_bytes(write.path, map_bytes(data)), values


def _after_put(put: Put, server_time: datetime) -> tuple[Stored, dict[Field, Any]]:
    """Return the record's new data and the new values of its increments."""
    from_server = server_values(put.data)
    if not from_server:
        return copied_map(put.data), {}
    plain = {name: value for name, value in put.data.items() if name not in from_server}
    return _filled_in(copied_map(plain), [((name,), value) for name, value in from_server.items()], server_time)


def _after_change(change: Change, before: Stored, server_time: datetime) -> tuple[Stored, dict[Field, Any]]:
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
    """Return the fields of a mask that a record has. A mask of None has all fields."""
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
        new = server_time if marker is SERVER_TIME else _sum(value_at(data, field), marker.by)
        data = _with(data, field, new)
        if isinstance(marker, Increment):
            values[field] = new
    return data, values


def _sum(old: Any, by: int) -> int | float:
    """Return a sum. A value that is not a number counts as 0; integers saturate."""
    if type(old) is float:
        return old + by
    return max(-INTEGER_MAX - 1, min(INTEGER_MAX, old + by)) if type(old) is int else by


def _with(data: Stored, field: Field, value: Any) -> Stored:
    """Return the data with a field set. A value on the field's path that is not a map is replaced by one."""
    key, *rest = field
    if rest:
        inner = data.get(key)
        value = _with(inner if isinstance(inner, dict) and not mark_of(inner) else {}, tuple(rest), value)
    return {**data, key: value}


def _without(data: Stored, field: Field) -> Stored:
    """Return the data without a field; the maps above it stay, even empty."""
    if value_at(data, field) is MISSING:
        return data
    if len(field) > 1:
        return {**data, field[0]: _without(data[field[0]], field[1:])}
    return {key: value for key, value in data.items() if key != field[0]}
