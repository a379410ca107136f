"""The attempts of a user's task: the starts of its code that were counted, and its last error while it is retried.

attempts/{operation} the starts, and the last error
"""

from collections.abc import Callable
from dataclasses import field
from datetime import datetime

from signalbox.core.lazy_dataclasses import dataclass


def _unknown_time() -> datetime:
    raise LookupError("This TaskContext was not made by the kit, so it has no clock: run the task in a Harness.")


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The running attempt of a task.

    - `operation`: the id of the task, which is the same in every attempt.
    - `attempt`: the number of starts of the code, from 1. After `attempts_max` attempts the task is given up.
    - `trace`: a W3C ``traceparent``.
    - `reason`: for an `on_timeout` task, the reason for the end of the wait: ``deadline``, or ``permits`` if the
      semaphore has fewer than the wait needs. Otherwise empty.
    - `scheduled_at`: the planned time, in UTC, of the schedule that has enqueued the task: the same in every attempt,
      and in a retry on the next day. None for a task that no schedule has enqueued.
    """

    operation: str
    attempt: int
    attempts_max: int
    trace: str = ""
    _seconds_left: Callable[[], float] = field(default=float, compare=False, repr=False)
    _cancelled: Callable[[], bool] = field(default=bool, compare=False, repr=False)
    reason: str = ""
    _now: Callable[[], datetime] = field(default=_unknown_time, compare=False, repr=False)
    scheduled_at: datetime | None = None

    @property
    def is_last(self) -> bool:
        """Whether the task is given up if this attempt fails."""
        return self.attempt >= self.attempts_max

    def seconds_left(self) -> float:
        """Return the seconds until Cloud Tasks delivers the task again, while this attempt still runs."""
        return max(0.0, self._seconds_left())

    def now(self) -> datetime:
        """Return the present time in UTC. In a test, that of the harness, which `travel` moves."""
        return self._now()

    def cancelled(self) -> bool:
        """Return whether the result is not needed, because the unit's batch has ended. May be a few seconds old."""
        return self._cancelled()


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a task's code: its number, from 1, and the number of earlier starts whose errors were noted."""

    number: int
    errors: int = 0


FIRST = Start(1)
