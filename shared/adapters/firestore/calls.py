"""Firestore's RPCs over the generated client: raw messages in and out, failures in an operation's words.

The client's own retries are off: they would repeat a commit, and go on for minutes while a server is away. A commit is
sent once, since after a second try "exists already" could mean "by the first". A read is repeated once.
"""

from collections.abc import Callable, Iterable
from random import uniform
from time import sleep
from typing import Any, TypeVar

import grpc
from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcTransport
from google.cloud.firestore_v1.types import firestore as types
from grpc import StatusCode

from shared.adapters.firestore.errors import code_of, of_query, of_read, of_write
from shared.core.operations.ports import Guard
from shared.core.rules.problems import Unavailable

READ_SECONDS = 5.0
"""Per try. A read takes milliseconds and waits for no lock; two tries leave time to answer within any deadline."""

QUERY_SECONDS = 10.0
"""Per try. A page may be megabytes."""

COMMIT_SECONDS = 10.0
"""A contended commit waits for others, seconds at worst. What takes longer is better asked about than waited for."""

SECOND_TRY_SECONDS = (0.05, 0.15)
"""The pause before a read is repeated: enough for a connection to be replaced."""

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # as the client's own channels: a page may be large
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),  # an emulator that comes back is found at once
    ("grpc.max_reconnect_backoff_ms", 1_000),
)

Answer = TypeVar("Answer")
Translate = Callable[[StatusCode, str], Exception | None]


class FirestoreCalls:
    """The calls that the store makes, to one database. ``emulator`` is ``HOST:PORT``; empty: the cloud."""

    def __init__(self, database: str, emulator: str) -> None:
        self._metadata = [("google-cloud-resource-prefix", database)]
        if emulator:
            self._metadata.append(("authorization", "Bearer owner"))  # the emulator's way of skipping security rules
        self._client = _client(emulator)

    def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()  # type: ignore[no-untyped-call]

    def batch_get(self, request: Any) -> list[Any]:
        """Give the answers to a `BatchGetDocumentsRequest`."""
        wrapped = types.BatchGetDocumentsRequest.wrap(request)
        call = self._streaming(self._client.batch_get_documents, wrapped, READ_SECONDS)
        return [types.BatchGetDocumentsResponse.pb(answer) for answer in _twice(call, of_read)]

    def run_query(self, request: Any) -> list[Any]:
        """Give the answers to a `RunQueryRequest`."""
        wrapped = types.RunQueryRequest.wrap(request)
        call = self._streaming(self._client.run_query, wrapped, QUERY_SECONDS)
        return [types.RunQueryResponse.pb(answer) for answer in _twice(call, of_query)]

    def run_aggregation_query(self, request: Any) -> list[Any]:
        """Give the answers to a `RunAggregationQueryRequest`."""
        wrapped = types.RunAggregationQueryRequest.wrap(request)
        call = self._streaming(self._client.run_aggregation_query, wrapped, QUERY_SECONDS)
        return [types.RunAggregationQueryResponse.pb(answer) for answer in _twice(call, of_query)]

    def commit(self, request: Any, guards: Iterable[Guard]) -> Any:
        """Give the `CommitResponse`. A conflict is told by the guards that could have caused it."""
        wrapped = types.CommitRequest.wrap(request)
        return types.CommitResponse.pb(_translated(self._write(self._client.commit, wrapped), _of_write(guards)))

    def batch_write(self, request: Any) -> Any:
        """Give the `BatchWriteResponse`."""
        wrapped = types.BatchWriteRequest.wrap(request)
        return types.BatchWriteResponse.pb(_translated(self._write(self._client.batch_write, wrapped), _of_write(())))

    def _streaming(self, method: Callable[..., Iterable[Any]], request: Any, seconds: float) -> Callable[[], list[Any]]:
        return lambda: list(method(request, retry=None, timeout=seconds, metadata=self._metadata))

    def _write(self, method: Callable[..., Any], request: Any) -> Callable[[], Any]:
        return lambda: method(request, retry=None, timeout=COMMIT_SECONDS, metadata=self._metadata)


def _client(emulator: str) -> FirestoreClient:
    if not emulator:
        return FirestoreClient()
    return FirestoreClient(
        transport=FirestoreGrpcTransport(channel=grpc.insecure_channel(emulator, options=CHANNEL_OPTIONS))
    )


def _of_write(guards: Iterable[Guard]) -> Translate:
    return lambda code, message: of_write(code, message, guards)


def _translated(call: Callable[[], Answer], translate: Translate) -> Answer:
    """Call, and raise in an operation's words what went wrong."""
    try:
        return call()
    except (GoogleAPICallError, RetryError) as error:
        told = translate(code_of(error), str(error.message))
        if told is None:
            raise
        raise told from error


def _twice(call: Callable[[], Answer], translate: Translate) -> Answer:
    """Call something without effects, once more if it was only unavailable."""
    try:
        return _translated(call, translate)
    except Unavailable:
        sleep(uniform(*SECOND_TRY_SECONDS))  # noqa: S311 - spreads load, guards no secret
        return _translated(call, translate)
