"""The processes of the stack's functions: tasks and events reach them over connections that the processes keep open.

Headers, tokens and limits are those of requests over HTTP: only the transport differs. Each connection is one thread of
a function process and has one delivery at a time. Deliveries wait here, as begun, while all threads are busy; with HTTP
they would wait in the server's backlog.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from signalbox_tools.local.function_channel import CREATES, LEAVING, BadFrame, FrameReader, frame

Response = tuple[int, str]
"""A function's response: its status, and its `Retry-After` or an empty text."""

Answer = Callable[[Any, bytes], Awaitable[object]]
"""Carry out a request of a function, given as a value and a body, and return the value of the answer."""


@dataclass(slots=True, eq=False)
class _Delivery:
    """A task or an event on its way. Its response is None if no process is left that it could be sent to."""

    sent: bytes
    response: "asyncio.Future[Response | None]"
    connection: "_Connection | None" = None

    def end(self, response: Response | Exception | None) -> None:
        if self.response.done():  # it was given up
            return
        if isinstance(response, Exception):
            self.response.set_exception(response)
        else:
            self.response.set_result(response)


@dataclass(slots=True, eq=False)
class _Process:
    """A process of the functions, by its connections without a delivery and the number of those with one."""

    idle: "list[_Connection]" = field(default_factory=list)
    busy: int = 0


class FunctionProcesses:
    """The processes that serve the functions."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._waiting: deque[_Delivery] = deque()

    def __bool__(self) -> bool:
        return bool(self._processes)

    async def deliver(self, sent: bytes, seconds_max: float) -> Response | None:
        """Send a frame to one of the processes; without any, wait for one. Return the function's response.

        Return None if the last process leaves before the frame is sent. Raises `TimeoutError`, and `ConnectionError` if
        the connection ends without a response.
        """
        delivery = _Delivery(sent, asyncio.get_running_loop().create_future())
        if connection := self._free():
            connection.start(delivery)
        else:
            self._waiting.append(delivery)
        try:
            async with asyncio.timeout(seconds_max):
                return await delivery.response
        except (TimeoutError, asyncio.CancelledError):
            if delivery.connection:
                delivery.connection.give_up(delivery)
            else:
                with suppress(ValueError):  # `end` has already left it out
                    self._waiting.remove(delivery)
            raise

    def begin(self, connection: "_Connection", process: int) -> None:
        """Add a connection of a process."""
        self._processes.setdefault(process, _Process()).busy += 1
        self.end(connection, process)

    def end(self, connection: "_Connection", process: int) -> None:
        """Give a connection without a delivery the next one."""
        while self._waiting:
            delivery = self._waiting.popleft()
            if not delivery.response.done():
                connection.start(delivery)
                return
        known = self._processes[process]
        known.busy -= 1
        known.idle.append(connection)

    def leave(self, connection: "_Connection", process: int) -> None:
        """Remove a connection, which may have a delivery."""
        known = self._processes[process]
        if connection in known.idle:
            known.idle.remove(connection)
        else:
            known.busy -= 1
        if not known.idle and not known.busy:
            del self._processes[process]
        if not self._processes:
            while self._waiting:
                self._waiting.popleft().end(None)

    def _free(self) -> "_Connection | None":
        """Take a connection of the process with the fewest deliveries: the one that was used last."""
        free = [process for process in self._processes.values() if process.idle]
        if not free:
            return None
        process = min(free, key=lambda each: each.busy)
        process.busy += 1
        return process.idle.pop()


class _Connection(asyncio.Protocol):
    """A connection that a function process has opened."""

    def __init__(self, processes: FunctionProcesses, answer: Answer | None) -> None:
        self._processes = processes
        self._answer = answer
        self._reader = FrameReader()
        self._process: int | None = None
        self._is_open = self._creates = self._leaving = False
        self._delivery: _Delivery | None = None
        self._answering: set[asyncio.Task[None]] = set()
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
            self._delivery.end(ConnectionError("the function's process has closed the connection"))

    def start(self, delivery: _Delivery) -> None:
        """Send a task or an event to the function."""
        self._delivery, delivery.connection = delivery, self
        self._transport.write(delivery.sent)

    def give_up(self, delivery: _Delivery) -> None:
        """End the connection if it still has this delivery: an answer without an end ends with it, as over HTTP."""
        if self._delivery is delivery:
            self._transport.abort()

    def _received(self, value: Any, body: bytes) -> None:
        if self._creates and self._answer:
            answering = asyncio.get_running_loop().create_task(self._answered(self._answer(value, body)))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)
        elif self._process is not None:
            self._responded(value)
        elif value == CREATES and self._answer:
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
                raise BadFrame("a response without a delivery")
            if not isinstance(status, int) or not isinstance(retry_after, str):
                raise BadFrame("no response of a function")
            self._delivery.end((status, retry_after))
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

    async def _answered(self, answer: Awaitable[object]) -> None:
        sent = frame(await answer)
        if self._is_open:
            self._transport.write(sent)


async def listen(processes: FunctionProcesses, port: int, answer: Answer | None = None) -> asyncio.Server:
    """Listen for the function processes on a port of 127.0.0.1. Without an `answer`, they make no requests."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Connection(processes, answer), "127.0.0.1", port)
