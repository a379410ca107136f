"""The frames of the connections between the functions of a stack and what delivers to them: local Cloud Tasks, events.

A frame is a length of four bytes, a value as one line of JSON, and a body. The functions open the connections:

    first frame          the following frames
    -------------------  -----------------------------------------------------------------------------------------
    ``{"process": PID}`` a delivery (a task or an event), its response from the function, and so on; the function may
                         send ``"leaving"`` in between: then it is sent no other delivery, and its connection is closed
    ``"creates"``        requests to create tasks, several at once; a response for each, in any order

A connection to a function has one delivery at a time, so a connection that ends is the end of one delivery, as with
HTTP.
"""

import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakSet

TASKS = "SIGNALBOX_TASK_CHANNEL"
"""The variable of the functions with the address, ``HOST:PORT``, at which local Cloud Tasks awaits them."""

EVENTS = "SIGNALBOX_EVENT_CHANNEL"
"""The variable with the address at which events await them, if the catalogue has triggers."""

FRAME_BYTES_MAX = 16 * 1024 * 1024
LEAVING = "leaving"
CREATES = "creates"

LENGTH = struct.Struct(">I")
CHUNK_BYTES = 64 * 1024

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class BadFrame(Exception):
    """The other side does not use this protocol."""


def frame(value: object, body: bytes = b"") -> bytes:
    """Return a frame with a value and a body."""
    head = _encode(value).encode("utf-8", "surrogatepass")
    return b"".join((LENGTH.pack(len(head) + 1 + len(body)), head, b"\n", body))


class FrameReader:
    """Divides received bytes into frames."""

    def __init__(self) -> None:
        self._received = bytearray()

    def frames(self, chunk: bytes) -> Iterator[tuple[Any, bytes]]:
        """Add received bytes, and iterate over the frames that are complete. Raises `BadFrame`."""
        received = self._received
        received += chunk
        while len(received) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(received)
            if length > FRAME_BYTES_MAX:
                raise BadFrame(f"a frame of {length} bytes")
            end = LENGTH.size + length
            if len(received) < end:
                return
            head, _, body = bytes(received[LENGTH.size : end]).partition(b"\n")
            del received[:end]
            try:
                value = json.loads(head)
            except (ValueError, RecursionError) as error:
                raise BadFrame("a frame without JSON") from error
            yield value, body


class Channel:
    """A connection of the functions, for one thread at a time.

    A forked process closes its copies: the connection of a process that ended would stay open, and receive deliveries.
    """

    def __init__(self, address: str, seconds_max: float | None) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        _opened.add(self)
        self._socket.settimeout(seconds_max)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()
        self._ready: list[tuple[Any, bytes]] = []

    def send(self, frames: bytes) -> None:
        """Send whole frames. Raises `OSError`."""
        self._socket.sendall(frames)

    def receive(self) -> tuple[Any, bytes] | None:
        """Wait for a frame, and return its value and its body. Return None if the connection has ended."""
        while not self._ready:
            chunk = self._socket.recv(CHUNK_BYTES)
            if not chunk:
                return None
            self._ready = [*self._reader.frames(chunk)]
        return self._ready.pop(0)

    def response(self) -> Any:
        """Wait for a frame, and return its value. Raises `ConnectionError` if the connection has ended."""
        received = self.receive()
        if received is None:
            raise ConnectionError("the other side has closed the connection")
        return received[0]

    def ended(self) -> bool:
        """Return whether the other side has closed the connection, or reset it."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        self._socket.close()


_opened: "WeakSet[Channel]" = WeakSet()


def _close_copies() -> None:
    for channel in list(_opened):
        channel.close()


os.register_at_fork(after_in_child=_close_copies)


def delivery_frame(method: str, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return the frame of a task or an event, for a function."""
    return frame((method, url, dict(headers)), body)
