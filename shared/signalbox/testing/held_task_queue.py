"""The task queue of a test: tasks wait until the test delivers them."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from signalbox.adapters.logs import current_trace
from signalbox.core.effects import Effect
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.testing.manual_clock import ManualClock

RETRY_SECONDS = 1.0
"""Pause before a failed delivery of a task is repeated."""


@dataclass(slots=True)
class Attempts:
    """Earlier deliveries of a task as its headers count them, and the time at which the next one is due."""

    executions: int = 0
    retries: int = 0
    due_at: datetime | None = None


class HeldTaskQueue:
    """A `TaskQueue` whose tasks wait in the list `tasks`, oldest first, until a test delivers them.

    Each name can be used only once. A test may remove, reorder or add tasks. While `refusal` is an exception, the queue
    raises it instead of accepting tasks.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.tasks: list[Effect] = []
        self.names: set[str] = set()
        self.refusal: Exception | None = None
        self._clock = clock
        self._attempts: dict[str, Attempts] = {}

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        """Accept the tasks whose names are new; return the other names.

        A task without a trace gets that of the request.
        """
        if self.refusal:
            raise self.refusal
        taken = []
        for effect in effects:
            if effect.name in self.names:
                taken.append(effect.name)
            else:
                self.names.add(effect.name)
                self.tasks.append(replace(effect, trace=effect.trace or current_trace()))
        return taken

    def attempts(self, task: Effect) -> Attempts:
        """Return the counts of a task, which a test may change."""
        return self._attempts.setdefault(task.name, Attempts())

    def due_at(self, task: Effect) -> datetime:
        """Return the time at which a task may be delivered.

        This is the task's schedule time or the time of its retry, or now if the task has neither.
        """
        times = (task.not_before, self.attempts(task).due_at, self._clock.now)
        return max(time for time in times if time is not None)

    def due(self) -> list[Effect]:
        """Return the tasks that may be delivered now, oldest first."""
        return [task for task in self.tasks if self.due_at(task) <= self._clock.now]

    def next_at(self) -> datetime:
        """Return the time at which the next task is due; there must be one."""
        return min(map(self.due_at, self.tasks))

    def advance_to_next(self) -> None:
        """Move the clock to the time at which the next task is due."""
        self._clock.advance_to(self.next_at())

    def postpone(self, task: Effect, seconds: float) -> None:
        """Put a task back, to be delivered later."""
        self.attempts(task).due_at = self._clock.now + timedelta(seconds=seconds)
        self.tasks.append(task)

    def retry(self, task: Effect, *, executed: bool) -> None:
        """Put a task back after a failed delivery. `executed` is whether a process responded to it."""
        attempts = self.attempts(task)
        attempts.executions += executed
        attempts.retries += 1
        self.postpone(task, RETRY_SECONDS)
