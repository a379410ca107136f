"""The events in a SQLite store's file, as the delivering half reads them instead of an inbox.

Commits write them, so there is nothing to receive. Headers and bodies are made here, from the record before and after:
a commit does not pay for them.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from google.events.cloud.firestore import DocumentEventData

from signalbox.adapters.settings import Settings
from signalbox.adapters.sqlite.events import Counts, EventLog, StoredEvent
from signalbox.core.times import microseconds
from signalbox.testing.deliveries import fill_record
from signalbox_tools.local.event_bridge.cloudevent import Event, escaped

CHECKPOINT_SECONDS = 1.0


def checkpoint_for_ever(file: Path) -> None:
    """Copy what commits have written into the store's file, so that the commits need not."""
    with closing(EventLog(file)) as log:  # while a disk is full, this fails and is called again every second
        while True:
            time.sleep(CHECKPOINT_SECONDS)
            log.checkpoint()


class StoredEvents:
    """Reads events, and deletes those that are delivered. Belongs to one event loop."""

    def __init__(self, file: Path, settings: Settings) -> None:
        self._log = EventLog(file)
        self._settings = settings
        self._ended: dict[int, asyncio.Future[None]] = {}
        self._given_up: set[int] = set()

    @contextmanager
    def on_notice(self, notify: Callable[[], object]) -> Iterator[None]:
        """Within the context, call `notify` when any process has committed events. A notice may be lost."""
        loop, notices = asyncio.get_running_loop(), self._log.notices

        def received() -> None:
            notices.receive()
            notify()

        loop.add_reader(notices, received)
        try:
            yield
        finally:
            loop.remove_reader(notices)

    def after(self, number: int) -> list[tuple[int, str]]:
        """List the events to be delivered that came after a given one, oldest first, with their triggers."""
        return self._log.after(number)

    def event(self, number: int) -> tuple[Event, float]:
        """Return an event and the time of its commit, in seconds since 1970."""
        stored = self._log.event(number)
        committed_at = stored.after.read_time
        return Event(stored.trigger, self._headers(stored), self._body(stored)), microseconds(committed_at) / 1_000_000

    async def forget(self, number: int) -> None:
        """Delete a delivered event."""
        await self._end(number)

    async def give_up(self, number: int) -> None:
        """Mark an event that could not be delivered in time."""
        self._given_up.add(number)
        await self._end(number)

    def counts(self) -> Counts:
        return self._log.counts()

    async def _end(self, number: int) -> None:
        """End an event together with all others that end in this turn of the event loop."""
        loop = asyncio.get_running_loop()
        if not self._ended:
            loop.call_soon(self._end_all)
        self._ended[number] = loop.create_future()
        await self._ended[number]

    def _end_all(self) -> None:
        ended, self._ended = self._ended, {}
        given_up, self._given_up = self._given_up, set()
        error: sqlite3.Error | None = None
        try:
            self._log.end(ended.keys() - given_up, given_up)
        except sqlite3.Error as raised:
            error = raised
        for future in ended.values():
            if not future.cancelled():
                future.set_exception(error) if error else future.set_result(None)

    def _headers(self, event: StoredEvent) -> dict[str, str]:
        settings, document = self._settings, escaped(event.after.path)
        return {
            "ce-specversion": "1.0",
            "ce-type": "google.cloud.firestore.document.v1.written",
            "ce-source": f"//firestore.googleapis.com/projects/{settings.project}/databases/{settings.database}",
            "ce-id": event.id,
            "ce-subject": f"documents/{document}",
            "ce-document": document,
            "ce-time": event.after.read_time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "ce-location": settings.location,
            "ce-project": settings.project,
            "ce-database": settings.database,
            "ce-namespace": "(default)",
            "content-type": "application/protobuf",
        }

    def _body(self, event: StoredEvent) -> bytes:
        data = DocumentEventData.pb()()
        database = f"projects/{self._settings.project}/databases/{self._settings.database}"
        for which, snapshot in (("old_value", event.before), ("value", event.after)):
            times = {"create_time": snapshot.create_time, "update_time": snapshot.update_time}
            fill_record(data, which, f"{database}/documents/{snapshot.path}", snapshot.data, **times)
        data.update_mask.SetInParent()  # the emulator sends an empty one
        return bytes(data.SerializeToString())
