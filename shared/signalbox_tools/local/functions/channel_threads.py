"""The tasks and events of a function process: received over connections that it keeps open, and tasks also created so.

Each of `DeliveryThreads` has a connection, over which it receives one delivery after another. It calls the functions as
the server does with a request over HTTP, with the same headers, and responds with the status.
"""

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from google.api_core import exceptions as google

from signalbox.adapters.cloud_tasks import CREATE_SECONDS_MAX
from signalbox_tools.local.function_channel import CREATES, LEAVING, BadFrame, Channel, frame
from signalbox_tools.local.kept_threads import kept_thread

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

PAUSE_SECONDS = 0.1
"""The pause before a lost connection is opened again. Meanwhile tasks arrive over HTTP, and events wait."""


class ChannelCreator:
    """Creates tasks as `TaskCreator` does, over connections to the local Cloud Tasks. Thread-safe.

    The connection that was used last is used first.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._idle: list[Channel] = []
        self._process = os.getpid()

    def attempts(self, requests: Sequence[Mapping[str, Any]]) -> list[Exception | None]:
        """Send each request once, all together. Return for each request its error, or None."""
        try:
            return self._attempts(requests)
        except TimeoutError:
            return list(repeat(google.DeadlineExceeded("the local Cloud Tasks did not respond"), len(requests)))
        except (OSError, BadFrame) as error:
            self._idle.clear()  # they are those of the same process, which may have been restarted
            return list(repeat(google.ServiceUnavailable(str(error)), len(requests)))

    def _attempts(self, requests: Sequence[Mapping[str, Any]]) -> list[Exception | None]:
        channel = self._connected()
        outcomes: dict[int, Exception | None] = {}
        try:
            channel.send(b"".join(_request_frame(number, request) for number, request in enumerate(requests)))
            while len(outcomes) < len(requests):
                number, code, message = channel.response()
                outcomes[number] = google.from_grpc_status(code, message) if code else None
        except BaseException:  # also if the time-out of the request ends it: a response could still arrive
            channel.close()
            raise
        self._idle.append(channel)
        return [outcomes[number] for number in range(len(requests))]

    def _connected(self) -> Channel:
        if self._process != os.getpid():  # a fork has the same sockets
            self._idle, self._process = [], os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            channel = Channel(self._address, CREATE_SECONDS_MAX)
            channel.send(frame(CREATES))
            return channel


def _request_frame(number: int, request: Mapping[str, Any]) -> bytes:
    task = request["task"]
    sent = dict(task["http_request"])
    body = sent.pop("body")
    due = task.get("schedule_time")
    fields = {
        "name": task["name"],
        "http_request": sent,
        "deadline_seconds": task["dispatch_deadline"]["seconds"],
        "due_at": None if due is None else due.timestamp(),
    }
    return frame((number, request["parent"], fields), body)


class DeliveryThreads:
    """Threads that run the tasks and events of the functions in `app`: `count` for each of the addresses."""

    def __init__(self, addresses: Iterable[str], app: "WSGIApplication", count: int) -> None:
        self._app = app
        self._leaving = threading.Event()
        self._channels: set[Channel] = set()
        runs = [partial(self._run, address) for address in addresses]
        self._threads = [kept_thread("deliveries", run) for run in runs for _ in range(count)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def leave(self) -> None:
        """Receive nothing more. What runs is finished."""
        self._leaving.set()
        for channel in list(self._channels):
            _send(channel, frame(LEAVING))

    def join(self, seconds_max: float) -> None:
        """Wait until what runs has ended, or for `seconds_max`."""
        until = time.monotonic() + seconds_max
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self, address: str) -> None:
        process = os.getpid()
        hello = frame({"process": process})
        while not self._leaving.is_set() and os.getpid() == process:  # a process that a function forks receives nothing
            try:
                channel = Channel(address, None)
            except OSError:
                self._leaving.wait(PAUSE_SECONDS)
                continue
            self._channels.add(channel)
            try:
                channel.send(hello)
                if self._leaving.is_set():
                    channel.send(frame(LEAVING))
                while received := channel.receive():
                    channel.send(frame(self._response(*received, channel.ended)))
            except BaseException:  # noqa: BLE001  as with HTTP: there is no response, and this thread continues
                self._leaving.wait(PAUSE_SECONDS)
            finally:
                self._channels.discard(channel)
                channel.close()

    def _response(
        self, request: tuple[str, str, Mapping[str, str]], body: bytes, ended: Callable[[], bool]
    ) -> tuple[int, str]:
        """Call a function with a task or an event; return the status of its response and `Retry-After`.

        An answer is read to its end, or until the other side gives it up and the connection has `ended`.
        """
        responses: list[tuple[int, str]] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: Any = None) -> Any:
            after = next((value for name, value in headers if name.lower() == "retry-after"), "")
            responses.append((int(status[:3]), after))
            return lambda _: None

        chunks = self._app(environ_of(*request, body), start_response)
        try:
            for _ in chunks:
                if ended():
                    break
        finally:
            if close := getattr(chunks, "close", None):
                close()
        return responses[-1]


def _send(channel: Channel, sent: bytes) -> None:
    try:
        channel.send(sent)
    except OSError:
        return


def environ_of(method: str, url: str, headers: Mapping[str, str], body: bytes) -> "WSGIEnvironment":
    """Return the WSGI environment of a delivery, as gunicorn makes it of a request over HTTP.

    A header whose name has an underscore is dropped: it would be taken for the one with a hyphen.
    """
    place = urlsplit(url)
    target = f"{place.path}?{place.query}" if place.query else place.path
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote(place.path, "latin-1"),
        "QUERY_STRING": place.query,
        "RAW_URI": target,
        "REQUEST_URI": target,
        "SERVER_NAME": place.hostname,
        "SERVER_PORT": str(place.port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_HOST": place.netloc,
        "HTTP_ACCEPT": "*/*",
        "HTTP_ACCEPT_ENCODING": "gzip, deflate",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": place.scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.input_terminated": True,
    }
    for name, value in headers.items():
        if "_" not in name:
            key = name.upper().replace("-", "_")
            environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value.strip(" \t").encode().decode("latin-1")
    return environ
