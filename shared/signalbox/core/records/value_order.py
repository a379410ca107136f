"""The order of values in Firestore: by their types, then by their values.

The types are ordered: null, booleans, NaN, numbers, times, texts, bytes, references, geographical points, lists, maps.
In this order 1 equals 1.0, and 0.0 equals -0.0. Texts compare by code point (the order of their UTF-8), lists item by
item, maps by their sorted entries, key before value; a prefix comes first.
"""

import math
from datetime import datetime
from typing import Any

from signalbox.core.records.record_values import BYTES, REFERENCE, mark_of, raw_bytes

Key = tuple[Any, ...]


NULL_RANK, BOOLEAN_RANK, NAN_RANK, NUMBER_RANK, TIME_RANK, TEXT_RANK = range(6)


BYTES_RANK, REFERENCE_RANK, POINT_RANK, LIST_RANK, MAP_RANK = range(6, 11)


_RANKS: dict[type, int] = {bool: BOOLEAN_RANK, int: NUMBER_RANK, str: TEXT_RANK}


def order_key(value: Any) -> Key:
    """Return a tuple that Python orders and compares as Firestore does the value. It starts with the type's rank."""
    rank = _RANKS.get(type(value))
    return (rank, value) if rank is not None else _other_key(value)


def _other_key(value: Any) -> Key:
    if value is None:
        return (NULL_RANK,)
    if isinstance(value, float):
        return (NAN_RANK,) if math.isnan(value) else (NUMBER_RANK, value)
    if isinstance(value, datetime):
        return (TIME_RANK, value)
    if isinstance(value, list):
        return (LIST_RANK, tuple(order_key(item) for item in value))
    if mark := mark_of(value):
        return _native_key(mark, value[mark])
    return (MAP_RANK, tuple((key, order_key(value[key])) for key in sorted(value)))


def _native_key(mark: str, held: Any) -> Key:
    if mark == BYTES:
        return (BYTES_RANK, raw_bytes(held))
    return (REFERENCE_RANK, held.split("/")) if mark == REFERENCE else (POINT_RANK, tuple(held))
