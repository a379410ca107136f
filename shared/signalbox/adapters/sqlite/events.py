"""The events of a store's changes. Commits write them; one process reads, delivers and deletes them.

A commit writes its events in its own transaction: no event is lost, no event is that of a failed commit, and once a
commit is acknowledged its events are counted.
"""

from collections.abc import Iterable
from contextlib import suppress
from os import O_CLOEXEC, O_NONBLOCK, O_RDWR, close, mkfifo, read, write
from os import open as open_descriptor
from pathlib import Path

from signalbox.adapters.sqlite.file import Connection, StoreFileError
from signalbox.adapters.sqlite.values import decoded
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import Snapshot
from signalbox.core.times import instant

NOTICES_MAX = 4_096

SELECT = """
SELECT trigger, path, committed_at,
  before, before_created_at, before_updated_at, after, after_created_at, after_updated_at
FROM events WHERE number = ?
"""
COUNT = """
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0), count(*), coalesce(sum(given_up), 0)
FROM events
"""


class Notices:
    """A named pipe next to the file: commits write to it when they have caused events. A notice may be lost."""

    def __init__(self, file: Path) -> None:
        path = file.with_name(f"{file.name}.notices")
        try:
            if path.is_file():  # a copy of the folder may contain a file in the place of the pipe
                path.unlink(missing_ok=True)
            with suppress(FileExistsError):
                mkfifo(path, 0o600)
            self._descriptor = open_descriptor(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
        except OSError as error:
            raise StoreFileError(f"{path} cannot be used as a pipe: {error.strerror}.") from error

    def send(self) -> None:
        """Give notice, unless the pipe is full of notices."""
        with suppress(BlockingIOError):
            write(self._descriptor, b".")

    def receive(self) -> None:
        """Remove the notices from the pipe."""
        with suppress(BlockingIOError):
            read(self._descriptor, NOTICES_MAX)

    def fileno(self) -> int:
        """Return the descriptor, which is readable while there are notices."""
        return self._descriptor

    def close(self) -> None:
        close(self._descriptor)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A change of a record, once for each trigger whose pattern it matches."""

    trigger: str
    id: str
    before: Snapshot
    after: Snapshot


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of events since the file was made: of all, of those to be delivered, and of those given up."""

    received: int
    left: int
    given_up: int

    @property
    def delivered(self) -> int:
        return self.received - self.left - self.given_up


class EventLog:
    """The events in a store's file, for the one process that delivers them. Not for several threads.

    Raises `StoreFileError` if the file cannot be used, and `sqlite3.Error` if a call fails.
    """

    def __init__(self, file: Path) -> None:
        self._connection = Connection(file, "NORMAL")
        self._db = self._connection.db
        self.notices = Notices(file)

    def after(self, number: int) -> list[tuple[int, str]]:
        """List the numbers and triggers of the events to be delivered that are later than a given one, in order."""
        select = "SELECT number, trigger FROM events WHERE number > ? AND NOT given_up ORDER BY number"
        return self._db.execute(select, (number,)).fetchall()

    def event(self, number: int) -> StoredEvent:
        """Read an event."""
        trigger, path, committed_at, *sides = self._db.execute(SELECT, (number,)).fetchone()
        before, after = (_snapshot(path, committed_at, *side) for side in (sides[:3], sides[3:]))
        return StoredEvent(trigger, f"{self._connection.file_id}-{number}", before, after)

    def end(self, delivered: Iterable[int], given_up: Iterable[int]) -> None:
        """Delete delivered events, and mark those that could not be delivered in time."""
        with self._connection.writing() as db:
            db.executemany("DELETE FROM events WHERE number = ?", [(number,) for number in delivered])
            db.executemany(
                "UPDATE events SET given_up = 1, before = NULL, after = NULL WHERE number = ?",
                [(number,) for number in given_up],
            )
            db.execute("COMMIT")

    def counts(self) -> Counts:
        """Return the numbers of events. All events of acknowledged commits are counted."""
        received, kept, given_up = self._db.execute(COUNT).fetchone()
        return Counts(received, kept - given_up, given_up)

    def checkpoint(self) -> None:
        """Copy the pages of the write-ahead log into the file, as far as no read needs them. No commit waits for it."""
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def close(self) -> None:
        self._connection.close()
        self.notices.close()


def _snapshot(path: str, read_at: int, text: str | None, created_at: int | None, updated_at: int | None) -> Snapshot:
    if text is None or created_at is None or updated_at is None:
        return Snapshot(path, None, instant(read_at))
    return Snapshot(path, decoded(text), instant(read_at), instant(updated_at), instant(created_at))
