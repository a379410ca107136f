"""What all queues of a server share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from infra.local.chaos import Chaos
from infra.local.cloud_tasks.messages import Message
from infra.local.cloud_tasks.progress import DispatchResult, Executions, Progress
from infra.local.cloud_tasks.queue_rules import Tombstones
from infra.local.cloud_tasks.storage import TaskStorage

Deliver = Callable[[Message, Progress], Awaitable[DispatchResult]]
"""Sends a task to its worker and never raises. The progress includes the attempt."""


@dataclass(frozen=True, slots=True)
class QueueContext:
    """`clock` gives seconds since 1970; `tombstone_seconds` is how long the name of a task that is gone stays taken."""

    storage: TaskStorage
    deliver: Deliver
    tombstones: Tombstones
    clock: Callable[[], float]
    chaos: Chaos
    executions: Executions
    tombstone_seconds: float
