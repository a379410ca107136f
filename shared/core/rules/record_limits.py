"""What Firestore cannot hold, refused here first: both stores say no alike, with a reason, before anything is sent.

The figures are Firestore's documented limits, counted as its emulator counts them: a map and a list each count as one
level, a key's length includes the keys above it and their dots, a map costs its keys and values, or 1 when empty.

A place inside a record is a tuple of keys and list indices; its length is the number of levels above the value there.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from shared.core.rules import native_types as foreign
from shared.core.rules.problems import BadKey, BadValue, TooLarge
from shared.core.rules.queries import Field
from shared.core.rules.times import microseconds

LEVELS_MAX = 20
"""Maps and lists inside one another, the record itself not counted; also the keys of a `Field`."""

KEY_BYTES_MAX = 1_500
ID_BYTES_MAX = 1_500
INTEGER_MAX = 2**63 - 1
RECORD_BYTES_MAX = 1_048_576
TEXT_BYTES_MAX = RECORD_BYTES_MAX - 89

_RECORD_BYTES_BARE = 32
_NAME_BYTES_BARE = 16
_MEMOISED = 8_192  # names and keys recur: sizing them anew takes most of a check's time

Place = tuple[str | int, ...]


def record_bytes(path: str, field_bytes: int) -> int:
    """Size a record whose fields take so many bytes. Raises `TooLarge` when Firestore would not hold it."""
    size = name_bytes(path) + _RECORD_BYTES_BARE + field_bytes
    if size > RECORD_BYTES_MAX:
        raise TooLarge(f"A record holds {RECORD_BYTES_MAX:,} bytes; this one has {size:,}.")
    return size


def data_bytes(items: Iterable[tuple[Any, Any]], place: Place = (), above_bytes: int = 0) -> int:
    """Size the keys and values of a map at a place. Raises `BadValue` or `TooLarge` for what cannot be held.

    `above_bytes` are those of the keys above, each with its dot.
    """
    size = 0
    for key, value in items:
        own = key_bytes(key, place, above_bytes)
        size += own + value_bytes(value, (*place, key), above_bytes + own)
    return size


def value_bytes(value: Any, place: Place, above_bytes: int = 0) -> int:
    """Size a value. Types are exact, since a subclass would come back as something else; only `datetime` has some."""
    kind = type(value)
    if kind is str:
        return _text_bytes(value, place)
    if kind is int:
        return _integer_bytes(value, place)
    if kind is dict and (mark := foreign.mark_of(value)):
        return _foreign_bytes(mark, value[mark], place)
    if kind is dict:
        _check_level(place)
        return data_bytes(value.items(), place, above_bytes) or 1
    if kind is list:
        return _list_bytes(value, place, above_bytes)
    if value is None or kind is bool:
        return 1
    return _rare_bytes(value, place)


def _foreign_bytes(mark: str, held: Any, place: Place) -> int:
    try:
        return foreign.size_bytes(mark, held)
    except ValueError as error:
        _refuse(f"{error}.", place)


def _list_bytes(items: list[Any], place: Place, above_bytes: int) -> int:
    _check_level(place)
    if type(place[-1]) is int:
        _refuse("A list cannot lie directly in a list; put a map between.", place)
    return sum(value_bytes(item, (*place, index), above_bytes) for index, item in enumerate(items)) or 1


def _rare_bytes(value: Any, place: Place) -> int:
    if type(value) is float:
        return 8
    if not isinstance(value, datetime):
        _refuse(f"A record cannot hold a {type(value).__name__}.", place)
    if value.tzinfo is None or value.utcoffset() is None:
        _refuse("A time needs its zone.", place)
    if not _YEAR_1 <= microseconds(value) <= _YEAR_9999:
        _refuse("A time lies in the years 1 to 9999, in UTC.", place)
    return 8


_YEAR_1 = -62_135_596_800_000_000
_YEAR_9999 = 253_402_300_799_999_999


def _check_level(place: Place) -> None:
    if len(place) > LEVELS_MAX:
        _refuse(f"Maps and lists nest {LEVELS_MAX} deep.", place)


def _integer_bytes(value: int, place: Place) -> int:
    if not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
        _refuse("An integer has 64 bits.", place)
    return 8


def _text_bytes(text: str, place: Place) -> int:
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        _refuse("A text is Unicode without lone surrogates.", place)
    if size > TEXT_BYTES_MAX:
        raise TooLarge(f"A text holds {TEXT_BYTES_MAX:,} bytes; this one has {size:,}.", field=name_of(place))
    return size + 1


def key_bytes(key: Any, place: Place, above_bytes: int) -> int:
    """Size a key of the map at a place, with its end. Raises `BadValue` for one that cannot be a key."""
    size = _key_bytes(key) if type(key) is str else 0
    if not size or above_bytes + size > KEY_BYTES_MAX + 1:
        _refuse(
            f"{_printable(key)} cannot be a key: take 1 to {KEY_BYTES_MAX:,} bytes of UTF-8, the keys above and their "
            "dots included, and not __…__.",
            (*place, key),
        )
    return size


def field_bytes(field: Field) -> int:
    """Size the keys of a field, with their ends. Raises `BadValue` for one that cannot be."""
    if not 1 <= len(field) <= LEVELS_MAX:
        _refuse(f"A field has 1 to {LEVELS_MAX} keys.", field)
    size = 0
    for level, key in enumerate(field):
        size += key_bytes(key, field[:level], size)
    return size


@lru_cache(_MEMOISED)
def _key_bytes(key: str) -> int:
    """Give a key's bytes and one, or 0 when it cannot be one."""
    try:
        return 0 if not key or _is_reserved(key) else len(key.encode()) + 1
    except UnicodeEncodeError:
        return 0


def _is_reserved(name: str) -> bool:
    return len(name) >= 4 and name.startswith("__") and name.endswith("__")


@lru_cache(_MEMOISED)
def name_bytes(path: str) -> int:
    """Size a record's name."""
    return len(path.encode()) + 1 + _NAME_BYTES_BARE


@lru_cache(_MEMOISED)
def check_path(path: str) -> None:
    """Raise `BadKey` unless this is a record's path: collection, id, collection, id …"""
    names = path.split("/")
    if len(names) % 2 or not all(_can_name(name) for name in names):
        raise BadKey(f"{_printable(path)} cannot name a record.")


@lru_cache(_MEMOISED)
def check_collection(path: str) -> None:
    """Raise `BadKey` unless this is a collection's path."""
    names = path.split("/")
    if not len(names) % 2 or not all(_can_name(name) for name in names):
        raise BadKey(f"{_printable(path)} cannot name a collection.")


def _can_name(name: str) -> bool:
    return name not in {".", ".."} and 0 < _key_bytes(name) <= ID_BYTES_MAX + 1


def name_of(place: Place) -> str:
    """Write a place for people: ``address.lines[2]``. Lone surrogates become question marks, so that it can be sent."""
    parts = (f"[{part}]" if type(part) is int else f".{part}" for part in place)
    return "".join(parts).removeprefix(".").encode(errors="replace").decode()[:200]


def _printable(name: object) -> str:
    return ascii(name) if len(ascii(name)) <= 60 else ascii(name)[:60] + "…"


def _refuse(detail: str, place: Place) -> NoReturn:
    raise BadValue(detail, field=name_of(place))
