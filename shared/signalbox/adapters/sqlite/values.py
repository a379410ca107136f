"""Records as text, and values as bytes that have Firestore's order.

A record is JSON with sorted names, so equal text is an equal record, and 1 is not 1.0. A time is
``{"__time__": microseconds}``: users' maps cannot have such a name.
"""

import json
import math
import struct
from datetime import datetime
from typing import Any

from signalbox.core.ports import Data
from signalbox.core.records.record_values import BYTES, REFERENCE, mark_of, raw_bytes
from signalbox.core.records.value_order import (
    BOOLEAN_RANK,
    BYTES_RANK,
    LIST_RANK,
    MAP_RANK,
    NAN_RANK,
    NULL_RANK,
    NUMBER_RANK,
    POINT_RANK,
    REFERENCE_RANK,
    TEXT_RANK,
    TIME_RANK,
)
from signalbox.core.times import instant, microseconds

_TIME = "__time__"


def encoded(data: Data) -> str:
    """Return a record's data as text."""
    return _encode(data)


def decoded(text: str) -> dict[str, Any]:
    """Return the data of a record's text."""
    data: dict[str, Any] = _decode_with_times(text) if f'"{_TIME}"' in text else json.loads(text)
    return data


def _time_as_map(value: datetime) -> dict[str, int]:
    return {_TIME: microseconds(value)}


def _map_or_time(value: dict[str, Any]) -> Any:
    return instant(value[_TIME]) if _TIME in value else value


_encode = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_time_as_map, check_circular=False
).encode

_decode_with_times = json.JSONDecoder(object_hook=_map_or_time).decode


_END = b"\x00"
"""The end of a list, a map or a reference. It is less than each item, since the ranks in keys start at 1."""

_TEXT_END = b"\x00\x01"
_ESCAPED_ZERO = b"\x00\xff"
_EXACT_MAX = 2**53
_ALL_BITS = (1 << 64) - 1
_SIGN_BIT = 1 << 63

_RANKS = [bytes([rank + 1]) for rank in range(MAP_RANK + 1)]

NULL_KEY = _RANKS[NULL_RANK]
NAN_KEY = _RANKS[NAN_RANK]

AFTER_NULL = _RANKS[NULL_RANK + 1]
AFTER_ALL = bytes([MAP_RANK + 2])

_pack_number = struct.Struct(">QH").pack
_pack_double = struct.Struct(">d").pack
_unpack_bits = struct.Struct(">Q").unpack
_pack_time = struct.Struct(">Q").pack


def order_preserving_key(value: Any) -> bytes:
    """Return bytes that compare as Firestore compares values: the order of `core.records.value_order.order_key`.

    No key is a prefix of another key, so keys can be joined, and inverted for a descending field.
    """
    kind = type(value)
    if kind is str:
        return _RANKS[TEXT_RANK] + _text(value.encode())
    if kind is bool:
        return _RANKS[BOOLEAN_RANK] + (b"\x01" if value else b"\x00")
    if kind is int or kind is float:
        return NAN_KEY if value != value else _RANKS[NUMBER_RANK] + _number(value)
    if value is None:
        return NULL_KEY
    if isinstance(value, datetime):
        return _RANKS[TIME_RANK] + _pack_time(microseconds(value) + _SIGN_BIT)
    if kind is list:
        return _RANKS[LIST_RANK] + b"".join(map(order_preserving_key, value)) + _END
    if mark := mark_of(value):
        return _native(mark, value[mark])
    entries = (order_preserving_key(name) + order_preserving_key(value[name]) for name in sorted(value))
    return _RANKS[MAP_RANK] + b"".join(entries) + _END


def _text(text: bytes) -> bytes:
    return text.replace(b"\x00", _ESCAPED_ZERO) + _TEXT_END


def _number(value: float) -> bytes:
    """Return the key of a number: the nearest double that is not greater, then the rest of a large integer."""
    nearest, rest = float(value) + 0.0, 0  # -0.0 becomes 0.0
    if type(value) is int and not -_EXACT_MAX <= value <= _EXACT_MAX:
        if int(nearest) > value:
            nearest = math.nextafter(nearest, -math.inf)
        rest = value - int(nearest)
    [bits] = _unpack_bits(_pack_double(nearest))
    return _pack_number(bits ^ (_ALL_BITS if bits & _SIGN_BIT else _SIGN_BIT), rest)


def _native(mark: str, held: Any) -> bytes:
    if mark == BYTES:
        return _RANKS[BYTES_RANK] + _text(raw_bytes(held))
    if mark == REFERENCE:
        return _RANKS[REFERENCE_RANK] + b"".join(map(order_preserving_key, held.split("/"))) + _END
    return _RANKS[POINT_RANK] + b"".join(map(_number, held))


def after_prefix(prefix: bytes) -> bytes:
    """Return the first key after all keys that begin with a prefix, which begins with a rank."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1])


_INVERTED = bytes(255 - byte for byte in range(256))


def inverted(key: bytes) -> bytes:
    """Return a key of the reversed order."""
    return key.translate(_INVERTED)
