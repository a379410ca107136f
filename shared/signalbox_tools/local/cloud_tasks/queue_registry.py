"""All queues of the server, restored from the storage at a restart.

Queues that are named at the start are created or reconfigured; others are unchanged.
"""

import asyncio
from collections.abc import Iterable, Iterator

from signalbox_tools.local.cloud_tasks.api_errors import (
    invalid_argument,
    queue_exists,
    queue_name_used,
    queue_not_found,
)
from signalbox_tools.local.cloud_tasks.local_queue import LocalQueue
from signalbox_tools.local.cloud_tasks.protobuf_messages import RUNNING, Message, Queue
from signalbox_tools.local.cloud_tasks.request_validation import QUEUE_FORMAT, QUEUE_NAME, validate_queue
from signalbox_tools.local.cloud_tasks.shared_by_queues import QueueContext

QUEUE_TOMBSTONE_SECONDS = 3 * 24 * 3600
"""The time for which the real service keeps the name of a deleted queue."""


class QueueRegistry:
    """The queues by name."""

    def __init__(self, context: QueueContext) -> None:
        self.context = context
        self._queues: dict[str, LocalQueue] = {}

    def __iter__(self) -> Iterator[LocalQueue]:
        return iter(self._queues.values())

    def find(self, name: str) -> LocalQueue:
        """Return a queue. Raises `RpcError` if there is none."""
        queue = self._queues.get(name)
        if queue is not None:
            return queue
        raise (
            queue_not_found()
            if QUEUE_NAME.fullmatch(name)
            else invalid_argument(f'Queue name must be formatted: "{QUEUE_FORMAT}"')
        )

    def has(self, name: str) -> bool:
        return name in self._queues

    def restore(self) -> None:
        """Restore queues, tasks and tombstones from the storage."""
        self.context.tombstones.ends_at.update(self.context.storage.tombstones())
        for message in self.context.storage.queues():
            self._queues[message.name] = LocalQueue(message, self.context)
        for queue_name, named, spec, progress in self.context.storage.tasks():
            self._queues[queue_name].restore(spec, progress, named)

    async def configure(self, messages: Iterable[Message]) -> None:
        """Create the queues, or update their settings and keep their state and tasks."""
        for message in messages:
            if self.has(message.name):
                await self.reconfigure(self.find(message.name), message)
            else:
                await self._open(message)

    async def ensure(self, names: Iterable[str]) -> None:
        """Create the queues that do not exist, with the settings that Cloud Tasks gives by default."""
        for name in names:
            if not self.has(name):
                message = Queue(name=name)
                validate_queue(message)
                await self._open(message)

    def begin(self) -> None:
        """Start dispatching."""
        for queue in self:
            queue.begin()

    async def create(self, message: Message) -> LocalQueue:
        """Create a queue. Raises `RpcError` if its name is in use or was in use recently."""
        if self.has(message.name):
            raise queue_exists()
        if self.context.tombstones.holds(message.name, self.context.clock()):
            raise queue_name_used()
        queue = await self._open(message)
        queue.begin()
        return queue

    async def reconfigure(self, queue: LocalQueue, message: Message) -> None:
        """Reconfigure a queue and keep its state."""
        message.state = queue.message.state
        if queue.message.HasField("purge_time"):
            message.purge_time.CopyFrom(queue.message.purge_time)
        queue.configure(message)
        await self.save(queue)

    async def save(self, queue: LocalQueue) -> None:
        await asyncio.shield(self.context.storage.save_queue(queue.message))

    async def delete(self, name: str) -> None:
        """Delete a queue and its tasks. Its name stays reserved for days."""
        queue = self.find(name)
        del self._queues[name]
        queue.stop()
        queue.clear()
        ends_at = self.context.clock() + QUEUE_TOMBSTONE_SECONDS
        self.context.tombstones.add(name, ends_at)
        await asyncio.shield(self.context.storage.delete_queue(name, ends_at))

    def expire(self) -> None:
        """Delete expired tombstones."""
        now = self.context.clock()
        self.context.tombstones.expire(now)
        self.context.storage.expire(now)

    def stop(self) -> None:
        for queue in self:
            queue.stop()

    async def _open(self, message: Message) -> LocalQueue:
        message.state = message.state or RUNNING
        queue = self._queues[message.name] = LocalQueue(message, self.context)
        self.context.tombstones.ends_at.pop(message.name, None)
        await self.save(queue)
        return queue
