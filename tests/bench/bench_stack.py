"""A running stack for measurements, on the store that ``STORE`` names.

Documents are written directly to the store, in the form in which the functions store them, and without their events. So
a measurement begins with the documents that it needs, and with no work in progress.
"""

import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from signalbox.adapters import runtime
from signalbox.adapters.settings import SQLITE
from signalbox.adapters.sqlite.events import EventLog
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.catalogue import reading
from signalbox.core.ports import Delete, Put, Query, Store, Write
from signalbox.core.records.queries import Condition
from signalbox.documents.machine import links
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.model import stamped_contents as model
from signalbox.documents.model.contents import Content, Surveyed
from signalbox_tools.local.logs.call_totals import LogStats
from signalbox_tools.local.stack import Stack
from signalbox_tools.local.store.emulator_triggers import EmulatorEvents

SEED_PAGE = 400
IDLE_SECONDS_MAX = 600.0
LOOK_SECONDS = 0.02
TARGET = "country"
DATABASE = "(default)"
NOWHERE = "nowhere/{key}"


@contextmanager
def staged(folder: Path, catalogue: Path | None = None) -> Iterator["Stage"]:
    """Run a stack on the store that ``STORE`` names."""
    with Stack(folder=folder, catalogue=catalogue) as stack, Stage(stack) as stage:
        yield stage


class Stage:
    """A stack, with a connection to its functions and one past them to its store, whose writes cause no events."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.http = httpx.Client(base_url=stack.base_url, timeout=60)
        settings = stack.settings
        self.host, self.project = settings.firestore_emulator, settings.project
        self.is_sqlite = self.host == SQLITE
        self._file = stack.folder / "store.sqlite"
        self._sqlite = SqliteStore(self._file) if self.is_sqlite else None
        self.store: Store = self._sqlite or runtime.firestore(settings)
        self.followers = LogStats(stack.folder / "functions.log", ("link_fan_out", "link_refresh"))
        self._events = EmulatorEvents(self.host, self.project)
        self._triggers = tuple(reading.load().triggers.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()
        if self._sqlite:
            self._sqlite.close()

    @contextmanager
    def events_held(self) -> Iterator[None]:
        """Leave out the events of what is written inside; nothing is under way before and after."""
        self.wait_until_idle()
        if self._sqlite:
            with self._events_of_the_file_held():
                yield
            self.wait_until_idle()
            return
        self._events.register(replace(trigger, document=NOWHERE) for trigger in self._triggers)
        try:
            yield
            self.wait_until_idle()
        finally:
            self._events.register(self._triggers)

    @contextmanager
    def _events_of_the_file_held(self) -> Iterator[None]:
        """Stop the process that delivers events, and delete the events before it continues."""
        delivering = self.stack.pid("events-deliver")
        assert delivering is not None, "an idle stack delivers events"
        os.kill(delivering, signal.SIGSTOP)
        try:
            yield
            with closing(EventLog(self._file)) as log:
                log.end([number for number, _ in log.after(0)], ())
        finally:
            os.kill(delivering, signal.SIGCONT)

    def wait_until_idle(self) -> None:
        """Wait until no task and no event is under way."""
        self.stack.wait_until_idle(IDLE_SECONDS_MAX)

    def clear(self) -> None:
        """Remove every record. Only while events are held."""
        if self._sqlite:
            with self._sqlite.all_records() as (_, records):
                paths = [record.path for record in records]
            self.write([Delete(path) for path in paths])
            return
        url = f"http://{self.host}/emulator/v1/projects/{self.project}/databases/{DATABASE}/documents"
        with urllib.request.urlopen(urllib.request.Request(url, method="DELETE")):
            return

    def seed(self, target: Content, linkers: int, collection: str = model.COLLECTION) -> None:
        """Store a target and so many documents that embed it, as their puts would have left them."""
        writes: list[Write] = [Put(f"{collection}/{TARGET}", record(TARGET, target, {}, linked=True))]
        for number in range(linkers):
            key = key_of(number)
            writes.append(Put(f"{collection}/{key}", record(key, city(number), {TARGET: target}, linked=False)))
        self.write(writes)

    def write(self, writes: Sequence[Write]) -> None:
        """Write records, each by itself."""
        for first in range(0, len(writes), SEED_PAGE):
            outcomes = self.store.write_each(writes[first : first + SEED_PAGE])
            assert not any(isinstance(outcome, Exception) for outcome in outcomes), "a write did not land"

    def put(self, key: str, content: Content) -> None:
        """Put a document as a caller does."""
        self.http.put(f"documents/{key}", json=content).raise_for_status()

    def wait_until_shown(self, content: Content, linkers: int) -> None:
        """Return when the last copy shows the target's number; the last by key is looked at first, being cheap."""
        if linkers:
            last = f"{model.COLLECTION}/{key_of(linkers - 1)}"
            self._wait(lambda: copy_in(self.store.read(last)[0].data).get("number") == content["number"])
        self._wait(lambda: self.count_showing(content) == linkers)

    def count_showing(self, content: Content, collection: str = model.COLLECTION) -> int:
        """Count the copies that show the target's number."""
        return self.store.count(Query(collection, (Condition((TARGET, "number"), "==", content["number"]),)))

    @contextmanager
    def store_with_events_of(self, collection: str) -> Iterator[Store]:
        """Open a store whose writes to a collection cause events, as those of the stack's documents do.

        Only while events are held. Google's emulator makes events by itself.
        """
        if not self.is_sqlite:
            yield self.store
            return
        with closing(SqliteStore(self._file, {"bench": f"{collection}/{{key}}"})) as store:
            yield store

    @staticmethod
    def _wait(over: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + IDLE_SECONDS_MAX
        while not over():
            if time.monotonic() > give_up_at:
                raise TimeoutError("the copies do not follow")
            time.sleep(LOOK_SECONDS)


def country(number: int) -> Content:
    """Make a target; its number distinguishes its states."""
    return {"name": "Bharat", "capital": "New Delhi", "continent": "Asia", "currency": "INR", "number": number}


def city(number: int) -> Content:
    """Make a document that embeds the target."""
    place = {"latitude": 19.07283, "longitude": 72.88261, "timezone": "Asia/Kolkata"}
    return {"name": f"City {number}", "population": number, **place, TARGET: {"key": TARGET}}


def key_of(number: int) -> str:
    """Return a document's key; keys are in the order of their numbers."""
    return f"city-{number:06}"


def record(key: str, content: Content, sources: Mapping[str, Content], *, linked: bool) -> Mapping[str, Any]:
    """Make the record that a put leaves behind."""
    shaped = links.embed_links(key, Surveyed(content), Embedding(sources))
    document = model.stamped(None, shaped, "put", datetime.now(UTC), linked=linked)
    return document.to_record()


def copy_in(data: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a document's copy of the target, as its record holds it."""
    return (data or {}).get(TARGET) or {}
