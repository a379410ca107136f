"""Deliveries in tests: their outcomes, the faults of Cloud Tasks and Eventarc, and Firestore's events.

Eventarc posts an event to a function as a CloudEvent in binary mode with a protobuf body.
"""

from dataclasses import field
from datetime import datetime
from random import Random
from typing import Any
from urllib.parse import quote

from google.events.cloud.firestore import DocumentEventData

from signalbox.adapters.cost_meter import Cost
from signalbox.adapters.firestore.values import fill_fields, fill_timestamp
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import Data, DocumentEvent, Snapshot


@dataclass(slots=True)
class Faults:
    """The fractions of deliveries, from 0 to 1, that have each fault. The same `seed` makes the same choices.

    - duplicate: the task or event is delivered twice.
    - late: the task is delivered `late_seconds` after it is due.
    - lose_answer: the function runs, but its response is lost, so the task is delivered again.
    - unavailable: the delivery gets a 503 before the function runs, and is repeated.
    - reorder: any task that is due may be next, not only the oldest.

    A task has each of `late`, `lose_answer` and `unavailable` at most once, so every run ends.

        harness.run(Faults(duplicate=0.3, lose_answer=0.1, reorder=True, seed=7))
    """

    duplicate: float = 0
    late: float = 0
    lose_answer: float = 0
    unavailable: float = 0
    reorder: bool = False
    late_seconds: float = 3600
    seed: int = 0
    _random: Random = field(init=False, repr=False)
    _met: set[tuple[str, str]] = field(init=False, repr=False, default_factory=set)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)  # noqa: S311  choices that a seed repeats, no secrets

    def duplicates(self) -> bool:
        """Return whether this delivery is to be repeated."""
        return self._random.random() < self.duplicate

    def once(self, kind: str, name: str) -> bool:
        """Return whether the task `name` has the fault `kind` (a field's name) now."""
        happens = self._random.random() < getattr(self, kind) and (kind, name) not in self._met
        if happens:
            self._met.add((kind, name))
        return happens

    def index(self, count: int) -> int:
        """Return the index of the next delivery."""
        return self._random.randrange(count) if self.reorder else 0


UNAVAILABLE = 503

FAILED = 500


class TaskFailed(AssertionError):
    """A delivery failed.

    The function's code raised an exception (the cause), the status was unexpected, or a run of a flow got stuck.
    """


@dataclass(frozen=True, slots=True)
class Delivery:
    """The outcome of a delivery: HTTP status, cost, and the exception that was raised.

    After a `Problem` with a status of 200 to 299, the task is abandoned. `stuck` names the run of a flow that the
    delivery has marked as stuck, with the reason and its place.
    """

    what: str
    status: int
    cost: Cost
    exception: Exception | None = None
    stuck: str = ""


def succeeded(delivery: Delivery) -> Delivery:
    """Return the delivery if it was acknowledged. Raises `TaskFailed` otherwise, and if a flow got stuck."""
    if not 200 <= delivery.status < 300:
        raise TaskFailed(f"{delivery.what} was answered with {delivery.status}") from delivery.exception
    if delivery.stuck:
        raise TaskFailed(delivery.stuck)
    return delivery


# --- events ---


DATABASE = "projects/demo-signalbox/databases/(default)"


def event_of(event_id: str, path: str, before: Snapshot, after: Snapshot) -> DocumentEvent:
    """Return the event of a write that the store observed."""
    collection, _, key = path.rpartition("/")
    times = (before.update_time, after.update_time, after.create_time)
    kind = "created" if before.data is None else "deleted" if after.data is None else "updated"
    return DocumentEvent(event_id, collection, key, path, before.data, after.data, *times, kind)


def headers_of(event: DocumentEvent) -> dict[str, str]:
    """Return the headers that carry an event's attributes."""
    return {
        "ce-specversion": "1.0",
        "ce-type": "google.cloud.firestore.document.v1.written",
        "ce-source": f"//firestore.googleapis.com/{DATABASE}",
        "ce-id": event.id,
        "ce-document": quote(event.path),
        "Content-Type": "application/protobuf",
    }


def body_of(event: DocumentEvent) -> bytes:
    """Return an event's body, without records if the event is `partial`."""
    data = DocumentEventData.pb()()
    name = f"{DATABASE}/documents/{event.path}"
    fill_record(data, "old_value", name, event.before, update_time=event.before_update_time)
    fill_record(data, "value", name, event.after, update_time=event.update_time, create_time=event.create_time)
    return bytes(data.SerializeToString())


def fill_record(data: Any, which: str, name: str, held: Data | None, **times: datetime | None) -> None:
    """Write a record's name, fields and times into one side of an event, unless the record does not exist."""
    if held is None:
        return
    document = getattr(data, which)
    document.name = name
    fill_fields(document.fields, held)
    for name_of_time, time in times.items():
        if time is not None:
            fill_timestamp(getattr(document, name_of_time), time)
