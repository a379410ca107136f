"""Firestore's types that JSON lacks and other clients store: bytes, geographical points, references to records.

They are read as maps with one name that no user's map can have, and written back as they were: so a document that
holds them is found, shown, copied and normalized like any other, and loses nothing.

    {"__bytes__": "AAEC"}                          in base64
    {"__geo_point__": [48.85, 2.35]}               latitude, longitude
    {"__reference__": "projects/…/documents/d/a"}  a record's whole name
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

BYTES, POINT, REFERENCE = "__bytes__", "__geo_point__", "__reference__"
FIELDS = {BYTES: "bytes_value", POINT: "geo_point_value", REFERENCE: "reference_value"}
POINT_BYTES = 16


def mark_of(value: Mapping[str, Any]) -> str:
    """Return which native type a map encodes; empty: none, it is a map."""
    mark = next(iter(value), "") if len(value) == 1 else ""
    return mark if mark in FIELDS else ""


def raw(text: str) -> bytes:
    """Return the bytes behind their text. Raises `ValueError`."""
    return base64.b64decode(text, validate=True)


def size_bytes(value: Mapping[str, Any]) -> int | None:
    """Return the size of a native value; None if the map encodes none."""
    try:
        return check(value) if mark_of(value) else None
    except ValueError:
        return None


def check(value: Mapping[str, Any]) -> int:
    """Return the size of a native value. Raises `ValueError` if it is malformed."""
    [(mark, held)] = value.items()
    if mark == POINT:
        latitude, longitude = held if isinstance(held, list) and len(held) == 2 else (None, None)
        if not (_within(latitude, 90) and _within(longitude, 180)):
            raise ValueError("a point is [latitude, longitude]")
        return POINT_BYTES
    if not isinstance(held, str) or (mark == BYTES and not held.isascii()):
        raise ValueError(f"{mark} stands for a text")
    try:
        return len(raw(held)) if mark == BYTES else len(held.encode())
    except binascii.Error as error:
        raise ValueError("bytes are written in base64") from error


def _within(number: Any, most: float) -> bool:
    return type(number) in {int, float} and -most <= number <= most
