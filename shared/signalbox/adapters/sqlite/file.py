"""The file of a store: its schema, its connections, its lock, and its time.

**Lock.** `flock` on the file's ``.lock`` orders the commits of all processes, and the beginnings of reads. A waiting
process is woken at once, while SQLite's own waiting sleeps for milliseconds and can starve. The kernel releases the
locks of a process that is killed, since a forked process does not keep them.

**Forks.** SQLite keeps the locks of a process in the memory of the process. A forked process inherits the memory and
not the locks: it would wait for ever for a commit that was under way, and its reads would be unprotected. So it may
open a file only if no connection to the file was open at the fork.

**Time.** The time of a store is a steady clock, which counts from the boot of the machine, plus an offset in the file.
The offset only increases: it is raised if the machine's clock, or after a boot the last commit, is ahead of the store's
time. So the store's time follows a clock that is set forward, and continues when a clock is set back, in all processes
alike, and never stands still.

**Durability.** With ``NORMAL``, a commit survives the death of all processes. A power cut may lose the last commits but
never damages the file. With ``FULL``, a commit also survives a power cut.
"""

import fcntl
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, ENOENT, EPERM, EROFS
from os import fstat, register_at_fork
from pathlib import Path
from typing import Literal, get_args
from weakref import WeakSet

from signalbox.adapters.system_clock import random_id
from signalbox.core.lazy_dataclasses import dataclass

VERSION = 1
"""The version of the schema."""

SCHEMA = """
CREATE TABLE records (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  collection TEXT NOT NULL,
  id TEXT NOT NULL,
  bytes_bound INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  data TEXT NOT NULL,
  UNIQUE (collection, id)
);
CREATE TABLE indexes (
  number INTEGER PRIMARY KEY,
  collection TEXT NOT NULL,
  fields TEXT NOT NULL,
  of_a_group INTEGER NOT NULL,
  made_up_to INTEGER,
  UNIQUE (collection, fields, of_a_group)
);
CREATE TABLE entries (
  index_number INTEGER NOT NULL,
  place TEXT NOT NULL,
  key BLOB NOT NULL,
  id TEXT NOT NULL,
  record INTEGER NOT NULL,
  PRIMARY KEY (index_number, place, key, id)
) WITHOUT ROWID;
CREATE TABLE events (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  trigger TEXT NOT NULL,
  path TEXT NOT NULL,
  committed_at INTEGER NOT NULL,
  before TEXT,
  before_created_at INTEGER,
  before_updated_at INTEGER,
  after TEXT,
  after_created_at INTEGER,
  after_updated_at INTEGER,
  given_up INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX given_up ON events (given_up);
CREATE TABLE head (time INTEGER NOT NULL, offset INTEGER NOT NULL, indexes INTEGER NOT NULL, file_id TEXT NOT NULL);
"""
"""`records.name` is the last part of the collection. `indexes.made_up_to` is the last record in an index that is not
complete, else null. `head` has one row: the time of the last commit, the offset of the store's time, the number of
changes of `indexes`, and a random name of this file."""

Synchronous = Literal["OFF", "NORMAL", "FULL"]
SYNCHRONOUS_LEVELS: tuple[Synchronous, ...] = get_args(Synchronous)

LOCKED_SECONDS_MAX = 30.0
"""The wait for locks of other programs, such as `sqlite3` on a command line. The kit waits for the lock file."""

STATEMENTS_CACHED = 512

LOG_PAGES_MAX = 10_000
"""Pages of 4 KiB in the write-ahead log with which a commit itself copies them into the file (a *checkpoint*), which
takes milliseconds. `EventLog.checkpoint` does it earlier and outside of commits, if a process calls it."""

AHEAD_MICROSECONDS_MAX = 50_000
"""How far the machine's clock may be ahead of the store's time before the store's time follows it."""


LOG_BYTES_KEPT_MAX = LOG_PAGES_MAX * 4_096
"""The size to which a longer write-ahead log is cut once it is empty: a long read makes it grow without a bound."""

DELETED = "its file was deleted while it was used; end all processes that use it and start again"


class StoreFileError(Exception):
    """The file of a store cannot be used. The message contains the remedy."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The machine's clock, and a clock that is never set, both in microseconds."""

    wall: Callable[[], int]
    steady: Callable[[], int]


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # both count while the machine sleeps

MACHINE_CLOCK = Clock(
    wall=lambda: time.time_ns() // 1_000,
    steady=lambda: time.clock_gettime_ns(_STEADY) // 1_000,
)


@dataclass(frozen=True, slots=True)
class Head:
    """The row `head`: the last commit's time, the offset of the store's time, and the number of changes of indexes."""

    time: int
    offset: int
    indexes: int


class Connection:
    """A connection to a store's file, with a separate lock: locks of two connections of one process exclude each other.

    Raises `StoreFileError` if the file cannot be used.
    """

    def __init__(self, file: Path, synchronous: Synchronous) -> None:
        self.identity = (0, 0)
        try:
            self._lock = file.with_name(f"{file.name}.lock").open("ab", buffering=0)
        except OSError as error:
            raise StoreFileError(f"{file} cannot be used: {error.strerror}.{_advice(error)}") from error
        _opened.add(self)
        try:
            _refuse_inherited(file)
            self.db = sqlite3.connect(
                file,
                timeout=LOCKED_SECONDS_MAX,
                isolation_level=None,
                cached_statements=STATEMENTS_CACHED,
                check_same_thread=False,  # one thread at a time uses it
            )
        except sqlite3.Error as error:
            self._lock.close()
            raise StoreFileError(cannot_be_used(file, error)) from error
        except StoreFileError:
            self._lock.close()
            raise
        try:
            with self.exclusive():
                self.db.execute("PRAGMA journal_mode = WAL")
                self._create(file)
            self.db.execute(f"PRAGMA synchronous = {synchronous}")
            self.db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES_MAX}")
            self.db.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT_MAX}")
            [self.file_id] = self.db.execute("SELECT file_id FROM head").fetchone()
            self.identity = _identity(file)
        except sqlite3.Error as error:
            self.close()
            raise StoreFileError(cannot_be_used(file, error)) from error
        except BaseException:
            self.close()
            raise

    def _create(self, file: Path) -> None:
        [version] = self.db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StoreFileError(
                f"{file} was written by a newer release (schema {version}; this release reads {VERSION}). "
                "Install that release, or use another folder."
            )
        if version < VERSION:
            if self.db.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise StoreFileError(f"{file} is a database of another program. Use another file.")
            self.db.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA.split(";"):
                self.db.execute(statement)
            self.db.execute("INSERT INTO head VALUES (0, 0, 0, ?)", (random_id(),))
            self.db.execute(f"PRAGMA user_version = {VERSION}")
            self.db.execute("COMMIT")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock: no commit of another thread or process, and no beginning of a read, overlaps."""
        try:
            self._take(fcntl.LOCK_EX)
            yield
        finally:
            self._release()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock together with others: no commit overlaps."""
        try:
            self._take(fcntl.LOCK_SH)
            yield
        finally:
            self._release()

    def _take(self, kind: int) -> None:
        fcntl.flock(self._lock, kind)
        if not fstat(self._lock.fileno()).st_nlink:
            raise sqlite3.OperationalError(DELETED)

    def _release(self) -> None:
        if not self._lock.closed:  # `close` has released it
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction that no other one overlaps. It is rolled back unless the caller commits it."""
        with self.exclusive():
            try:
                self.db.execute("BEGIN IMMEDIATE")
                yield self.db
            finally:
                if self.db.in_transaction:  # before the lock is released
                    self.db.execute("ROLLBACK")

    def close_lock(self) -> bool:
        """Close the lock only, which does not release it if another process has it open. Return whether it was open."""
        was_open = not self._lock.closed
        self._lock.close()
        return was_open

    def head(self) -> Head:
        """Read the row `head` in the open transaction."""
        return Head(*self.db.execute("SELECT time, offset, indexes FROM head").fetchone())

    def close(self) -> None:
        """Close the connection, which ends its transaction, and release its lock."""
        with suppress(sqlite3.Error):
            self.db.close()
        self._lock.close()


_opened: "WeakSet[Connection]" = WeakSet()

_inherited: "list[Connection]" = []
"""The connections that were open when this process was forked. They are kept, since closing one ends a transaction."""


def _close_locks() -> None:
    """Close the locks of a forked process: they would hold what the process that forked had locked when it died."""
    _inherited.extend(connection for connection in list(_opened) if connection.close_lock())


def _identity(file: Path) -> tuple[int, int]:
    """Return what distinguishes a file for SQLite, whatever its name."""
    found = file.stat()
    return found.st_dev, found.st_ino


def _refuse_inherited(file: Path) -> None:
    if _inherited and file.exists() and any(each.identity == _identity(file) for each in _inherited):
        raise StoreFileError(
            f"{file} was open when this process was forked, so this process cannot use it. Open it only after the "
            "fork, or start the process without a fork (multiprocessing: the method `spawn`)."
        )


register_at_fork(after_in_child=_close_locks)


def _advice(error: OSError) -> str:
    return " Its folder must be writable." if error.errno in {EACCES, EPERM, EROFS, ENOENT} else ""


def cannot_be_used(file: Path, error: sqlite3.Error) -> str:
    """Return a message with the remedy of an error at opening."""
    match getattr(error, "sqlite_errorname", ""):
        case "SQLITE_NOTADB" | "SQLITE_CORRUPT":
            return (
                f"{file} is damaged ({error}). Put a copy of the whole folder in its place, or delete the data: "
                "signalbox data clear"
            )
        case "SQLITE_READONLY" | "SQLITE_READONLY_DIRECTORY" | "SQLITE_CANTOPEN" | "SQLITE_PERM":
            return f"{file} cannot be written ({error}): the file and its folder must be writable."
        case "SQLITE_FULL" | "SQLITE_IOERR_WRITE":
            return f"{file} cannot be written ({error}): the disk is full."
        case _:
            return f"{file} cannot be opened: {error}."
