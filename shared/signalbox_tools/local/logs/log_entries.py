"""Read a line of a log as values.

User code can write any line into the log, and a caller chooses parts of others. So a line is not one of the kit's if a
member that must be a number is not one. A member that must be a text and is not one is left out.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

NUMBERS = frozenset({"status", "attempt", "milliseconds", "reads", "writes", "deletes", "round_trips", "tasks"})
TEXTS = frozenset(
    {
        *("severity", "message", "time", "function", "service", "exception", "problem", "text"),
        *("kind", "path", "method", "id", "task_name", "page"),
    }
)
NUMBER_MAX = 10**12


def object_of(line: str | bytes) -> dict[str, Any] | None:
    """Return the object that a line of JSON is, or None for any other line."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def entry_of(line: str | bytes) -> dict[str, Any] | None:
    """Return the members of a line of JSON that can be of the kit, or None."""
    said = object_of(line)
    if said is None or not all(_is_number(said[name]) for name in NUMBERS & said.keys()):
        return None
    return {name: value for name, value in said.items() if name not in TEXTS or isinstance(value, str)}


def time_of(entry: Mapping[str, Any]) -> datetime | None:
    """Return the time of a line, in the zone of this machine, or None."""
    try:
        return datetime.fromisoformat(entry["time"]).astimezone()
    except (KeyError, ValueError, OverflowError, OSError):
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= NUMBER_MAX  # not NaN either, which compares with nothing
