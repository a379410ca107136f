"""All queues of the server, and what outlasts a restart of it.

Queues and tasks come back from the journal as they were; queues given at the start are created or brought into the
given shape, others stay.
"""

import asyncio
from collections.abc import Iterable, Iterator

from infra.local.cloud_tasks.line import Line
from infra.local.cloud_tasks.messages import RUNNING, Message
from infra.local.cloud_tasks.refusals import invalid, no_queue, queue_existed, queue_exists
from infra.local.cloud_tasks.requests import QUEUE_FORMAT, QUEUE_NAME
from infra.local.cloud_tasks.surroundings import Surroundings

QUEUE_TOMBSTONE_SECONDS = 3 * 24 * 3600
"""How long the real service keeps the name of a deleted queue."""


class Lines:
    """The queues by name."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.around = surroundings
        self._lines: dict[str, Line] = {}

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines.values())

    def find(self, name: str) -> Line:
        """Give a queue. Raises `Refusal` when there is none."""
        line = self._lines.get(name)
        if line is not None:
            return line
        raise no_queue() if QUEUE_NAME.fullmatch(name) else invalid(f'Queue name must be formatted: "{QUEUE_FORMAT}"')

    def has(self, name: str) -> bool:
        return name in self._lines

    def restore(self) -> None:
        """Read the journal."""
        self.around.tombstones.ends_at.update(self.around.journal.tombstones())
        for message in self.around.journal.queues():
            self._lines[message.name] = Line(message, self.around)
        for queue_name, named, spec, progress in self.around.journal.tasks():
            self._lines[queue_name].restore(spec, progress, named)

    async def configure(self, messages: Iterable[Message]) -> None:
        """Create the given queues, or update them: their state and their tasks stay."""
        for message in messages:
            if self.has(message.name):
                await self.reconfigure(self.find(message.name), message)
            else:
                await self._open(message)

    def begin(self) -> None:
        """Start to dispatch."""
        for line in self:
            line.begin()

    async def create(self, message: Message) -> Line:
        """Create a queue. Raises `Refusal` when its name is taken, or was until lately."""
        if self.has(message.name):
            raise queue_exists()
        if self.around.tombstones.holds(message.name, self.around.clock()):
            raise queue_existed()
        line = await self._open(message)
        line.begin()
        return line

    async def reconfigure(self, line: Line, message: Message) -> None:
        """Give a queue another configuration; its state is not part of it."""
        message.state = line.message.state
        if line.message.HasField("purge_time"):
            message.purge_time.CopyFrom(line.message.purge_time)
        line.configure(message)
        await self.save(line)

    async def save(self, line: Line) -> None:
        await asyncio.shield(self.around.journal.save_queue(line.message))

    async def delete(self, name: str) -> None:
        """Delete a queue and its tasks. Its name stays taken for days."""
        line = self.find(name)
        del self._lines[name]
        line.stop()
        line.clear()
        ends_at = self.around.clock() + QUEUE_TOMBSTONE_SECONDS
        self.around.tombstones.bury(name, ends_at)
        await asyncio.shield(self.around.journal.delete_queue(name, ends_at))

    def expire(self) -> None:
        """Forget the names that are free again."""
        now = self.around.clock()
        self.around.tombstones.expire(now)
        self.around.journal.expire(now)

    def stop(self) -> None:
        for line in self:
            line.stop()

    async def _open(self, message: Message) -> Line:
        message.state = message.state or RUNNING
        line = self._lines[message.name] = Line(message, self.around)
        self.around.tombstones.ends_at.pop(message.name, None)
        await self.save(line)
        return line
