"""The attempts of a user's task: the starts of its code that were counted, and its last error while it is retried.

attempts/{operation}    both of them
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, field, fields
from datetime import datetime, timedelta
from typing import Any, Self

from signalbox.core.deliveries import Delivered
from signalbox.core.lazy_dataclasses import dataclass

ATTEMPTS = "attempts"
ERRED_AT, BATCH = "erred_at", "batch"


def record_path(operation: str) -> str:
    """Return the path of the record that counts the starts of a task's code."""
    return f"{ATTEMPTS}/{operation}"


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The running attempt: `operation` is the same in every attempt, `attempt` counts the starts of the code from 1.

    After `attempts_max` attempts the task is given up. `trace` is a W3C ``traceparent``. `reason` says why the wait of
    an `on_timeout` task ended: ``deadline``, or ``permits`` if the semaphore has fewer than it needs; otherwise it is
    empty.
    """

    operation: str
    attempt: int
    attempts_max: int
    trace: str = ""
    _seconds_left: Callable[[], float] = field(default=float, compare=False, repr=False)
    _cancelled: Callable[[], bool] = field(default=bool, compare=False, repr=False)
    reason: str = ""

    @property
    def is_last(self) -> bool:
        """Whether the task is given up if this attempt fails."""
        return self.attempt >= self.attempts_max

    def seconds_left(self) -> float:
        """Return the seconds until Cloud Tasks delivers the task again, while this attempt still runs."""
        return max(0.0, self._seconds_left())

    def cancelled(self) -> bool:
        """Return whether the result is not needed, because the unit's batch has ended. May be a few seconds old."""
        return self._cancelled()


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a task's code: its number, from 1, and the number of earlier starts whose errors were noted."""

    number: int
    errors: int = 0


FIRST = Start(1)


# --- errors ---


@dataclass(frozen=True, slots=True)
class ErrorText:
    """The texts of an exception that are stored: one line, and the end of its traceback."""

    error: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class ErrorNote:
    """The error of the start `attempt` of a task's code. The queue delivers the task again after `pause_seconds`.

    The note is in the record that counts the starts. It is shown while it has `erred_at`: until the task returns or is
    given up. A unit's note also has `batch` for that time, so that the batch can show it. No rule depends on a note: if
    it cannot be written, it is left out.
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
        """Return the note in the record that counts starts, or None if there is none."""
        if record is None or "error" not in record:
            return None
        return cls(**{part.name: record[part.name] for part in fields(cls)})

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    def to_json(self, erred_at: datetime) -> dict[str, Any]:
        """Return the note as an answer shows it."""
        shown = {name: value for name, value in asdict(self).items() if name not in ("attempt", "pause_seconds")}
        next_at = erred_at + timedelta(seconds=self.pause_seconds)
        return shown | {"attempts": self.attempt, "failed_at": erred_at, "next_at": next_at}
