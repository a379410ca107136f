"""The store in Firestore, over the generated client. One RPC a call, except where `write_each` has to split.

Nothing here locks: a commit carries its guards with it, and reads are plain reads. The client's own retries are off. A
commit is sent once, since after a second try "exists already" could mean "by the first". A read is repeated once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from random import uniform
from time import sleep
from typing import Any, TypeVar

import grpc
from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcTransport
from google.cloud.firestore_v1.types import firestore as types
from grpc import StatusCode

from shared.adapters.firestore_errors import code_numbered, code_of, of_query, of_read, of_write
from shared.adapters.firestore_messages import (
    count_message,
    parent_of,
    query_message,
    snapshot,
    write_message,
    write_result,
)
from shared.adapters.ids import random_id
from shared.adapters.limits import check_path
from shared.adapters.queries import check_query
from shared.adapters.refusals import COMMIT_BYTES_MAX, check_commit, check_each, check_write
from shared.adapters.values import decode, timestamp
from shared.operations.ports import Committed, Outcome, Query, Snapshot, Write
from shared.rules.problems import Problem, TooLarge, Unavailable

READ_SECONDS = 5.0
"""Per try. A read takes milliseconds and waits for no lock; two tries leave time to answer within any deadline."""

QUERY_SECONDS = 10.0
"""Per try. A page may be megabytes."""

COMMIT_SECONDS = 10.0
"""A contended commit waits for others, seconds at worst. What takes longer is better asked about than waited for."""

SECOND_TRY_SECONDS = (0.05, 0.15)
"""The pause before a read is repeated: enough for a connection to be replaced."""

BATCH_BYTES_MAX = 3 * 1024 * 1024
"""Of one BatchWrite: under the emulator's 4 MiB a request, and far under the cloud's 10."""

_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # as the client's own channels: a page may be large
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),  # an emulator that comes back is found at once
    ("grpc.max_reconnect_backoff_ms", 1_000),
)

Answer = TypeVar("Answer")
Translate = Callable[[StatusCode, str], Exception | None]


class FirestoreStore:
    """A `Store` in one Firestore database. ``emulator`` is ``HOST:PORT``; empty: the cloud, by default credentials."""

    def __init__(self, project: str, database: str, emulator: str = "") -> None:
        self._database = f"projects/{project}/databases/{database}"
        self._root = f"{self._database}/documents"
        self._metadata = [("google-cloud-resource-prefix", self._database)]
        if emulator:
            self._metadata.append(("authorization", "Bearer owner"))  # the emulator's way of skipping security rules
        self._client = _client(emulator)

    def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()  # type: ignore[no-untyped-call]

    def read(self, *paths: str) -> tuple[Snapshot, ...]:
        for path in paths:
            check_path(path)
        if not paths:
            return ()
        request = types.BatchGetDocumentsRequest.pb()(database=self._database)
        request.documents.extend(f"{self._root}/{path}" for path in dict.fromkeys(paths))
        documents, read_time = _twice(lambda: self._read(request), of_read)
        return tuple(snapshot(path, documents.get(f"{self._root}/{path}"), read_time) for path in paths)

    def _read(self, request: Any) -> tuple[Mapping[str, Any], datetime]:
        """Read. All is as of the last answer's read time, though earlier answers may have earlier ones.

        For the API promises that a record it sent did not change until the read times of the answers that follow.
        """
        stream = self._client.batch_get_documents(
            types.BatchGetDocumentsRequest.wrap(request), retry=None, timeout=READ_SECONDS, metadata=self._metadata
        )
        answers = [types.BatchGetDocumentsResponse.pb(answer) for answer in stream]
        documents = {answer.found.name: answer.found for answer in answers if answer.HasField("found")}
        return documents, max(timestamp(answer.read_time) for answer in answers if answer.HasField("read_time"))

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        check_query(query)
        request = types.RunQueryRequest.pb()(parent=parent_of(self._root, query.collection))
        request.structured_query.CopyFrom(query_message(self._root, query))
        return _twice(lambda: self._query(request), of_query)

    def _query(self, request: Any) -> tuple[Snapshot, ...]:
        """Ask. Of several read times the last one counts, as in a read."""
        stream = self._client.run_query(
            types.RunQueryRequest.wrap(request), retry=None, timeout=QUERY_SECONDS, metadata=self._metadata
        )
        answers = [types.RunQueryResponse.pb(answer) for answer in stream]
        documents = [answer.document for answer in answers if answer.HasField("document")]
        read_time = max(timestamp(answer.read_time) for answer in answers if answer.HasField("read_time"))
        return tuple(snapshot(self._path(document.name), document, read_time) for document in documents)

    def _path(self, name: str) -> str:
        return name.removeprefix(f"{self._root}/")

    def count(self, query: Query) -> int:
        check_query(query)
        request = types.RunAggregationQueryRequest.pb()(parent=parent_of(self._root, query.collection))
        request.structured_aggregation_query.CopyFrom(count_message(query))
        return _twice(lambda: self._count(request), of_query)

    def _count(self, request: Any) -> int:
        stream = self._client.run_aggregation_query(
            types.RunAggregationQueryRequest.wrap(request), retry=None, timeout=QUERY_SECONDS, metadata=self._metadata
        )
        results = [types.RunAggregationQueryResponse.pb(answer).result for answer in stream]
        return sum(int(decode(result.aggregate_fields["count"])) for result in results if result.aggregate_fields)

    def commit(self, writes: Sequence[Write]) -> Committed:
        check_commit(writes)
        request = types.CommitRequest.pb()(database=self._database)
        request.writes.extend(write_message(self._root, write) for write in writes)
        if request.ByteSize() > COMMIT_BYTES_MAX:
            raise TooLarge(f"A commit takes {COMMIT_BYTES_MAX:,} bytes.")
        answer = self._commit(request, writes)
        results = tuple(map(write_result, writes, answer.write_results))
        return Committed(timestamp(answer.commit_time), results)

    def _commit(self, request: Any, writes: Sequence[Write]) -> Any:
        def translate(code: StatusCode, message: str) -> Exception | None:
            return of_write(code, message, (write.guard for write in writes))

        def call() -> Any:
            wrapped = types.CommitRequest.wrap(request)
            return self._client.commit(wrapped, retry=None, timeout=COMMIT_SECONDS, metadata=self._metadata)

        return types.CommitResponse.pb(_translated(call, translate))

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
        for batch in _batches(messages):
            outcomes.update(self._write_batch(writes, batch))
        return tuple(outcomes[index] for index in range(len(writes)))

    def _write_batch(self, writes: Sequence[Write], batch: Mapping[int, Any]) -> Mapping[int, Outcome]:
        request = types.BatchWriteRequest.pb()(database=self._database)
        request.writes.extend(batch.values())
        try:
            answer = self._batch_write(request)
        except (Problem, Unavailable) as failure:
            return dict.fromkeys(batch, failure)
        return {
            index: _outcome(writes[index], answer.write_results[place], answer.status[place])
            for place, index in enumerate(batch)
        }

    def _batch_write(self, request: Any) -> Any:
        def call() -> Any:
            wrapped = types.BatchWriteRequest.wrap(request)
            return self._client.batch_write(wrapped, retry=None, timeout=COMMIT_SECONDS, metadata=self._metadata)

        return types.BatchWriteResponse.pb(_translated(call, lambda code, message: of_write(code, message, ())))

    def new_id(self) -> str:
        return random_id()


def _client(emulator: str) -> FirestoreClient:
    if not emulator:
        return FirestoreClient()
    return FirestoreClient(
        transport=FirestoreGrpcTransport(channel=grpc.insecure_channel(emulator, options=_CHANNEL_OPTIONS))
    )


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


def _batches(messages: Mapping[int, Any]) -> Iterator[Mapping[int, Any]]:
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
