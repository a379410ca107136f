"""The store on Firestore, over a channel like the generated client's. One RPC a call, unless `write_each` must split.

Nothing here locks: a commit contains its guards, and reads are plain reads.

The client's own methods are not used. They wrap every message and look up the settings of each call, which takes a
third of a commit's processor time. They would also retry: repeat a commit, and try for minutes while a server is
unavailable. A commit is sent once, since after a retry "already exists" could mean "created by the first attempt". A
read is retried once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from random import uniform
from time import sleep
from typing import Any, TypeVar

import grpc
from google.api_core import grpc_helpers
from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.auth.credentials import Credentials
from grpc import StatusCode

from signalbox.adapters.firestore.message_types import firestore as types
from signalbox.adapters.firestore.messages import (
    MissingIndex,
    code_numbered,
    code_of,
    count_message,
    matching_records,
    of_query,
    of_read,
    of_write,
    parent_of,
    query_message,
    records_by_name,
    refused_query,
    write_message,
    write_result,
)
from signalbox.adapters.firestore.values import decode, field_path, timestamp
from signalbox.adapters.google_apis import CLOUD_PLATFORM, routing_header, secure_channel
from signalbox.adapters.system_clock import random_id
from signalbox.core.keys import check_path
from signalbox.core.ports import Committed, Guard, Outcome, Query, Snapshot, Write
from signalbox.core.problems import Problem, TooLarge, Unavailable
from signalbox.core.query_checks import check_query
from signalbox.core.records.queries import Field
from signalbox.core.write_checks import COMMIT_BYTES_MAX, check_commit, check_each, check_write

READ_SECONDS = 5.0
"""Timeout of an attempt at a read. A read takes milliseconds and does not wait for locks; two attempts fit into any
deadline."""


QUERY_SECONDS = 10.0
"""Timeout of an attempt at a query. A page may have megabytes."""


COMMIT_SECONDS = 10.0
"""Timeout of a commit. A contended commit waits for other commits, for seconds at worst. After a timeout its outcome is
read instead."""


RETRY_PAUSE_SECONDS = (0.05, 0.15)
"""Pause before a read is retried: enough to replace a connection."""


CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # like the client's own channels: a page may be large
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),  # reconnect at once to an emulator that restarts
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),  # the emulator is on this machine, at an address that no `no_proxy` has
)


SERVICE = "google.firestore.v1.Firestore"
HOST = "firestore.googleapis.com"
SCOPES = (CLOUD_PLATFORM, "https://www.googleapis.com/auth/datastore")

Result = TypeVar("Result")

Translate = Callable[[StatusCode, str], Exception | None]

Collect = Callable[[Iterable[Any]], Result]
"""Reads a stream of raw messages, without keeping those already processed."""


Rpc = Callable[..., Any]

Headers = list[tuple[str, str]]


class FirestoreCalls:
    """The RPCs of the store, to one database. ``emulator`` is ``HOST:PORT``; empty: the cloud."""

    def __init__(self, database: str, emulator: str, credentials: Credentials | None = None) -> None:
        self._metadata = [("google-cloud-resource-prefix", database)]
        if emulator:
            self._metadata.append(("authorization", "Bearer owner"))  # makes the emulator skip security rules
        self._channel = _channel(emulator, credentials)
        self._batch_get = self._rpc("BatchGetDocuments", types.BatchGetDocumentsResponse, streams=True)
        self._run_query = self._rpc("RunQuery", types.RunQueryResponse, streams=True)
        self._run_aggregation = self._rpc("RunAggregationQuery", types.RunAggregationQueryResponse, streams=True)
        self._commit = self._rpc("Commit", types.CommitResponse)
        self._batch_write = self._rpc("BatchWrite", types.BatchWriteResponse)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def batch_get(self, request: Any, collect: Collect[Result]) -> Result:
        """Return the result of `collect` for the `BatchGetDocumentsResponse`s. `collect` may stop early."""
        where = self._headers("database", request.database)
        return _retried(lambda: _collected(self._batch_get, request, READ_SECONDS, where, collect), of_read)

    def run_query(self, request: Any, collect: Collect[Result]) -> Result:
        """Return the result of `collect` for the responses to a `RunQueryRequest`. `collect` may stop early."""
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
        """Return the headers of a request, which Firestore routes by the `value` of the request's `field`."""
        return [*self._metadata, routing_header(field, value)]

    def _rpc(self, name: str, response: Any, *, streams: bool = False) -> Rpc:
        """Return a Firestore method that takes and returns raw messages. It raises as the generated client does."""
        path, parse = f"/{SERVICE}/{name}", response.pb().FromString
        make = self._channel.unary_stream if streams else self._channel.unary_unary
        rpc: Rpc = grpc_helpers.wrap_errors(make(path, methodcaller("SerializeToString"), parse))
        return rpc


def _channel(emulator: str, credentials: Credentials | None) -> grpc.Channel:
    if emulator:
        return grpc.insecure_channel(emulator, options=CHANNEL_OPTIONS)
    channel: grpc.Channel = secure_channel(HOST, SCOPES, credentials)
    return channel


def _collected(rpc: Rpc, request: Any, seconds: float, headers: Headers, collect: Collect[Result]) -> Result:
    responses = rpc(request, timeout=seconds, metadata=headers)
    try:
        return collect(responses)
    finally:
        responses.cancel()  # no-op at the end of the stream; before it, the server sends no more


def _translated(call: Callable[[], Result], translate: Translate) -> Result:
    """Return the result of the call. Translate the errors that it raises."""
    try:
        return call()
    except (GoogleAPICallError, RetryError) as error:
        translated = translate(code_of(error), str(error.message))
        if translated is None:
            raise
        raise translated from error


def _retried(call: Callable[[], Result], translate: Translate) -> Result:
    """Make a call without effects; retry once if the service was unavailable."""
    try:
        return _translated(call, translate)
    except Unavailable:
        sleep(uniform(*RETRY_PAUSE_SECONDS))  # noqa: S311 - spreads load, guards no secret
        return _translated(call, translate)


Answer = TypeVar("Answer")

BATCH_BYTES_MAX = 3 * 1024 * 1024
"""Bytes of one BatchWrite: below the emulator's 4 MiB a request, and far below the cloud's 10."""


class FirestoreStore:
    """A `Store` in one Firestore database.

    ``emulator`` is ``HOST:PORT``; empty: the cloud. None for `credentials`: the default ones.
    """

    def __init__(self, project: str, database: str, emulator: str = "", credentials: Credentials | None = None) -> None:
        self._database = f"projects/{project}/databases/{database}"
        self._root = f"{self._database}/documents"
        self._calls = FirestoreCalls(self._database, emulator, credentials)

    def close(self) -> None:
        """Close the connection."""
        self._calls.close()

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        if not paths:
            return ()
        request = self._batch_get(paths)
        if fields is not None:
            request.mask.SetInParent()  # an empty mask returns no field, no mask every field
            request.mask.field_paths.extend(map(field_path, fields))
        read = self._calls.batch_get(request, lambda answers: records_by_name(answers, self._path, ()))
        return tuple(read[self._name(path)] for path in paths)

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        request = self._batch_get((*needed, *others))
        names = frozenset(map(self._name, needed))
        read = self._calls.batch_get(request, lambda answers: records_by_name(answers, self._path, names, bytes_max))
        return tuple(read[name] for name in map(self._name, (*needed, *others)) if name in read)

    def _batch_get(self, paths: Sequence[str]) -> Any:
        for path in paths:
            check_path(path)
        names = dict.fromkeys(map(self._name, paths))
        return types.BatchGetDocumentsRequest.pb()(database=self._database, documents=names)

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        check_query(query)
        request = types.RunQueryRequest.pb()(parent=parent_of(self._root, query.collection))
        request.structured_query.CopyFrom(query_message(self._root, query))

        def run(request: Any) -> tuple[Snapshot, ...]:
            return self._calls.run_query(
                request, lambda answers: matching_records(answers, self._path, query.bytes_max)
            )

        return _answered(query, run, request)

    def _name(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _path(self, name: str) -> str:
        return name.removeprefix(f"{self._root}/")

    def count(self, query: Query) -> int:
        check_query(query)
        request = types.RunAggregationQueryRequest.pb()(parent=parent_of(self._root, query.collection))
        request.structured_aggregation_query.CopyFrom(count_message(self._root, query))
        answers = _answered(query, self._calls.run_aggregation_query, request)
        fields = [answer.result.aggregate_fields for answer in answers]
        return sum(int(decode(counted["count"])) for counted in fields if counted)

    def commit(self, writes: Sequence[Write]) -> Committed:
        check_commit(writes)
        request = types.CommitRequest.pb()(database=self._database)
        request.writes.extend(write_message(self._root, write) for write in writes)
        if request.ByteSize() > COMMIT_BYTES_MAX:
            raise TooLarge(f"A commit takes {COMMIT_BYTES_MAX:,} bytes; this one has {request.ByteSize():,}.")
        answer = self._calls.commit(request, [write.guard for write in writes])
        return Committed(timestamp(answer.commit_time), tuple(map(write_result, writes, answer.write_results)))

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        check_each(writes)
        outcomes: dict[int, Outcome] = {}
        messages: dict[int, Any] = {}
        for index, write in enumerate(writes):
            try:
                check_write(write)
                messages[index] = write_message(self._root, write)
            except Problem as refusal:
                outcomes[index] = refusal
        for batch in _byte_bounded_batches(messages):
            outcomes.update(self._write_batch(writes, batch))
        return tuple(outcomes[index] for index in range(len(writes)))

    def _write_batch(self, writes: Sequence[Write], batch: Mapping[int, Any]) -> Mapping[int, Outcome]:
        request = types.BatchWriteRequest.pb()(database=self._database, writes=batch.values())
        try:
            answer = self._calls.batch_write(request)
        except (Problem, Unavailable) as failure:
            return dict.fromkeys(batch, failure)
        parts = zip(batch, answer.write_results, answer.status, strict=True)
        return {index: _outcome(writes[index], result, status) for index, result, status in parts}

    def new_id(self) -> str:
        return random_id()


def _answered(query: Query, call: Callable[[Any], Answer], request: Any) -> Answer:
    try:
        return call(request)
    except MissingIndex as error:
        raise refused_query(query, str(error)) from error


def _byte_bounded_batches(messages: Mapping[int, Any]) -> Iterator[Mapping[int, Any]]:
    """Split writes by the size of their request."""
    batch: dict[int, Any] = {}
    size = 0
    for index, message in messages.items():
        if batch and size + message.ByteSize() > BATCH_BYTES_MAX:
            yield batch
            batch, size = {}, 0
        batch[index] = message
        size += message.ByteSize()
    if batch:
        yield batch


def _outcome(write: Write, result: Any, status: Any) -> Outcome:
    if not status.code:
        return write_result(write, result)
    code = code_numbered(status.code)
    refusal = of_write(code, status.message, (write.guard,))
    return refusal or Unavailable(f"Firestore refused a write: {code.name} {status.message}")
