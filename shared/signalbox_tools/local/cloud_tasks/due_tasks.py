"""The pending tasks of a queue, ordered by their schedule times.

The heap contains tickets. Only a task's latest ticket is valid, so rescheduling and removing a task cost nothing: an
old entry is dropped when it is popped. Equal times are popped in the order in which they were put.
"""

import asyncio
import heapq
import itertools
from dataclasses import dataclass, field

from signalbox_tools.local.cloud_tasks.protobuf_messages import Message
from signalbox_tools.local.cloud_tasks.task_attempts import Progress

GONE = -1
NOT_QUEUED = 0


@dataclass(slots=True, eq=False)
class QueuedTask:
    """A task in a queue: its request, its attempts so far, and whether its caller named it.

    `stored` is done when the task is on disk. It is None if the task was restored from there.
    """

    spec: Message
    progress: Progress
    named: bool
    stored: "asyncio.Future[None] | None" = None
    ticket: int = NOT_QUEUED

    @property
    def gone(self) -> bool:
        """Whether the task is done, dropped or deleted."""
        return self.ticket == GONE


@dataclass(slots=True)
class DueTasks:
    """A heap of tasks by due time. `length` is the number of tasks in it."""

    length: int = 0
    _heap: list[tuple[float, int, QueuedTask]] = field(default_factory=list)
    _tickets: "itertools.count[int]" = field(default_factory=lambda: itertools.count(NOT_QUEUED + 1))

    def put(self, task: QueuedTask, due_at: float) -> None:
        """Add a task, or move it to another time."""
        self._set_ticket(task, next(self._tickets))
        heapq.heappush(self._heap, (due_at, task.ticket, task))

    def cancel(self, task: QueuedTask) -> None:
        """Remove a task from the heap; it stays in the queue."""
        self._set_ticket(task, NOT_QUEUED)

    def remove(self, task: QueuedTask) -> None:
        """Remove a task that has left the queue."""
        self._set_ticket(task, GONE)

    def next_due_at(self) -> float | None:
        """Return the due time of the first task, or None if the heap is empty."""
        while self._heap and self._heap[0][1] != self._heap[0][2].ticket:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> QueuedTask:
        """Remove and return the first task. Call `next_due_at` first: it drops old entries."""
        task = heapq.heappop(self._heap)[2]
        self.cancel(task)
        return task

    def _set_ticket(self, task: QueuedTask, ticket: int) -> None:
        self.length += (ticket > NOT_QUEUED) - (task.ticket > NOT_QUEUED)
        task.ticket = ticket
