"""Durable storage of queues, tasks, their progress and reserved names, in a SQLite file.

The file is a separate one, or that of the documents, with the same durability. In one file, a power cut loses the last
commits of both in their order: never a task whose outbox record was deleted after the task was created.

Group commit: writes that arrive during a commit go together into the next one, so that concurrent creates share one
fsync. The event loop's thread executes the rows, which takes microseconds; only a commit that waits for the disk runs
in a separate thread. Executed there, each row would contend for the interpreter's lock.

A write returns a future that is done when the write is as durable as the file promises. If a caller ignores it, a
crash loses at most a completion or a count. This causes a redelivery, which at-least-once delivery allows.
"""

import asyncio
import fcntl
import logging
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

from signalbox.adapters.sqlite.file import Connection, StoreFileError, Synchronous
from signalbox_tools.local.cloud_tasks.protobuf_messages import Message, Queue, Task
from signalbox_tools.local.cloud_tasks.task_attempts import Progress

log = logging.getLogger(__name__)

COLUMNS = tuple(field.name for field in fields(Progress))
values_of = attrgetter(*COLUMNS)

SCHEMA = f"""
CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS clock (only INTEGER PRIMARY KEY, ahead_seconds REAL NOT NULL);
CREATE TABLE IF NOT EXISTS queues (name TEXT PRIMARY KEY, message BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS tasks (
    name TEXT PRIMARY KEY, queue TEXT NOT NULL, named INTEGER NOT NULL, message BLOB NOT NULL, {", ".join(COLUMNS)});
CREATE INDEX IF NOT EXISTS tasks_by_queue ON tasks (queue);
CREATE TABLE IF NOT EXISTS tombstones (name TEXT PRIMARY KEY, ends_at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS tombstones_by_end ON tombstones (ends_at);
"""
SAVE_CLOCK = "INSERT OR REPLACE INTO clock VALUES (0, ?)"
SAVE_QUEUE = "INSERT OR REPLACE INTO queues VALUES (?, ?)"
DELETE_QUEUE = "DELETE FROM queues WHERE name = ?"
ADD_TASK = f"INSERT OR REPLACE INTO tasks VALUES ({', '.join('?' * (4 + len(COLUMNS)))})"  # noqa: S608  our own names
ADVANCE_TASK = f"UPDATE tasks SET {', '.join(f'{name} = ?' for name in COLUMNS)} WHERE name = ?"  # noqa: S608  our own names
REMOVE_TASK = "DELETE FROM tasks WHERE name = ?"
REMOVE_TASKS = "DELETE FROM tasks WHERE queue = ?"
BURY = "INSERT OR REPLACE INTO tombstones VALUES (?, ?)"
BURY_TASKS = "INSERT OR REPLACE INTO tombstones SELECT name, ? FROM tasks WHERE queue = ? AND named"
EXHUME = "DELETE FROM tombstones WHERE name = ?"
EXPIRE = "DELETE FROM tombstones WHERE ends_at <= ?"

COMPLETED_SECONDS_MAX = 0.02
"""The time for which the removal of a task that is done waits for another write, to share its commit."""

Row = tuple[str, tuple[Any, ...]]


class SeparateFile:
    """A file of the queues alone. A second server on it gets `sqlite3.OperationalError`.

    `sqlite3.DatabaseError` is raised for a file with other contents.
    """

    waits_for_disk = True

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            self.database.execute(f"PRAGMA {pragma}")
        self.database.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")

    def begin(self) -> None:
        self.database.execute("BEGIN")

    def commit(self) -> None:
        self.database.execute("COMMIT")

    def rollback(self) -> None:
        """End a transaction that failed."""
        if self.database.in_transaction:
            self.database.execute("ROLLBACK")

    def close(self) -> None:
        self.database.close()


class StoreFile:
    """The file of a SQLite store. Its lock orders the commits of the queues among those of the store.

    Raises `StoreFileError` if the file cannot be used, or for a second server on it: each would know only its own
    tasks.
    """

    def __init__(self, path: Path, synchronous: Synchronous) -> None:
        self.waits_for_disk = synchronous == "FULL"
        self._server = path.with_name(f"{path.name}.queues").open("ab")
        try:
            fcntl.flock(self._server, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._server.close()
            raise StoreFileError(f"Another process delivers the tasks in {path}. End it first.") from error
        self._connection = Connection(path, synchronous)
        self._transaction = ExitStack()
        self.database = self._connection.db
        self.begin()
        for statement in SCHEMA.split(";"):
            self.database.execute(statement)
        self.commit()

    def begin(self) -> None:
        self._transaction.enter_context(self._connection.writing())

    def commit(self) -> None:
        self.database.execute("COMMIT")
        self._transaction.close()

    def rollback(self) -> None:
        """End a transaction that failed."""
        self._transaction.close()

    def close(self) -> None:
        self._connection.close()
        self._server.close()


class TaskStorage:
    """The storage of one server."""

    def __init__(self, file: SeparateFile | StoreFile) -> None:
        self._file = file
        self._database = file.database
        self._committer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="storage")
        self._rows: list[Row] = []
        self._collecting: asyncio.Future[None] | None = None
        self._committing = False
        self._later: asyncio.TimerHandle | None = None

    def queues(self) -> Iterator[Message]:
        for (message,) in self._database.execute("SELECT message FROM queues"):
            yield Queue.FromString(message)

    def tasks(self) -> Iterator[tuple[str, bool, Message, Progress]]:
        """Iterate over the tasks: queue, whether the caller named it, the task, its progress."""
        for _, queue, named, message, *progress in self._database.execute("SELECT * FROM tasks"):
            yield queue, bool(named), Task.FromString(message), Progress(*progress)

    def tombstones(self) -> dict[str, float]:
        return dict(self._database.execute("SELECT name, ends_at FROM tombstones"))

    def secret(self, name: str) -> bytes | None:
        row = self._database.execute("SELECT value FROM secrets WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def keep_secret(self, name: str, value: bytes) -> None:
        """Write a secret synchronously, before the server serves."""
        self._file.begin()
        self._database.execute("INSERT INTO secrets VALUES (?, ?)", (name, value))
        self._file.commit()

    def ahead_seconds(self) -> float:
        """Return the seconds by which the clock has been moved forward."""
        row = self._database.execute("SELECT ahead_seconds FROM clock").fetchone()
        return float(row[0]) if row else 0.0

    def save_clock(self, ahead_seconds: float) -> asyncio.Future[None]:
        return self._write((SAVE_CLOCK, (ahead_seconds,)))

    def save_queue(self, queue: Message) -> asyncio.Future[None]:
        return self._write((SAVE_QUEUE, (queue.name, queue.SerializeToString())), (EXHUME, (queue.name,)))

    def delete_queue(self, name: str, tombstone_ends_at: float) -> asyncio.Future[None]:
        return self._write((DELETE_QUEUE, (name,)), (BURY, (name, tombstone_ends_at)))

    def add_task(self, queue_name: str, named: bool, spec: Message, progress: Progress) -> asyncio.Future[None]:
        return self._write((ADD_TASK, (spec.name, queue_name, named, spec.SerializeToString(), *values_of(progress))))

    def advance_task(self, name: str, progress: Progress) -> asyncio.Future[None]:
        return self._write((ADVANCE_TASK, (*values_of(progress), name)))

    def remove_task(self, name: str, tombstone_ends_at: float | None) -> asyncio.Future[None]:
        """Remove a task. Its name stays reserved until the tombstone ends; a generated name needs none."""
        return self._write(*_rows_of_removal(name, tombstone_ends_at))

    def complete_task(self, name: str, tombstone_ends_at: float | None) -> None:
        """Remove a task that is done, with the next commit, or after `COMPLETED_SECONDS_MAX`."""
        self._rows.extend(_rows_of_removal(name, tombstone_ends_at))
        if self._collecting is None and self._later is None:
            self._later = asyncio.get_running_loop().call_later(COMPLETED_SECONDS_MAX, self._write)

    def remove_tasks(self, queue_name: str, tombstone_ends_at: float) -> asyncio.Future[None]:
        """Remove every task of a queue."""
        return self._write((BURY_TASKS, (tombstone_ends_at, queue_name)), (REMOVE_TASKS, (queue_name,)))

    def expire(self, now: float) -> asyncio.Future[None]:
        """Delete expired tombstones."""
        return self._write((EXPIRE, (now,)))

    async def close(self) -> None:
        """Commit pending writes and close the file."""
        if self._rows or self._committing:
            await self._write()
        self._committer.shutdown()
        self._file.close()

    def _write(self, *rows: Row) -> asyncio.Future[None]:
        """Add rows to the next commit, in order."""
        self._rows.extend(rows)
        if self._later:
            self._later.cancel()
            self._later = None
        if self._collecting is None:
            loop = asyncio.get_running_loop()
            self._collecting = loop.create_future()
            loop.call_soon(self._commit)
        return self._collecting

    def _commit(self) -> None:
        """Commit the collected rows, unless a commit is in progress (its end starts the next)."""
        done = self._collecting
        if self._committing or done is None:
            return
        rows, self._rows, self._collecting = self._rows, [], None
        try:
            self._file.begin()
            for statement, values in rows:
                self._database.execute(statement, values)
            if not self._file.waits_for_disk:
                self._file.commit()
                done.set_result(None)
                return
        except sqlite3.Error as error:
            self._failed(done, error)
            return
        self._committing = True
        committed = asyncio.get_running_loop().run_in_executor(self._committer, self._file.commit)
        committed.add_done_callback(lambda future: self._committed(done, future))

    def _committed(self, done: asyncio.Future[None], committed: "asyncio.Future[Any] | ThreadFuture[Any]") -> None:
        self._committing = False
        error = committed.exception()
        if error is None:
            done.set_result(None)
        else:
            self._failed(done, error)
        self._commit()

    def _failed(self, done: asyncio.Future[None], error: BaseException) -> None:
        """Roll back a failed commit (a full disk), so that none of its writes is stored."""
        log.error("commit failed", exc_info=error)
        self._file.rollback()
        done.set_exception(error)
        done.exception()  # retrieved, since it has been logged


def _rows_of_removal(name: str, tombstone_ends_at: float | None) -> tuple[Row, ...]:
    """Return the rows that remove a task. Its name stays reserved until the tombstone ends."""
    removed: Row = (REMOVE_TASK, (name,))
    return (removed,) if tombstone_ends_at is None else (removed, (BURY, (name, tombstone_ends_at)))
