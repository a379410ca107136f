"""Read a line of a log as values.

User code can write any line into the log, and a caller chooses parts of others. So each member has the type that
readers expect, or the line is a text like any other.
"""

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

WHOLE = frozenset({"status", "attempt", "reads", "writes", "deletes", "round_trips", "tasks"})
TEXTS = frozenset(
    {
        *("severity", "message", "time", "function", "service", "exception", "problem", "text"),
        *("kind", "path", "method", "id", "task_name", "page"),
    }
)
NUMBER_MAX = 10**12


def entry_of(line: str | bytes) -> dict[str, Any] | None:
    """Return the members of a line of JSON, or None for any other line, and if a member has another type."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not all(_is_of_its_type(name, value) for name, value in said.items()):
        return None
    return said


def time_of(entry: Mapping[str, Any]) -> datetime | None:
    """Return the time of a line, in the zone of this machine, or None."""
    try:
        return datetime.fromisoformat(entry["time"]).astimezone()
    except (KeyError, ValueError, OverflowError, OSError):
        return None


def _is_of_its_type(name: str, value: object) -> bool:
    if name in WHOLE:
        return type(value) is int and 0 <= value <= NUMBER_MAX
    if name == "milliseconds":
        return type(value) in (int, float) and math.isfinite(value) and 0 <= value <= NUMBER_MAX  # type: ignore[arg-type,operator]  # a number, by its type
    return name not in TEXTS or isinstance(value, str)
