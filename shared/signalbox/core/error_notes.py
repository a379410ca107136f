"""The record of a task that was started: how often, and its last error while the queue retries it.

    attempts/{operation}    the starts of its code that were counted, and the note of its last error

Tasks write the record. A batch shows the last error of its units.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from typing import Any, Self

from signalbox.core.deliveries import Delivered
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.shown import RetriedTaskShown

ATTEMPTS = "attempts"
ERRED_AT, BATCH = "erred_at", "batch"

LAST_ERROR = " Last error: "
"""The text between the reason why a task was given up and the text of its last exception."""


def without_last_error(reason: str) -> str:
    """Return the reason why a task was given up, without the text of its last exception."""
    return reason.partition(LAST_ERROR)[0]


def record_path(operation: str) -> str:
    """Return the path of the record that counts the starts of a task's code."""
    return f"{ATTEMPTS}/{operation}"


@dataclass(frozen=True, slots=True)
class ErrorText:
    """The stored texts of an exception: one line, and the end of its traceback."""

    error: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class ErrorNote:
    """The error of the start `attempt` of a task's code. The queue delivers the task again after `pause_seconds`.

    The note is stored in the record that counts the starts. Lists show the note while the record has `erred_at`, until
    the task returns or is given up. Until then, a unit's note also has `batch`, so that the batch can show the note. No
    rule depends on a note: if the write fails, the note is left out.
    """

    function: str
    task: str
    attempt: int
    error: str
    traceback: str
    trace: str
    pause_seconds: float

    @classmethod
    def of(cls, delivered: Delivered[Any], number: int, text: ErrorText) -> Self:
        """Return the note of a delivery's error."""
        what = delivered.function, delivered.task, number
        return cls(*what, text.error, text.traceback, delivered.trace, delivered.pause_seconds)

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self | None:
        """Return the note in the record that counts starts, or None if the record has no note."""
        if record is None or "error" not in record:
            return None
        return cls(**{part.name: record[part.name] for part in fields(cls)})

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    def shown(self, operation: str, erred_at: datetime) -> RetriedTaskShown:
        """Return the note of a task as an answer shows it."""
        what = self.function, self.task, self.error, self.traceback, self.trace, self.attempt
        return RetriedTaskShown(
            operation, "retrying", *what, erred_at, erred_at + timedelta(seconds=self.pause_seconds)
        )


def retried_task(operation: str, record: Mapping[str, Any] | None) -> RetriedTaskShown | None:
    """Return the last error of a task that is being retried, or None for any other record."""
    note = ErrorNote.from_record(record)
    if note is None or record is None or ERRED_AT not in record:
        return None
    return note.shown(operation, record[ERRED_AT])
