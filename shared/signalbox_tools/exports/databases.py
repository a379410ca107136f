"""The databases between which records are copied: a SQLite file, Google's emulator, and Firestore.

A query of Firestore without a collection finds the documents of all collections. Its pages are read at one instant,
which Firestore permits for an hour.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from google.auth.credentials import Credentials

from signalbox.adapters.firestore.message_types import firestore as types
from signalbox.adapters.firestore.messages import MissingIndex
from signalbox.adapters.firestore.store import FirestoreCalls, FirestoreStore
from signalbox.adapters.firestore.values import decode_fields, fill_fields, timestamp
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import Delete, Store
from signalbox.core.problems import BadQuery, Unavailable
from signalbox_tools.exports.files import Record

PAGE = 1_000
PAGE_BYTES_MAX = 4 * 1024 * 1024
ATTEMPTS_MAX = 5
PAUSE_SECONDS = 1.0

Result = TypeVar("Result")


class TooOld(Exception):
    """The instant of an export is too long ago for Firestore."""


class Database(Protocol):
    """A database to export or to import into. Its methods raise `Unavailable`."""

    keeps_times: bool
    """Whether imported records keep their create and update times."""

    def all_records(self) -> AbstractContextManager[tuple[datetime, Iterator[Record]]]:
        """Read all records at one instant, which is also returned. A record follows those above it."""
        ...

    def some_paths(self, limit: int) -> list[str]:
        """Return the paths of some records, or all of them if there are fewer than `limit`."""
        ...

    def read(self, path: str) -> Record | None:
        """Read a record."""
        ...

    def put(self, records: Sequence[Record]) -> None:
        """Write records in one commit, whatever exists at their paths."""
        ...

    def delete(self, path: str) -> None:
        """Delete a record, if it exists."""
        ...

    def close(self) -> None: ...


class SqliteDatabase:
    """The file of a store. No stack may use it during an import."""

    keeps_times = True

    def __init__(self, file: Path) -> None:
        self._store = SqliteStore(file)

    @contextmanager
    def all_records(self) -> Iterator[tuple[datetime, Iterator[Record]]]:
        with self._store.all_records() as (read_time, records):
            yield read_time, map(Record.of, records)

    def some_paths(self, limit: int) -> list[str]:
        with self._store.all_records() as (_, records):
            return [record.path for record in islice(records, limit)]

    def read(self, path: str) -> Record | None:
        return _record(self._store, path)

    def put(self, records: Sequence[Record]) -> None:
        self._store.restore(record.snapshot for record in records)

    def delete(self, path: str) -> None:
        self._store.commit([Delete(path)])

    def close(self) -> None:
        self._store.close()


class FirestoreDatabase:
    """A database of Firestore, or of its emulator at `emulator` (``HOST:PORT``)."""

    keeps_times = False

    def __init__(self, project: str, database: str, emulator: str = "", credentials: Credentials | None = None) -> None:
        self._database = f"projects/{project}/databases/{database}"
        self._root = f"{self._database}/documents"
        self._calls = FirestoreCalls(self._database, emulator, credentials)
        self._store = FirestoreStore(project, database, emulator, credentials)

    @contextmanager
    def all_records(self) -> Iterator[tuple[datetime, Iterator[Record]]]:
        read_time = self._page(None, None, 1).read_time
        yield timestamp(read_time), self._all_at(read_time)

    def _all_at(self, read_time: Any) -> Iterator[Record]:
        after = None
        while documents := self._page(read_time, after, PAGE).documents:
            yield from map(self._record, documents)
            after = documents[-1].name

    def some_paths(self, limit: int) -> list[str]:
        return [self._record(document).path for document in self._page(None, None, limit).documents]

    def _page(self, read_time: Any, after: str | None, limit: int) -> "_Page":
        """Read the documents after a name, of all collections, as they were at `read_time`; None: as they are."""
        request = types.RunQueryRequest.pb()(parent=self._root)
        query = request.structured_query
        query.from_.add(all_descendants=True)
        query.order_by.add().field.field_path = "__name__"
        query.limit.value = limit
        if read_time is not None:
            request.read_time.CopyFrom(read_time)
        if after is not None:
            query.start_at.values.add(reference_value=after)
        try:
            return _retried(lambda: self._calls.run_query(request, _page_of))
        except (MissingIndex, BadQuery) as error:
            raise TooOld(
                f"Firestore refuses to read: {error}. It keeps earlier versions of records for an hour: for a database "
                "that takes longer, use `gcloud firestore export`."
            ) from error

    def _record(self, document: Any) -> Record:
        path = document.name.removeprefix(f"{self._root}/")
        times = timestamp(document.create_time), timestamp(document.update_time)
        return Record(path, decode_fields(document.fields), *times)

    def read(self, path: str) -> Record | None:
        return _retried(lambda: _record(self._store, path))

    def put(self, records: Sequence[Record]) -> None:
        request = types.CommitRequest.pb()(database=self._database)
        for record in records:
            document = request.writes.add().update
            document.name = f"{self._root}/{record.path}"
            fill_fields(document.fields, record.data)
        _retried(lambda: self._calls.commit(request, ()))

    def delete(self, path: str) -> None:
        _retried(lambda: self._store.commit([Delete(path)]))

    def close(self) -> None:
        self._calls.close()
        self._store.close()


@dataclass(frozen=True, slots=True)
class _Page:
    """Raw documents, and the time at which they were read."""

    documents: Sequence[Any]
    read_time: Any


def _page_of(answers: Iterable[Any]) -> _Page:
    """Read the responses to a query until the documents have `PAGE_BYTES_MAX`."""
    documents: list[Any] = []
    size, read_time = 0, None
    for answer in answers:
        read_time = answer.read_time if answer.HasField("read_time") else read_time
        if answer.HasField("document"):
            documents.append(answer.document)
            size += answer.document.ByteSize()
        if size >= PAGE_BYTES_MAX:
            break
    return _Page(documents, read_time)


def _record(store: Store, path: str) -> Record | None:
    [found] = store.read(path)
    return None if found.data is None else Record.of(found)


def _retried(call: Callable[[], Result]) -> Result:
    """Make a call that may be repeated. Raises `Unavailable` after the last attempt."""
    for attempt in range(1, ATTEMPTS_MAX):
        try:
            return call()
        except Unavailable:
            time.sleep(PAUSE_SECONDS * attempt)
    return call()
