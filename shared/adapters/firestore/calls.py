"""Firestore's RPCs over the channel of the generated client: raw messages in and out, errors translated.

The client's own methods are passed by. They wrap every message and look up the settings of each call, which takes a
third of a commit's processor time. And they would retry: repeat a commit, and try for minutes while a server is
unavailable. A commit is sent once, since after a retry "already exists" could mean "by the first attempt". A read is
retried once.
"""

from collections.abc import Callable, Iterable
from random import uniform
from time import sleep
from typing import Any, TypeVar

import grpc
from google.api_core import grpc_helpers
from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcTransport
from google.cloud.firestore_v1.types import firestore as types
from grpc import StatusCode

from shared.adapters.firestore.errors import code_of, of_query, of_read, of_write
from shared.adapters.raw_rpcs import routing, serialized
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

SERVICE = "google.firestore.v1.Firestore"

Result = TypeVar("Result")
Translate = Callable[[StatusCode, str], Exception | None]
Collect = Callable[[Iterable[Any]], Result]
"""Reads a stream of raw messages; one that it has passed on is not held any longer."""

Rpc = Callable[..., Any]
Headers = list[tuple[str, str]]


class FirestoreCalls:
    """The RPCs of the store, to one database. ``emulator`` is ``HOST:PORT``; empty: the cloud."""

    def __init__(self, database: str, emulator: str) -> None:
        self._metadata = [("google-cloud-resource-prefix", database)]
        if emulator:
            self._metadata.append(("authorization", "Bearer owner"))  # makes the emulator skip security rules
        self._transport = _transport(emulator)
        self._batch_get = self._rpc("BatchGetDocuments", types.BatchGetDocumentsResponse, streams=True)
        self._run_query = self._rpc("RunQuery", types.RunQueryResponse, streams=True)
        self._run_aggregation = self._rpc("RunAggregationQuery", types.RunAggregationQueryResponse, streams=True)
        self._commit = self._rpc("Commit", types.CommitResponse)
        self._batch_write = self._rpc("BatchWrite", types.BatchWriteResponse)

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()  # type: ignore[no-untyped-call]  # the client has no types here

    def batch_get(self, request: Any, collect: Collect[Result]) -> Result:
        """Return what `collect` makes of the responses to a `BatchGetDocumentsRequest`, which it may leave early."""
        where = self._headers("database", request.database)
        return _retried(lambda: _collected(self._batch_get, request, READ_SECONDS, where, collect), of_read)

    def run_query(self, request: Any, collect: Collect[Result]) -> Result:
        """Return what `collect` makes of the responses to a `RunQueryRequest`, which it may leave early."""
        where = self._headers("parent", request.parent)
        return _retried(lambda: _collected(self._run_query, request, QUERY_SECONDS, where, collect), of_query)

    def run_aggregation_query(self, request: Any) -> list[Any]:
        """Return the responses to a `RunAggregationQueryRequest`."""
        where = self._headers("parent", request.parent)
        return _retried(lambda: _collected(self._run_aggregation, request, QUERY_SECONDS, where, list), of_query)

    def commit(self, request: Any, guards: Iterable[Guard]) -> Any:
        """Return the `CommitResponse`. Raises the `Conflict` that one of the guards could have caused."""
        return self._written(self._commit, request, guards)

    def batch_write(self, request: Any) -> Any:
        """Return the `BatchWriteResponse`."""
        return self._written(self._batch_write, request, ())

    def _written(self, rpc: Rpc, request: Any, guards: Iterable[Guard]) -> Any:
        where = self._headers("database", request.database)
        return _translated(
            lambda: rpc(request, timeout=COMMIT_SECONDS, metadata=where),
            lambda code, message: of_write(code, message, guards),
        )

    def _headers(self, field: str, value: str) -> Headers:
        """Return the headers of a request: Firestore routes it by a field of it."""
        return [*self._metadata, routing(field, value)]

    def _rpc(self, name: str, response: Any, *, streams: bool = False) -> Rpc:
        """Return a method of Firestore's on raw messages. It raises as the generated client does."""
        channel = self._transport.grpc_channel
        path, parse = f"/{SERVICE}/{name}", response.pb().FromString
        make = channel.unary_stream if streams else channel.unary_unary
        rpc: Rpc = grpc_helpers.wrap_errors(make(path, serialized, parse))  # type: ignore[no-untyped-call]  # no types here
        return rpc


def _transport(emulator: str) -> FirestoreGrpcTransport:
    if emulator:
        return FirestoreGrpcTransport(channel=grpc.insecure_channel(emulator, options=CHANNEL_OPTIONS))
    transport = FirestoreClient().transport
    assert isinstance(transport, FirestoreGrpcTransport), "the default transport"
    return transport


def _collected(rpc: Rpc, request: Any, seconds: float, headers: Headers, collect: Collect[Result]) -> Result:
    responses = rpc(request, timeout=seconds, metadata=headers)
    try:
        return collect(responses)
    finally:
        responses.cancel()  # no-op at the end of the stream; before it, the server sends no more


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
