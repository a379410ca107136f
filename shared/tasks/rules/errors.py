"""The last error of a task that is being retried, noted beside the count of its starts.

The note is shown for as long as it has `erred_at`: until the task returns or is given up. A unit's note has `batch` as
long, so that its batch can show it. No rule needs a note: if it cannot be written, it is left out.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Self

from shared.core.rules.limits import LIMITS
from shared.tasks.rules.attempts import Attempt

ERRED_AT, BATCH = "erred_at", "batch"


@dataclass(frozen=True, slots=True)
class ErrorText:
    """An exception as it is kept: one line, and its traceback, of which the end counts."""

    error: str
    traceback: str = ""

    @classmethod
    def cut(cls, error: str, traceback: str) -> Self:
        """Return the texts as a record can hold them."""
        return cls(_readable(error)[: LIMITS.error_letters_max], _readable(traceback)[-LIMITS.traceback_letters_max :])


@dataclass(frozen=True, slots=True)
class ErrorNote:
    """What the start `attempt` of a task's code raised. The queue delivers it again after `pause_seconds` or more."""

    function: str
    task: str
    attempt: int
    error: str
    traceback: str
    trace: str
    pause_seconds: float

    @classmethod
    def of(cls, attempt: Attempt, number: int, text: ErrorText) -> Self:
        """Return the note of an error of a delivery."""
        what = attempt.function, attempt.task, number
        return cls(*what, text.error, text.traceback, attempt.trace, attempt.pause_seconds)

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self | None:
        """Return the note in the record that counts starts; None if nothing was noted."""
        if record is None or "error" not in record:
            return None
        return cls(**{each.name: record[each.name] for each in fields(cls)})

    def to_record(self) -> dict[str, Any]:
        """Return the fields of the note."""
        return asdict(self)

    def to_json(self, erred_at: datetime) -> dict[str, Any]:
        """Return the note as an answer shows it."""
        shown = {name: value for name, value in asdict(self).items() if name not in ("attempt", "pause_seconds")}
        next_at = erred_at + timedelta(seconds=self.pause_seconds)
        return shown | {"attempts": self.attempt, "failed_at": erred_at, "next_at": next_at}


def explained(detail: str, note: ErrorNote | None) -> str:
    """Return why a task was given up, with its last error if one was noted."""
    return f"{detail} Last error: {note.error}" if note else detail


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
