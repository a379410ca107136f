"""Events that have been received and not delivered, in a SQLite file that both halves of the bridge share.

Every event that `add` has stored survives the death of any process (a write-ahead log, flushed to the operating system;
a power cut may lose events). Writes of one turn of the event loop share one transaction, which takes 60 microseconds:
less than handing it to a thread would. Ids only increase, also across restarts, so new events are those after the last
id.
"""

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from signalbox.adapters.sqlite.events import Counts
from signalbox_tools.local.event_bridge.cloudevent import Event

LOCKED_SECONDS_MAX = 30  # the other half holds the lock for milliseconds, but a busy machine may stop it there
NOTICES_MAX = 4_096
SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  trigger TEXT NOT NULL,
  headers TEXT NOT NULL,
  body BLOB NOT NULL,
  received_at REAL NOT NULL,
  given_up INTEGER NOT NULL DEFAULT 0)
"""
INDEX = "CREATE INDEX IF NOT EXISTS given_up ON events (given_up)"  # a count reads this index instead of the bodies
ADD = "INSERT INTO events (trigger, headers, body, received_at) VALUES (?, ?, ?, ?)"
FORGET = "DELETE FROM events WHERE id = ?"
GIVE_UP = "UPDATE events SET given_up = 1, body = x'' WHERE id = ?"
COUNT = """
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0), count(*), coalesce(sum(given_up), 0)
FROM events
"""


class Inbox:
    """Stores events until they are deleted. Belongs to one event loop."""

    def __init__(self, database: Path) -> None:
        self._reading = _connect(database)
        self._writing = _connect(database)
        self._writing.execute(SCHEMA)
        self._writing.execute(INDEX)
        self._waiting: list[tuple[str, tuple[Any, ...], asyncio.Future[None]]] = []
        self._notices = _pipe(database.with_name(f"{database.name}.notices"))

    @contextmanager
    def on_notice(self, notify: Callable[[], object]) -> Iterator[None]:
        """Within the context, call `notify` when any process has added events. A notice may be lost."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._notices, lambda: (os.read(self._notices, NOTICES_MAX), notify()))
        try:
            yield
        finally:
            loop.remove_reader(self._notices)

    async def add(self, event: Event) -> None:
        """Store an event; it is durable when this returns."""
        await self._write(ADD, event.trigger, json.dumps(dict(event.headers)), event.body, time.time())

    def add_now(self, event: Event) -> None:
        """Store an event in a separate transaction, without the event loop."""
        values = (event.trigger, json.dumps(dict(event.headers)), event.body, time.time())
        self._commit([(ADD, values)])

    async def forget(self, event_id: int) -> None:
        """Delete a delivered event."""
        await self._write(FORGET, event_id)

    async def give_up(self, event_id: int) -> None:
        """Mark an event that could not be delivered in time."""
        await self._write(GIVE_UP, event_id)

    def after(self, event_id: int) -> list[tuple[int, str]]:
        """List the ids and triggers of events to be delivered that came after a given one, oldest first."""
        select = "SELECT id, trigger FROM events WHERE id > ? AND NOT given_up ORDER BY id"
        return self._reading.execute(select, (event_id,)).fetchall()

    def event(self, event_id: int) -> tuple[Event, float]:
        """Return an event and the time at which it was received, in seconds since 1970."""
        select = "SELECT trigger, headers, body, received_at FROM events WHERE id = ?"
        trigger, headers, body, received_at = self._reading.execute(select, (event_id,)).fetchone()
        return Event(trigger, json.loads(headers), body), received_at

    def counts(self) -> Counts:
        received, kept, given_up = self._reading.execute(COUNT).fetchone()
        return Counts(received, kept - given_up, given_up)

    async def _write(self, statement: str, *values: Any) -> None:
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._write_all)
        self._waiting.append((statement, values, written))
        await written

    def _write_all(self) -> None:
        group, self._waiting = self._waiting, []
        error: sqlite3.Error | None = None
        try:
            self._commit([(statement, values) for statement, values, _ in group])
        except sqlite3.Error as raised:
            error = raised
        for _, _, future in group:
            _settle(future, error)

    def _commit(self, group: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        with self._writing:
            self._writing.execute("BEGIN IMMEDIATE")
            for statement, values in group:
                self._writing.execute(statement, values)
        if any(statement is ADD for statement, _ in group):
            with suppress(BlockingIOError):  # the pipe is full: enough notices are in it
                os.write(self._notices, b".")


def _settle(future: asyncio.Future[None], error: sqlite3.Error | None) -> None:
    if future.cancelled():  # its caller went away; the write is kept
        return
    if error:
        future.set_exception(error)
    else:
        future.set_result(None)


def _pipe(path: Path) -> int:
    """Open a named pipe for reading and writing. Its name may be long, unlike the name of a socket."""
    with suppress(FileExistsError):
        os.mkfifo(path)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK)


def _connect(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(database, timeout=LOCKED_SECONDS_MAX, isolation_level=None)
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging; SQLite does not wait for a lock here, and the other half may also switch."""
    deadline = time.monotonic() + LOCKED_SECONDS_MAX
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
