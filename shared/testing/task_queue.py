"""Cloud Tasks in this process: a name is taken once, and nothing is delivered before a test delivers it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.core.rules.effects import Effect
from shared.testing.clock import ManualClock

RETRY_SECONDS = 1.0
"""Before a task is delivered again whose answer was none or no 2xx."""


@dataclass(slots=True)
class Attempts:
    """Earlier deliveries of a task as its headers count them, and when the next one is due."""

    executions: int = 0
    retries: int = 0
    due_at: datetime | None = None


class HeldTaskQueue:
    """A `TaskQueue` whose tasks wait in the list `tasks`, oldest first. A test may take out, reorder or put back.

    While `refusal` is an exception, the queue raises it instead of taking tasks.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.tasks: list[Effect] = []
        self.names: set[str] = set()
        self.refusal: Exception | None = None
        self._clock = clock
        self._attempts: dict[str, Attempts] = {}

    def create(self, effects: Sequence[Effect]) -> None:
        """Take tasks; a name that was taken before is a no-op."""
        if self.refusal:
            raise self.refusal
        for effect in effects:
            if effect.name not in self.names:
                self.names.add(effect.name)
                self.tasks.append(effect)

    def attempts(self, task: Effect) -> Attempts:
        """Return the counts of a task, which a test may change."""
        return self._attempts.setdefault(task.name, Attempts())

    def due_at(self, task: Effect) -> datetime:
        """Return when a task may be delivered: its own time, or that of its retry; now if it has none."""
        times = (task.not_before, self.attempts(task).due_at, self._clock.now)
        return max(time for time in times if time is not None)

    def due(self) -> list[Effect]:
        """Return the tasks that may be delivered now, oldest first."""
        return [task for task in self.tasks if self.due_at(task) <= self._clock.now]

    def next_at(self) -> datetime:
        """Return when the next task is due; there must be one."""
        return min(map(self.due_at, self.tasks))

    def advance_to_next(self) -> None:
        """Move the clock to the time at which the next task is due."""
        self._clock.advance_to(self.next_at())

    def postpone(self, task: Effect, seconds: float) -> None:
        """Put a task back, to be delivered later."""
        self.attempts(task).due_at = self._clock.now + timedelta(seconds=seconds)
        self.tasks.append(task)

    def retry(self, task: Effect, *, executed: bool) -> None:
        """Put a task back after a delivery that failed; `executed`: whether a process had answered it."""
        attempts = self.attempts(task)
        attempts.executions += executed
        attempts.retries += 1
        self.postpone(task, RETRY_SECONDS)
