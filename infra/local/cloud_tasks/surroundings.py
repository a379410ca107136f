"""What all queues of a server share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from infra.local.cloud_tasks.chaos import Chaos
from infra.local.cloud_tasks.journal import Journal
from infra.local.cloud_tasks.messages import Message
from infra.local.cloud_tasks.progress import Answer, Executions, Progress
from infra.local.cloud_tasks.queues import Tombstones

Deliver = Callable[[Message, Progress], Awaitable[Answer]]
"""Sends a task to its worker and never raises. The progress includes the attempt."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`clock` gives seconds since 1970; `tombstone_seconds` is how long the name of a task that is gone stays taken."""

    journal: Journal
    deliver: Deliver
    tombstones: Tombstones
    clock: Callable[[], float]
    chaos: Chaos
    executions: Executions
    tombstone_seconds: float
