"""Sizes of documents: their limits, and the size above which a record's event may not arrive.

Firestore limits both the bytes and the index entries of a record, so a size has both.
"""

from collections.abc import Mapping
from typing import Any

from signalbox.core import json_values
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import TooLarge
from signalbox.core.records import record_values
from signalbox.documents.limits import LIMITS


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes and a number of index entries. Operators apply to both."""

    bytes: int = 0
    index_entries: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.bytes + other.bytes, self.index_entries + other.index_entries)

    def __sub__(self, other: "Size") -> "Size":
        return Size(self.bytes - other.bytes, self.index_entries - other.index_entries)

    def fits_into(self, room: "Size") -> bool:
        """Return whether there is room for the bytes and for the index entries."""
        return self.bytes <= room.bytes and self.index_entries <= room.index_entries

    @property
    def room(self) -> "Size":
        """The size by which a document of this size may grow."""
        return Size(LIMITS.document_bytes_max, LIMITS.index_entries_max) - self

    def check(self, included: str) -> None:
        """Raise `TooLarge` if no document may have this size; `included` describes its contents."""
        if not Size().fits_into(self.room):
            limits = f"{LIMITS.document_bytes_max:,} bytes and {LIMITS.index_entries_max:,} index entries"
            raise TooLarge(f"A document has at most {limits}, {included} included.")

    def at_least(self, other: "Size") -> "Size":
        """Return the larger number of bytes and the larger number of index entries."""
        return Size(max(self.bytes, other.bytes), max(self.index_entries, other.index_entries))


def size_of(value: Any) -> Size:
    """Return the size of a value as stored."""
    stored = json_values.encode(value)
    return Size(record_values.size_bytes(stored), record_values.index_entries(stored))


EVENT_BYTES_PER_VALUE = 8
"""The bytes that an event has for each value in addition to its stored size: tags and lengths of the value, its name
and its kind."""


def exceeds_events(record: Mapping[str, Any], record_bytes: int | None = None) -> bool:
    """Return whether a record is so large that an event which contains it twice may not arrive.

    `record_bytes` is the size of its names and values, if it is known.
    """
    stored = record_values.map_bytes(record) if record_bytes is None else record_bytes
    if stored * (1 + EVENT_BYTES_PER_VALUE) <= LIMITS.event_record_bytes_max:  # each value takes at least one byte
        return False
    return stored + EVENT_BYTES_PER_VALUE * _values_in(record) > LIMITS.event_record_bytes_max


def _values_in(value: Any) -> int:
    """Return the number of values that a value consists of, including itself."""
    if isinstance(value, Mapping | list):
        return 1 + sum(map(_values_in, value.values() if isinstance(value, Mapping) else value))
    return 1
