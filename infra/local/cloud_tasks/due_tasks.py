"""The waiting tasks of a queue in the order of their times.

A heap whose entries count only while they carry their task's latest ticket, so that rescheduling and removing a task
cost nothing: the void entry is dropped when it comes up. Equal times come up in the order in which they were put.
"""

import asyncio
import heapq
import itertools
from dataclasses import dataclass, field

from infra.local.cloud_tasks.messages import Message
from infra.local.cloud_tasks.progress import Progress

GONE = -1
NOT_QUEUED = 0


@dataclass(slots=True, eq=False)
class QueuedTask:
    """A task in a queue: what was asked for, how far it has come, whether its caller named it.

    `stored` is done when the task is on disk; None: it came from there.
    """

    spec: Message
    progress: Progress
    named: bool
    stored: "asyncio.Future[None] | None" = None
    ticket: int = NOT_QUEUED

    @property
    def gone(self) -> bool:
        """Tell whether the task is done, dropped or deleted."""
        return self.ticket == GONE


@dataclass(slots=True)
class DueTasks:
    """The line. `length` is the number of tasks in it."""

    length: int = 0
    _heap: list[tuple[float, int, QueuedTask]] = field(default_factory=list)
    _tickets: "itertools.count[int]" = field(default_factory=lambda: itertools.count(NOT_QUEUED + 1))

    def put(self, task: QueuedTask, due_at: float) -> None:
        """Put a task into the line, or elsewhere in it."""
        self._set_ticket(task, next(self._tickets))
        heapq.heappush(self._heap, (due_at, task.ticket, task))

    def cancel(self, task: QueuedTask) -> None:
        """Take a task out of the line; it still is the queue's."""
        self._set_ticket(task, NOT_QUEUED)

    def remove(self, task: QueuedTask) -> None:
        """Take out a task that is the queue's no more."""
        self._set_ticket(task, GONE)

    def next_due_at(self) -> float | None:
        """Give the time of the first task; None when nobody waits."""
        while self._heap and self._heap[0][1] != self._heap[0][2].ticket:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> QueuedTask:
        """Take the first task out of the line. Call `next_due_at` before."""
        task = heapq.heappop(self._heap)[2]
        self.cancel(task)
        return task

    def _set_ticket(self, task: QueuedTask, ticket: int) -> None:
        self.length += (ticket > NOT_QUEUED) - (task.ticket > NOT_QUEUED)
        task.ticket = ticket
