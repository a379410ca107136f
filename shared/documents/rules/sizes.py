"""The size of a document's parts: in bytes, and in entries of Firestore's indexes. Both are limited.

And whether a record is so large that an event which carries it may not arrive.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.core.rules import record_values, values
from shared.core.rules.limits import LIMITS


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes and index entries, added and compared side by side."""

    bytes: int = 0
    index_entries: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.bytes + other.bytes, self.index_entries + other.index_entries)

    def __sub__(self, other: "Size") -> "Size":
        return Size(self.bytes - other.bytes, self.index_entries - other.index_entries)

    def fits_into(self, room: "Size") -> bool:
        """Return whether neither is more than in `room`."""
        return self.bytes <= room.bytes and self.index_entries <= room.index_entries

    def at_least(self, other: "Size") -> "Size":
        """Return the larger of each."""
        return Size(max(self.bytes, other.bytes), max(self.index_entries, other.index_entries))


def size_of(value: Any) -> Size:
    """Return the size of a value as stored."""
    stored = values.encode(value)
    return Size(record_values.size_bytes(stored), record_values.index_entries(stored))


def size_max() -> Size:
    """Return the size that a document may have."""
    return Size(LIMITS.document_bytes_max, LIMITS.index_entries_max)


def described() -> str:
    """Return the limits in words."""
    return f"{LIMITS.document_bytes_max:,} bytes and {LIMITS.index_entries_max:,} index entries"


EVENT_BYTES_PER_VALUE = 8
"""What an event spells out with a value, beyond its size as stored: tags and lengths of it, its name and its kind."""


def exceeds_events(record: Mapping[str, Any]) -> bool:
    """Return whether a record is so large that an event which carries it twice may not arrive."""
    stored = record_values.map_bytes(record)
    if stored * (1 + EVENT_BYTES_PER_VALUE) <= LIMITS.event_record_bytes_max:  # each value is stored in a byte at least
        return False
    return stored + EVENT_BYTES_PER_VALUE * _values_in(record) > LIMITS.event_record_bytes_max


def _values_in(value: Any) -> int:
    """Return how many values a value consists of, itself counted."""
    if isinstance(value, Mapping | list):
        return 1 + sum(map(_values_in, value.values() if isinstance(value, Mapping) else value))
    return 1
