"""Convert Python values to Firestore's `Value` messages and back, without loss.

Both stores hold JSON plus aware datetimes. Encoding works on raw protobuf messages (proto-plus wrappers cost several
times as much) and expects values that `record_values` has checked. Decoding only looks at the names of
the message's fields, so that it reads both the API's `Value` and the look-alike inside a Firestore event.

True, 1 and 1.0 stay three values. A datetime is read back in UTC, with microseconds: all the precision Firestore keeps.
"""

import base64
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from signalbox.core.problems import BadValue
from signalbox.core.records import record_values
from signalbox.core.records.queries import Field
from signalbox.core.times import EPOCH, microseconds

_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

_SCALARS = ("boolean_value", "integer_value", "double_value", "string_value")


def fill_timestamp(message: Any, value: datetime) -> None:
    """Write a datetime into a `Timestamp` message."""
    message.seconds, rest = divmod(microseconds(value), 1_000_000)
    message.nanos = rest * 1_000


def timestamp(message: Any) -> datetime:
    """Read a `Timestamp` message."""
    return EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1_000)


def fill(message: Any, value: Any) -> None:
    """Write a value that a record can hold into an empty `Value` message."""
    if value is None:
        message.null_value = 0
    elif isinstance(value, dict) and (mark := record_values.mark_of(value)):
        _fill_native(message, mark, value[mark])
    elif isinstance(value, dict):
        message.map_value.SetInParent()  # otherwise an empty map would be no value
        fill_fields(message.map_value.fields, value)
    elif isinstance(value, list):
        message.array_value.SetInParent()
        for item in value:
            fill(message.array_value.values.add(), item)
    else:
        _fill_scalar(message, value)


def _fill_scalar(message: Any, value: Any) -> None:
    if isinstance(value, str):
        message.string_value = value
    elif isinstance(value, bool):  # before int: a bool is one
        message.boolean_value = value
    elif isinstance(value, int):
        message.integer_value = value
    elif isinstance(value, float):
        message.double_value = value
    else:
        fill_timestamp(message.timestamp_value, value)


def fill_fields(fields: Any, data: Mapping[str, Any]) -> None:
    """Write a record's data into the empty `fields` of a `Document` or `MapValue` message."""
    for key, value in data.items():
        fill(fields[key], value)


def decode(message: Any) -> Any:
    """Read a `Value` message. Raises `BadValue` for an unknown type."""
    kind = message.WhichOneof("value_type")
    if kind in _SCALARS:
        return getattr(message, kind)
    if kind == "map_value":
        return decode_fields(message.map_value.fields)
    if kind == "array_value":
        return [decode(item) for item in message.array_value.values]
    if kind == "timestamp_value":
        return timestamp(message.timestamp_value)
    if kind == "null_value":
        return None
    if kind in record_values.NATIVE_FIELDS.values():
        return _decode_native(message)
    raise BadValue(f"A record holds a {kind}, which another client wrote and the kit cannot read.")


def decode_fields(fields: Any) -> dict[str, Any]:
    """Return the `fields` of a `Document` or `MapValue` message, sorted by name, because the message has no order."""
    return {key: decode(fields[key]) for key in sorted(fields)}


def field_path(field: Field) -> str:
    """Return a field's path for masks, transforms and queries: names joined by dots, quoted where they need it."""
    return ".".join(key if _SIMPLE.fullmatch(key) else _quoted(key) for key in field)


def _quoted(key: str) -> str:
    escaped = key.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def _fill_native(message: Any, mark: str, held: Any) -> None:
    """Write a value of a native type into an empty `Value` message."""
    if mark == record_values.POINT:
        message.geo_point_value.latitude, message.geo_point_value.longitude = held
        message.geo_point_value.SetInParent()
    else:
        setattr(
            message,
            record_values.NATIVE_FIELDS[mark],
            record_values.raw_bytes(held) if mark == record_values.BYTES else held,
        )


def _decode_native(message: Any) -> dict[str, Any]:
    """Read a value of a native type from a `Value` message."""
    point = message.geo_point_value
    match message.WhichOneof("value_type"):
        case "bytes_value":
            return {record_values.BYTES: base64.b64encode(message.bytes_value).decode()}
        case "geo_point_value":
            return {record_values.POINT: [point.latitude, point.longitude]}
        case _:
            return {record_values.REFERENCE: message.reference_value}
