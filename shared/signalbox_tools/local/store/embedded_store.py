"""The in-memory store for a machine without Google's emulator, with its events.

In a local stack, it runs in a separate process (`embedded_store_process`).

The store reports every change in commit order. One thread posts them in that order to the local event bridge,
in the emulator's own form (base64 text labelled protobuf, the same ``ce-*`` headers), and retries each until it is
acknowledged. So no event is lost while this process runs, and the bridge needs no code for this store.
"""

import base64
import http.client
import logging
import threading
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from time import sleep
from urllib.parse import quote, urlsplit

from google.events.cloud.firestore import DocumentEventData

from signalbox.adapters.settings import Settings
from signalbox.core.document_patterns import matches
from signalbox.core.ports import Snapshot, Store
from signalbox.testing.deliveries import fill_record
from signalbox.testing.memory_store import MemoryStore, Record
from signalbox_tools.local.kept_threads import kept_thread

POST_SECONDS_MAX = 10.0
"""Timeout of a post: the bridge acknowledges before it delivers, within milliseconds."""

DATA_SCHEMA = (
    "https://github.com/googleapis/google-cloudevents/blob/main/proto/google/events/cloud/firestore/v1/data.proto"
)

RETRY_SECONDS = 0.2
"""The pause between attempts: about the time in which the supervisor restarts a bridge."""

log = logging.getLogger("signalbox")

Records = dict[str, dict[str, Record]]


def embedded_store(settings: Settings) -> Store:
    """Return the store of this process; its changes become events if the settings name an address for them."""
    if not settings.events_url:
        return MemoryStore(now, None)
    sender = EventSender(settings)
    kept_thread("events", sender.run).start()
    return MemoryStore(now, sender.observe)


class KeptStore(MemoryStore):
    """A store whose records can be exported and imported."""

    @property
    def records(self) -> Records:
        """The records by collection and id; no call runs while they are read."""
        with self._lock:
            return {name: dict(records) for name, records in self._collections.items()}

    @records.setter
    def records(self, records: Records) -> None:
        self._collections = records


@dataclass(frozen=True, slots=True)
class _Event:
    trigger: str
    path: str
    before: Snapshot
    after: Snapshot


class EventSender:
    """Posts each observed change to the events' address, once for each trigger whose pattern fits."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._patterns = settings.triggers
        self._waiting: deque[_Event] = deque()
        self._more = threading.Semaphore(0)
        self._connection: http.client.HTTPConnection | None = None

    @property
    def unsent(self) -> list[_Event]:
        """The events that have not been posted yet, and perhaps the last posted one."""
        return list(self._waiting)

    @unsent.setter
    def unsent(self, events: list[_Event]) -> None:
        self._waiting.extend(events)
        if events:
            self._more.release(len(events))

    def observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        """Queue the events of a change, without waiting."""
        for trigger, pattern in self._patterns.items():
            if matches(pattern, path):
                self._waiting.append(_Event(trigger, path, before, after))
                self._more.release()

    def run(self) -> None:
        """Post events forever, one at a time, in commit order."""
        while True:
            self._more.acquire()
            try:
                self._deliver(self._waiting[0])
            except Exception:  # it cannot be written, and the later events do not wait for it
                log.exception("event dropped, because it cannot be sent: %s", self._waiting[0].path)
            self._waiting.popleft()

    def _deliver(self, event: _Event) -> None:
        headers, body = _headers(self._settings, event), base64.b64encode(_data(self._settings, event))
        path = f"/functions/projects/{self._settings.project}/triggers/{event.trigger}"
        while not self._posted(path, headers, body):
            sleep(RETRY_SECONDS)

    def _posted(self, path: str, headers: Mapping[str, str], body: bytes) -> bool:
        try:
            self._connection = self._connection or self._connect()
            self._connection.request("POST", urlsplit(self._settings.events_url).path.rstrip("/") + path, body, headers)
            response = self._connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            self._connection = None
            return False
        return 200 <= response.status < 300

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self._settings.events_url).netloc, timeout=POST_SECONDS_MAX)


def _data(settings: Settings, event: _Event) -> bytes:
    data = DocumentEventData.pb()()
    name = f"projects/{settings.project}/databases/{settings.database}/documents/{event.path}"
    for which, snapshot in (("old_value", event.before), ("value", event.after)):
        times = {"create_time": snapshot.create_time, "update_time": snapshot.update_time}
        fill_record(data, which, name, snapshot.data, **times)
    data.update_mask.SetInParent()  # the emulator sends an empty one
    return bytes(data.SerializeToString())


def _headers(settings: Settings, event: _Event) -> dict[str, str]:
    # Bare UTF-8, as the emulator sends it, which http.client writes from latin-1; a line break would end the header.
    printable = "".join(letter if letter.isprintable() else quote(letter) for letter in event.path)
    latin = printable.encode("utf-8").decode("latin-1")
    return {
        "ce-specversion": "1.0",
        "ce-type": "google.cloud.firestore.document.v1.written",
        # The emulator repeats "projects", and the bridge corrects that.
        "ce-source": f"//firestore.googleapis.com/projects/projects/{settings.project}/databases/{settings.database}",
        "ce-id": str(uuid.uuid4()),
        "ce-subject": f"documents/{latin}",
        "ce-time": now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ce-datacontenttype": "application/protobuf",
        "ce-dataschema": DATA_SCHEMA,
        "ce-location": settings.location,
        "ce-project": settings.project,
        "ce-database": settings.database,
        "ce-namespace": "(default)",
        "ce-document": latin,
        "Content-Type": "application/protobuf",
    }


def now() -> datetime:
    """Return the time of the machine's clock."""
    return datetime.now(UTC)
