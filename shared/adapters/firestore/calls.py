"""Firestore's RPCs over the generated client: raw messages in and out, errors translated.

The client's own retries are off: they would repeat a commit, and retry for minutes while a server is unavailable. A
commit is sent once, since after a retry "already exists" could mean "by the first attempt". A read is retried once.
"""

from collections.abc import Callable, Iterable
from random import uniform
from time import sleep
from typing import Any, Protocol, TypeVar

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
"""Timeout of an attempt. A read takes milliseconds and waits for no lock; two attempts fit into any deadline."""

QUERY_SECONDS = 10.0
"""Timeout of an attempt. A page may be megabytes."""

COMMIT_SECONDS = 10.0
"""Timeout. A contended commit waits for others, seconds at worst; after that its outcome is read instead."""

RETRY_PAUSE_SECONDS = (0.05, 0.15)
"""Before a read is retried: enough to replace a connection."""

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # like the client's own channels: a page may be large
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),  # reconnect at once to an emulator that restarts
    ("grpc.max_reconnect_backoff_ms", 1_000),
)

Result = TypeVar("Result")
Translate = Callable[[StatusCode, str], Exception | None]
Collect = Callable[[Iterable[Any]], Result]
"""Reads a stream of raw messages; one that it has passed on is not held any longer."""


class Streaming(Protocol):
    """A streaming RPC that is ready to be sent."""

    def __call__(self, message: Callable[[Any], Any], collect: Collect[Result]) -> Result:
        """Send it; return what `collect` makes of its raw messages."""
        ...


class FirestoreCalls:
    """The RPCs of the store, to one database. ``emulator`` is ``HOST:PORT``; empty: the cloud."""

    def __init__(self, database: str, emulator: str) -> None:
        self._metadata = [("google-cloud-resource-prefix", database)]
        if emulator:
            self._metadata.append(("authorization", "Bearer owner"))  # makes the emulator skip security rules
        self._client = _client(emulator)

    def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()  # type: ignore[no-untyped-call]

    def batch_get(self, request: Any, collect: Collect[Result]) -> Result:
        """Return what `collect` makes of the responses to a `BatchGetDocumentsRequest`, which it may leave early."""
        wrapped = types.BatchGetDocumentsRequest.wrap(request)
        call = self._streaming(self._client.batch_get_documents, wrapped, READ_SECONDS)
        return _retried(lambda: call(types.BatchGetDocumentsResponse.pb, collect), of_read)

    def run_query(self, request: Any, collect: Collect[Result]) -> Result:
        """Return what `collect` makes of the responses to a `RunQueryRequest`, which it may leave early."""
        wrapped = types.RunQueryRequest.wrap(request)
        call = self._streaming(self._client.run_query, wrapped, QUERY_SECONDS)
        return _retried(lambda: call(types.RunQueryResponse.pb, collect), of_query)

    def run_aggregation_query(self, request: Any) -> list[Any]:
        """Return the responses to a `RunAggregationQueryRequest`."""
        wrapped = types.RunAggregationQueryRequest.wrap(request)
        call = self._streaming(self._client.run_aggregation_query, wrapped, QUERY_SECONDS)
        return _retried(lambda: call(types.RunAggregationQueryResponse.pb, list), of_query)

    def commit(self, request: Any, guards: Iterable[Guard]) -> Any:
        """Return the `CommitResponse`. Raises the `Conflict` that one of the guards could have caused."""
        wrapped = types.CommitRequest.wrap(request)
        return types.CommitResponse.pb(_translated(self._write(self._client.commit, wrapped), _of_write(guards)))

    def batch_write(self, request: Any) -> Any:
        """Return the `BatchWriteResponse`."""
        wrapped = types.BatchWriteRequest.wrap(request)
        return types.BatchWriteResponse.pb(_translated(self._write(self._client.batch_write, wrapped), _of_write(())))

    def _streaming(self, method: Callable[..., Any], request: Any, seconds: float) -> Streaming:
        def call(message: Callable[[Any], Any], collect: Collect[Result]) -> Result:
            responses = method(request, retry=None, timeout=seconds, metadata=self._metadata)
            try:
                return collect(map(message, responses))
            finally:
                responses.cancel()  # no-op at the end of the stream; before it, the server sends no more

        return call

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


def _translated(call: Callable[[], Result], translate: Translate) -> Result:
    """Call, and translate what it raises."""
    try:
        return call()
    except (GoogleAPICallError, RetryError) as error:
        translated = translate(code_of(error), str(error.message))
        if translated is None:
            raise
        raise translated from error


def _retried(call: Callable[[], Result], translate: Translate) -> Result:
    """Call something without effects; retry once if it was unavailable."""
    try:
        return _translated(call, translate)
    except Unavailable:
        sleep(uniform(*RETRY_PAUSE_SECONDS))  # noqa: S311 - spreads load, guards no secret
        return _translated(call, translate)
