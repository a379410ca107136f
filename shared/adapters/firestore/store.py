"""The store on Firestore. One RPC a call, unless `write_each` has to split its writes.

Nothing here locks: a commit carries its guards with it, and reads are plain reads. `calls.py` has the
timeouts and retries.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from google.cloud.firestore_v1.types import firestore as types

from shared.adapters.firestore.calls import FirestoreCalls
from shared.adapters.firestore.errors import MissingIndex, code_numbered, of_write
from shared.adapters.firestore.index_errors import refused
from shared.adapters.firestore.queries import count_message, parent_of, query_message
from shared.adapters.firestore.records import write_message, write_result
from shared.adapters.firestore.streams import matching_records, records_by_name
from shared.adapters.firestore.values import decode, field_path, timestamp
from shared.adapters.record_ids import random_id
from shared.core.operations.ports import Committed, Field, Outcome, Query, Snapshot, Write
from shared.core.operations.query_validation import check_query
from shared.core.operations.write_validation import COMMIT_BYTES_MAX, check_commit, check_each, check_write
from shared.core.rules.keys import check_path
from shared.core.rules.problems import Problem, TooLarge, Unavailable

Answer = TypeVar("Answer")

BATCH_BYTES_MAX = 3 * 1024 * 1024
"""Of one BatchWrite: under the emulator's 4 MiB a request, and far under the cloud's 10."""


class FirestoreStore:
    """A `Store` in one Firestore database. ``emulator`` is ``HOST:PORT``; empty: the cloud, by default credentials."""

    def __init__(self, project: str, database: str, emulator: str = "") -> None:
        self._database = f"projects/{project}/databases/{database}"
        self._root = f"{self._database}/documents"
        self._calls = FirestoreCalls(self._database, emulator)

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
        return tuple(read[name] for name in request.documents if name in read)

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
        for batch in _batches(messages):
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
        raise refused(query, str(error)) from error


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
