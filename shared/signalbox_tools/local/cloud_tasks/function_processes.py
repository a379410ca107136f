"""The stack's function processes: tasks reach them, and are created by them, over connections that stay open.

A task for another address, or without a connection, is sent over HTTP. Limits, retries, headers and tokens are those
of HTTP deliveries: only the transport differs. Each connection is one thread of a function process and has one task at
a time. Tasks wait here, as dispatched, while all threads are busy; with HTTP they would wait in the server's backlog.
"""

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import grpc

from signalbox_tools.local.cloud_tasks.api_errors import RpcError, not_stored
from signalbox_tools.local.cloud_tasks.protobuf_messages import Message, Task, set_seconds
from signalbox_tools.local.cloud_tasks.queue_rules import retry_after_seconds
from signalbox_tools.local.cloud_tasks.task_attempts import DEADLINE_EXCEEDED, UNAVAILABLE, DispatchResult
from signalbox_tools.local.task_channel import CREATES, LEAVING, BadFrame, FrameReader, frame

Create = Callable[[str, Message], Awaitable[None]]
"""Create a task of a queue. Raises `RpcError`."""

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Delivery:
    """A task on its way. Its result is None if no process is left that it could be sent to."""

    sent: bytes
    result: "asyncio.Future[DispatchResult | None]"
    connection: "_Connection | None" = None


@dataclass(slots=True, eq=False)
class _Process:
    """A process of the functions, by its connections without a task and the number of those with one."""

    idle: "list[_Connection]" = field(default_factory=list)
    busy: int = 0


class FunctionProcesses:
    """The processes that serve the functions at `base_url`."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._processes: dict[int, _Process] = {}
        self._waiting: deque[_Delivery] = deque()

    def serve(self, url: str) -> bool:
        """Return whether a task for this address can be sent to one of the processes now.

        HTTP encodes an address with other characters than those of ASCII.
        """
        return bool(self._processes) and url.startswith(self._base_url) and url.isascii()

    async def deliver(self, sent: bytes, seconds_max: float) -> DispatchResult | None:
        """Send the frame of a task; return its result, or None if no process is left that it could be sent to."""
        delivery = _Delivery(sent, asyncio.get_running_loop().create_future())
        if connection := self._free():
            connection.start(delivery)
        else:
            self._waiting.append(delivery)
        try:
            async with asyncio.timeout(seconds_max):
                return await delivery.result
        except TimeoutError:
            if delivery.connection:
                delivery.connection.give_up(delivery)
            return DispatchResult(None, DEADLINE_EXCEEDED)

    def begin(self, connection: "_Connection", process: int) -> None:
        """Add a connection of a process."""
        self._processes.setdefault(process, _Process()).busy += 1
        self.end(connection, process)

    def end(self, connection: "_Connection", process: int) -> None:
        """Give a connection without a task the next one."""
        while self._waiting:
            delivery = self._waiting.popleft()
            if not delivery.result.done():
                connection.start(delivery)
                return
        known = self._processes[process]
        known.busy -= 1
        known.idle.append(connection)

    def leave(self, connection: "_Connection", process: int) -> None:
        """Remove a connection, which may have a task."""
        known = self._processes[process]
        if connection in known.idle:
            known.idle.remove(connection)
        else:
            known.busy -= 1
        if not known.idle and not known.busy:
            del self._processes[process]
        if not self._processes:
            while self._waiting:
                _resolve(self._waiting.popleft(), None)

    def _free(self) -> "_Connection | None":
        """Take a connection of the process with the fewest tasks: the one that was used last."""
        free = [process for process in self._processes.values() if process.idle]
        if not free:
            return None
        process = min(free, key=lambda each: each.busy)
        process.busy += 1
        return process.idle.pop()


class _Connection(asyncio.Protocol):
    """A connection that a function process has opened."""

    def __init__(self, processes: FunctionProcesses, create: Create) -> None:
        self._processes = processes
        self._create = create
        self._reader = FrameReader()
        self._process: int | None = None
        self._is_open = self._creates = self._leaving = False
        self._delivery: _Delivery | None = None
        self._creating: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a stream"
        self._transport, self._is_open = transport, True

    def data_received(self, data: bytes) -> None:
        try:
            for value, body in self._reader.frames(data):
                self._received(value, body)
        except (BadFrame, LookupError, TypeError, ValueError):  # a program that uses another protocol
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio calls it
        self._is_open = False
        if self._process is not None:
            self._left()
        if self._delivery:
            _resolve(self._delivery, DispatchResult(None, UNAVAILABLE))

    def start(self, delivery: _Delivery) -> None:
        """Send a task to the function."""
        self._delivery, delivery.connection = delivery, self
        self._transport.write(delivery.sent)

    def give_up(self, delivery: _Delivery) -> None:
        """End the connection if it still has this task: an answer without an end ends with it, as over HTTP."""
        if self._delivery is delivery:
            self._transport.abort()

    def _received(self, value: Any, body: bytes) -> None:
        if self._creates:
            creating = asyncio.get_running_loop().create_task(self._answer(value, body))
            self._creating.add(creating)
            creating.add_done_callback(self._creating.discard)
        elif self._process is not None:
            self._responded(value)
        elif value == CREATES:
            self._creates = True
        else:
            self._process = int(value["process"])
            self._processes.begin(self, self._process)

    def _responded(self, value: Any) -> None:
        if value == LEAVING:
            self._leaving = True
        else:
            status, retry_after = value
            if self._delivery is None:
                raise BadFrame("a response without a task")
            seconds = retry_after_seconds(retry_after, time.time()) if retry_after else 0.0
            _resolve(self._delivery, DispatchResult(int(status), f"HTTP status code {status}", seconds))
            self._delivery = None
        if self._delivery is None:
            if self._leaving:
                self._left()
                self._transport.close()
            elif self._process is not None:
                self._processes.end(self, self._process)

    def _left(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            self._processes.leave(self, process)

    async def _answer(self, value: Any, body: bytes) -> None:
        number, parent, task = value
        try:
            await self._create(parent, _task(task, body))
            answer = (number, 0, "")
        except RpcError as refusal:
            answer = (number, refusal.code.value[0], refusal.message)
        except sqlite3.Error as error:
            log.error("storage failed", exc_info=error)
            answer = (number, not_stored().code.value[0], not_stored().message)
        except Exception as error:  # as over gRPC: the caller would wait for its time-out
            log.exception("task not created")
            answer = (number, grpc.StatusCode.UNKNOWN.value[0], str(error))
        if self._is_open:
            self._transport.write(frame(answer))


def _task(fields: dict[str, Any], body: bytes) -> Message:
    """Return the task of a request of a function."""
    task = Task(name=fields["name"], http_request={**fields["http_request"], "body": body})
    task.dispatch_deadline.seconds = fields["deadline_seconds"]
    if fields["due_at"] is not None:
        set_seconds(task.schedule_time, fields["due_at"])
    return task


def _resolve(delivery: _Delivery, result: DispatchResult | None) -> None:
    if not delivery.result.done():
        delivery.result.set_result(result)


async def serve(processes: FunctionProcesses, create: Create, port: int, closing: AsyncExitStack) -> None:
    """Listen for the function processes on a port of 127.0.0.1."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(processes, create), "127.0.0.1", port)
    closing.callback(server.close)
