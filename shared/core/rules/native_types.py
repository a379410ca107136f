"""Values that JSON has no word for and other clients store: bytes, places on the globe, references to records.

They come out of a record as maps with one key that no user's map can have, and go back in as they were: so a document
that holds them is found, shown, copied and brought into shape like any other, and nothing in it is lost.

    {"__bytes__": "AAEC"}                          in base64
    {"__geo_point__": [48.85, 2.35]}               latitude, longitude
    {"__reference__": "projects/…/documents/d/a"}  a record's whole name
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

BYTES, PLACE, REFERENCE = "__bytes__", "__geo_point__", "__reference__"
FIELDS = {BYTES: "bytes_value", PLACE: "geo_point_value", REFERENCE: "reference_value"}
PLACE_BYTES = 16


def mark_of(value: Mapping[str, Any]) -> str:
    """Name what kind of foreign value a map stands for; empty: it is a map."""
    mark = next(iter(value), "") if len(value) == 1 else ""
    return mark if mark in FIELDS else ""


def raw(text: str) -> bytes:
    """Give the bytes behind their text. Raises `ValueError`."""
    return base64.b64decode(text, validate=True)


def size_bytes(mark: str, held: Any) -> int:
    """Size a foreign value. Raises `ValueError` if it is none."""
    if mark == PLACE:
        latitude, longitude = held if isinstance(held, list) and len(held) == 2 else (None, None)
        if not (_within(latitude, 90) and _within(longitude, 180)):
            raise ValueError("a place is [latitude, longitude]")
        return PLACE_BYTES
    if not isinstance(held, str) or (mark == BYTES and not held.isascii()):
        raise ValueError(f"{mark} stands for a text")
    try:
        return len(raw(held)) if mark == BYTES else len(held.encode())
    except binascii.Error as error:
        raise ValueError("bytes are written in base64") from error


def _within(number: Any, most: float) -> bool:
    return type(number) in {int, float} and -most <= number <= most
