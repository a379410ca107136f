"""The values that a record can hold, by Firestore's limits: sizes, levels, names, integers, texts, times.

Both stores check every write with this module before they send anything, so they refuse the same writes for the same
reasons. The figures are Firestore's documented limits, counted as its emulator counts them: a map and a list each count
as one level, the length of a field's path includes the names above it and their dots, an empty map or list takes a
byte.

Measuring never fails. Checking may: `ValueRules` raises a problem that names the place of the value.

Other clients store types that JSON lacks: bytes, geographical points, references to records. They are read as maps with
one name that no user's map can have, and written back unchanged. So a document with such values is found, shown, copied
and normalized like any other, and loses nothing.

    {"__bytes__": "AAEC"}                          in base64
    {"__geo_point__": [48.85, 2.35]}               latitude, longitude
    {"__reference__": "projects/…/documents/d/a"}  a record's whole name
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NoReturn

from signalbox.core.keys import MEMOISED, NAME_BYTES_MAX, name_bytes, printable
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import BadValue, Problem, TooDeep, TooLarge
from signalbox.core.records.queries import Field
from signalbox.core.times import microseconds

Path = tuple[str | int, ...]

FIELD_NAME_CHARACTERS_MAX = 2_000


def field_name(place: Path) -> str:
    """Return a path as a problem's `field` names it: ``address.tags[2]``, cut to 2,000 characters.

    Lone surrogates are escaped, so that the text can be sent.
    """
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
    return text.encode("utf-8", "backslashreplace").decode()[:FIELD_NAME_CHARACTERS_MAX]


BYTES, POINT, REFERENCE = "__bytes__", "__geo_point__", "__reference__"

NATIVE_FIELDS = {BYTES: "bytes_value", POINT: "geo_point_value", REFERENCE: "reference_value"}

POINT_BYTES = 16


def mark_of(value: Mapping[str, Any]) -> str:
    """Return the mark of the native type that a map encodes, or an empty text if it is an ordinary map."""
    mark = next(iter(value), "") if len(value) == 1 else ""
    return mark if mark in NATIVE_FIELDS else ""


def raw_bytes(text: str) -> bytes:
    """Return the bytes that a text encodes. Raises `ValueError`."""
    return base64.b64decode(text, validate=True)


def native_size(value: Mapping[str, Any]) -> int | None:
    """Return the size of a native value, or None for an ordinary map."""
    try:
        return check_native(value) if mark_of(value) else None
    except ValueError:
        return None


def check_native(value: Mapping[str, Any]) -> int:
    """Return the size of a native value. Raises `ValueError` if it is malformed."""
    [(mark, held)] = value.items()
    if mark == POINT:
        latitude, longitude = held if isinstance(held, list) and len(held) == 2 else (None, None)
        if not (_within_degrees(latitude, 90) and _within_degrees(longitude, 180)):
            raise ValueError("a point is [latitude, longitude]")
        return POINT_BYTES
    if not isinstance(held, str) or (mark == BYTES and not held.isascii()):
        raise ValueError(f"{mark} stands for a text")
    try:
        return len(raw_bytes(held)) if mark == BYTES else len(held.encode())
    except binascii.Error as error:
        raise ValueError("bytes are written in base64") from error


def _within_degrees(number: Any, most: float) -> bool:
    return type(number) in {int, float} and -most <= number <= most


LEVELS_MAX = 20
"""The most maps and lists inside each other, without the record itself. It also limits the names of a `Field`."""


PATH_BYTES_MAX = NAME_BYTES_MAX
"""Bytes of the names from the record to a field, with the dots between them."""


INTEGER_MAX = 2**63 - 1
"""Firestore's integers have 64 bits."""

RECORD_BYTES_MAX = 1_048_576

TEXT_BYTES_MAX = RECORD_BYTES_MAX - 89

_RECORD_BYTES_BARE = 32

_RECORD_NAME_BYTES_BARE = 16

_YEAR_1 = -62_135_596_800_000_000

_YEAR_9999 = 253_402_300_799_999_999

_NESTING = frozenset((dict, list))
"""The types of values that contain values. Most values have none of them, and are measured without a call."""

_UNLIMITED: Mapping[type, int] = {bool: 1, float: 8, type(None): 1}
"""The types of which every value can be stored, mapped to the size of a value."""


def size_bytes(value: Any) -> int:
    """Return the size of a value as stored."""
    kind = type(value)
    if kind is str:
        return 1 + (len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass")))
    if kind is dict:
        if len(value) == 1 and (native_bytes := native_size(value)) is not None:
            return native_bytes
        return map_bytes(value) or 1
    if kind is list:
        return sum([size_bytes(item) for item in value]) or 1
    return 1 if value is None or kind is bool else 8


def map_bytes(value: Mapping[str, Any]) -> int:
    """Return the size of a map's names and values."""
    size = 0
    for name, item in value.items():
        is_ascii = type(item) is str and item.isascii()  # most values are, and are measured without a call
        size += _label_bytes(name) + (len(item) + 1 if is_ascii else size_bytes(item))
    return size


def index_entries(value: Any) -> int:
    """Return the number of entries of a value in Firestore's own indexes: two for a field, one for a list's item."""
    if isinstance(value, dict) and not _is_native(value):
        return sum([index_entries(item) if type(item) in _NESTING else 2 for item in value.values()])
    return len(value) if isinstance(value, list) else 2


def depth(value: Any) -> int:
    """Return the number of nested maps and lists in a value."""
    if isinstance(value, dict):
        return 0 if _is_native(value) else 1 + _depth_within(value.values())
    return 1 + _depth_within(value) if isinstance(value, list) else 0


def _depth_within(items: Iterable[Any]) -> int:
    return max([depth(item) for item in items if type(item) in _NESTING], default=0)


def path_bytes(value: Any) -> int:
    """Return the size of the longest path of names into a value, including the dots."""
    if isinstance(value, dict) and not _is_native(value):
        sizes = [
            _label_bytes(name) + (path_bytes(item) if type(item) in _NESTING else 0) for name, item in value.items()
        ]
        return max(sizes, default=0)
    return max(map(path_bytes, value), default=0) if isinstance(value, list) else 0


def _is_native(value: dict[str, Any]) -> bool:
    return native_size(value) is not None


def place_bytes(place: Path) -> int:
    """Return the size of the names that lead to a place, including their dots."""
    return sum(_label_bytes(step) for step in place if isinstance(step, str))


@lru_cache(MEMOISED)
def _label_bytes(name: str) -> int:
    return len(name.encode("utf-8", "surrogatepass")) + 1


def record_bytes(path: str, fields_bytes: int) -> int:
    """Return the size of a record whose fields take `fields_bytes`. Raises `TooLarge` over Firestore's limit."""
    size = _record_name_bytes(path) + _RECORD_BYTES_BARE + fields_bytes
    if size > RECORD_BYTES_MAX:
        raise TooLarge(f"A record has at most {RECORD_BYTES_MAX:,} bytes; this one has {size:,}.")
    return size


@lru_cache(MEMOISED)
def _record_name_bytes(path: str) -> int:
    return len(path.encode()) + 1 + _RECORD_NAME_BYTES_BARE


def _plain_bytes(value: Any) -> int:
    """Return the size of a value that can be stored at any place, or 0. This is faster than the full check."""
    kind = type(value)
    if kind is str:
        return len(value) + 1 if value.isascii() and len(value) <= TEXT_BYTES_MAX else 0
    if kind is int:
        return 8 if -INTEGER_MAX - 1 <= value <= INTEGER_MAX else 0
    if kind is datetime and value.tzinfo is UTC:  # in UTC, a `datetime` lies in the years 1 to 9999
        return 8
    return _UNLIMITED.get(kind, 0)


@dataclass(frozen=True, slots=True)
class ValueRules:
    """The rules for values. `levels_max` limits the depth of maps and lists; `natives` allows native types.

    Types must match exactly, since a subclass would be read back as another type; subclasses of `datetime` are allowed.
    ``names_bytes`` is the size of the names above a value, including their dots. ``name`` formats a place for the
    problem's `field`. A check returns the size of the checked value, so that no value is walked twice.
    """

    levels_max: int = LEVELS_MAX
    natives: bool = True
    name: Callable[[Path], str] = field_name

    def check_map(self, items: Iterable[tuple[Any, Any]], place: Path = (), names_bytes: int = 0) -> int:
        """Return the size of a map's names and values (`map_bytes`).

        Raises `BadValue`, `TooDeep` or `TooLarge` if one of them cannot be stored.
        """
        size = 0
        for label, value in items:
            own_bytes = name_bytes(label) if type(label) is str else 0
            if not own_bytes or names_bytes + own_bytes > PATH_BYTES_MAX + 1:
                self.check_name(label, place, names_bytes)
            value_bytes = _plain_bytes(value) or self.check(value, (*place, label), names_bytes + own_bytes)
            size += own_bytes + value_bytes
        return size

    def check(self, value: Any, place: Path, names_bytes: int = 0) -> int:
        """Return the size of a value (`size_bytes`).

        Raises `BadValue`, `TooDeep` or `TooLarge` if it cannot be stored at a place.
        """
        kind = type(value)
        if kind is str:
            return self._check_text(value, place)
        if kind is int:
            return self._check_integer(value, place)
        if kind is dict:
            return self._check_dict(value, place, names_bytes)
        if kind is list:
            return self._check_list(value, place, names_bytes)
        return _UNLIMITED.get(kind) or self._check_time(value, place)

    def check_name(self, name: Any, place: Path, names_bytes: int) -> int:
        """Return the bytes of a name, including its dot, in the map at a place. Raises `BadValue`."""
        size = name_bytes(name) if type(name) is str else 0
        if not size or names_bytes + size > PATH_BYTES_MAX + 1:
            self._refuse(
                f"{printable(name)} cannot be a field's name: it has 1 to {PATH_BYTES_MAX} bytes of UTF-8, the names "
                "above and their dots included, and is not __…__.",
                (*place, name),
            )
        return size

    def check_field(self, field: Field) -> int:
        """Return the bytes of a field's names, with their dots. Raises `BadValue`."""
        if not 1 <= len(field) <= LEVELS_MAX:
            self._refuse(f"A field has 1 to {LEVELS_MAX} names.", field)
        size = 0
        for level, name in enumerate(field):
            size += self.check_name(name, field[:level], size)
        return size

    def _check_dict(self, value: dict[Any, Any], place: Path, names_bytes: int) -> int:
        if self.natives and mark_of(value):
            try:
                return check_native(value)
            except ValueError as error:
                self._refuse(f"{error}.", place)
        self._check_level(place)
        return self.check_map(value.items(), place, names_bytes) or 1

    def _check_list(self, items: list[Any], place: Path, names_bytes: int) -> int:
        self._check_level(place)
        if place and type(place[-1]) is int:
            self._refuse("A list cannot lie directly in a list; put a map between.", place)
        size = 0
        for index, item in enumerate(items):
            size += _plain_bytes(item) or self.check(item, (*place, index), names_bytes)
        return size or 1

    def _check_level(self, place: Path) -> None:
        if len(place) > self.levels_max:
            self._refuse(f"Objects and lists nest at most {LEVELS_MAX} deep.", place, TooDeep)

    def _check_integer(self, value: int, place: Path) -> int:
        if not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
            self._refuse("This integer does not fit into 64 bits; send it as a string or a float.", place)
        return 8

    def _check_text(self, text: str, place: Path) -> int:
        try:
            size = len(text) if text.isascii() else len(text.encode())
        except UnicodeEncodeError:
            self._refuse("This text has a lone surrogate, which UTF-8 cannot hold.", place)
        if size > TEXT_BYTES_MAX:
            self._refuse(f"A text has at most {TEXT_BYTES_MAX:,} bytes; this one has {size:,}.", place, TooLarge)
        return size + 1

    def _check_time(self, value: Any, place: Path) -> int:
        if not isinstance(value, datetime):
            self._refuse(f"A record cannot hold a {type(value).__name__}.", place)
        if value.tzinfo is None or value.utcoffset() is None:
            self._refuse("A time needs its zone.", place)
        if not _YEAR_1 <= microseconds(value) <= _YEAR_9999:
            self._refuse("A time lies in the years 1 to 9999, in UTC.", place)
        return 8

    def _refuse(self, detail: str, place: Path, problem: type[Problem] = BadValue) -> NoReturn:
        raise problem(detail, field=self.name(place))


RECORD = ValueRules()
"""The rules for the fields of a record."""


def same(one: Any, other: Any) -> bool:
    """Return whether two values are stored identically: 1 is not 1.0, 0.0 is not -0.0, NaN is NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return repr(one) == repr(other)
    return bool(one == other)
