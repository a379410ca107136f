"""HTTP/1.1 as far as the receiving half needs it: one request a connection, a body of a known length, a short answer.

The connection is closed after its answer: before it reuses one, the emulator listens on it for a millisecond.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

HEAD_BYTES_MAX = 2**16
BODY_BYTES_MAX = 8 * 2**20  # two documents of 1 MiB in base64, with room to spare

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """A request; the names of `headers` are in lower case, their values in UTF-8 as the emulator sends it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class HttpProtocol(asyncio.Protocol):
    """Reads one request and writes what `answer` returns for it: a status and a body."""

    def __init__(self, answer: Callable[[Request], tuple[int, bytes]]) -> None:
        self._answer = answer
        self._received = bytearray()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            if len(self._received) > HEAD_BYTES_MAX:
                self._write(431, b"the head is too long")
            return
        try:
            method, path, headers = parsed(bytes(self._received[:end]))
            length = int(headers.get("content-length", "0"))
        except ValueError:
            self._write(400, b"this is no HTTP/1.1 with a Content-Length")
            return
        if length > BODY_BYTES_MAX:
            self._write(413, b"the body is too long")
        elif len(self._received) >= end + 4 + length:
            self._respond(Request(method, path, headers, bytes(self._received[end + 4 : end + 4 + length])))

    def _respond(self, request: Request) -> None:
        try:
            status, body = self._answer(request)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            status, body = 500, b""
        self._write(status, body)

    def _write(self, status: int, body: bytes) -> None:
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + body)
        self._transport.close()


def parsed(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Return the method, the path and the headers of a request's head. Raises `ValueError`."""
    first, *lines = head.decode("utf-8", "surrogateescape").split("\r\n")
    method, path, _ = first.split(" ")
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    if "transfer-encoding" in headers:
        raise ValueError("a body of unknown length")
    return method, path, headers
