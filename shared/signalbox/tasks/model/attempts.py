"""The attempts of a user's task: the starts of its code that were counted, and its last error while it is retried.

attempts/{operation}    both of them
"""

from collections.abc import Callable
from dataclasses import field

from signalbox.core.lazy_dataclasses import dataclass


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
