"""The parts that all queues of a server share: storage, delivery, clock and injected faults."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from signalbox_tools.local.cloud_tasks.protobuf_messages import Message
from signalbox_tools.local.cloud_tasks.queue_rules import Tombstones
from signalbox_tools.local.cloud_tasks.sqlite_storage import TaskStorage
from signalbox_tools.local.cloud_tasks.task_attempts import DispatchResult, Progress
from signalbox_tools.local.injected_faults import Chaos

Deliver = Callable[[Message, Progress], Awaitable[DispatchResult]]
"""Delivers a task to its worker and never raises. The progress includes this attempt."""


@dataclass(frozen=True, slots=True)
class QueueContext:
    """Storage, delivery, clock and faults of all queues. `clock` returns seconds since 1970.

    `tombstone_seconds` is the time for which a finished task's name stays reserved. `targets`
    has the addresses of tasks without one, by the queue's name.
    """

    storage: TaskStorage
    deliver: Deliver
    tombstones: Tombstones
    clock: Callable[[], float]
    chaos: Chaos
    tombstone_seconds: float
    targets: Mapping[str, str] = field(default_factory=dict)
