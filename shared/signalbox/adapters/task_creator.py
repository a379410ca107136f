"""Cloud Tasks' CreateTask over the channel of the generated client.

The client's own method is not used: it wraps every message and looks up the settings of each call. One thread sends
many calls and then waits for all of them; a thread for each call would take three times the processor time.

Importing this module imports Google's client.
"""

from collections.abc import Sequence
from typing import Any

import grpc
from google.api_core import exceptions as google
from google.cloud.tasks_v2 import CloudTasksClient, CreateTaskRequest
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

from signalbox.adapters.raw_rpcs import routing, serialized

METHOD = "/google.cloud.tasks.v2.CloudTasks/CreateTask"

CREATE_SECONDS_MAX = 10.0
"""Timeout of one attempt. Creating a named task takes about ten milliseconds; a caller should not wait longer."""


Headers = list[tuple[str, str]]


class TaskCreator:
    """Sends requests that create tasks. ``emulator`` is ``HOST:PORT``; empty: the cloud. Thread-safe."""

    def __init__(self, emulator: str) -> None:
        self._transport = _transport(emulator)
        self._create: Any = self._transport.grpc_channel.unary_unary(METHOD, serialized, _unread)

    def attempts(self, requests: Sequence[dict[str, Any]]) -> list[Exception | None]:
        """Send all requests concurrently, each once; return the error of each, or None."""
        if len(requests) == 1:
            return [self._attempt(requests[0])]
        sent = [self._create.future(*_message(request), metadata=_headers(request)) for request in requests]
        return [_translated(future.exception()) for future in sent]

    def _attempt(self, request: dict[str, Any]) -> Exception | None:
        """Send one request directly: the result of a future would pass through another thread."""
        try:
            self._create(*_message(request), metadata=_headers(request))
        except grpc.RpcError as error:
            return _translated(error)
        return None


def _message(request: dict[str, Any]) -> tuple[Any, float]:
    return CreateTaskRequest.pb(CreateTaskRequest(request)), CREATE_SECONDS_MAX


def _headers(request: dict[str, Any]) -> Headers:
    """Return the headers of a request: Cloud Tasks routes it by its queue."""
    return [routing("parent", request["parent"])]


def _translated(error: Exception | None) -> Exception | None:
    """Return the error that the generated client would raise."""
    if not isinstance(error, grpc.RpcError):
        return error
    translated: Exception = google.from_grpc_error(error)
    return translated


def _unread(answer: bytes) -> bytes:
    """Return the response unparsed: only its arrival matters."""
    return answer


def _transport(emulator: str) -> CloudTasksGrpcTransport:
    if emulator:
        # By default gRPC waits up to two minutes before it reconnects to an emulator that was restarted.
        channel = grpc.insecure_channel(emulator, [("grpc.max_reconnect_backoff_ms", 500)])
        return CloudTasksGrpcTransport(channel=channel)
    transport = CloudTasksClient().transport
    assert isinstance(transport, CloudTasksGrpcTransport), "the default transport"
    return transport
