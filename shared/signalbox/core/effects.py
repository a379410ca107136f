"""Effects: the tasks of a decision, which exist if and only if its commit landed. Envelopes, names and receipts.

An effect is a value. `outbox.py` commits it in an outbox record together with the new state and enqueues it afterwards;
the sweeper enqueues it again if a process crashed in between. That is safe because an effect has a name, and a queue
accepts a name once.

The JSON body of every task is its envelope: ``{"operation": id, "task": name, "payload": {…}}``, plus ``"lease"``,
``"unit"`` or another member if the task runs for one.

A receipt records an operation that was done under an id, or by a task that may be delivered again. Firestore deletes it
32 days after `written_at`: Cloud Tasks delivers a task for up to 31 days.

A wake-up is an effect that is committed without a name (`wake_ups.py`).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Generic, Self, TypeVar

from signalbox.core.given import given
from signalbox.core.kit_names import shard_names
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import BadTaskEnvelope, NotInCatalogue
from signalbox.core.records.formats import check_task

State = TypeVar("State")
Answer = TypeVar("Answer")

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


def name_of(*parts: object) -> str:
    """Return a task's name: the same for the same parts, on any machine.

    The name is a hash, because Cloud Tasks slows down on names with a common prefix. The parts are the record's path,
    its incarnation, the operation and the attempt: a name stays taken for up to 24 hours after its task has run.
    """
    return hashlib.sha256("\0".join(str(part) for part in parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


@dataclass(frozen=True, slots=True)
class Effect:
    """A task to enqueue: `queue` calls `function` of the catalogue with `payload`, not before `not_before`.

    - ``task``: the task's name in that function.
    - ``path``: the rest of the URL after the function's name. It begins with ``/``.
    - ``context``: JSON of a lease, a unit or a batch, which travels with the payload in the envelope.
    - ``trace``: a W3C ``traceparent``, propagated to the function.
    - ``wakes``: whether this is a wake-up. The name and the time of a wake-up follow from the time of the commit.
    - ``operation``: the envelope's operation, if it is not the task's name. Outbox records do not contain an operation.
    """

    name: str
    queue: str
    function: str
    task: str
    payload: Mapping[str, Any]
    path: str = "/"
    not_before: datetime | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    trace: str = field(default="", compare=False)
    wakes: bool = False
    operation: str = ""

    def __post_init__(self) -> None:
        assert self.name, "an effect without a name could be enqueued twice"
        assert self.path.startswith("/"), "a task's path begins with a slash"
        assert not self.context.keys() & {"operation", "task", "payload"}, "the envelope uses these names"

    def to_record(self) -> dict[str, Any]:
        """Return the effect as stored in an outbox record: payload and context as text, so that any JSON fits."""
        return {
            **given(wakes=self.wakes or None),
            "name": self.name,
            "queue": self.queue,
            "function": self.function,
            "task": self.task,
            "path": self.path,
            "trace": self.trace,
            "not_before": self.not_before,
            "payload": json.dumps(self.payload),
            "context": json.dumps(self.context),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Undo `to_record`. Raises `NotInCatalogue` for names that no effect has."""
        names = {name: record[name] for name in ("name", "queue", "function", "task", "path")}
        if wrong := [name for name, value in names.items() if not isinstance(value, str) or not value]:
            raise NotInCatalogue(f"a record has a task whose {wrong[0]} is {names[wrong[0]]!r}")
        if not names["path"].startswith("/"):
            raise NotInCatalogue(f"a record has a task at {names['path']!r}, which is not a path")
        texts = {"payload": json.loads(record["payload"]), "context": json.loads(record["context"])}
        return cls(**{**record, **texts})


def shard_of(effect: Effect, shards: int) -> str:
    """Return the Cloud Tasks queue that takes a task, if the task's queue has this number of shards.

    It follows from the task's name, since Cloud Tasks accepts a name once in each of its queues: a process that
    enqueues the task again must find the name taken.
    """
    if shards == 1:
        return effect.queue
    return shard_names(effect.queue, shards)[int(name_of("shard", effect.name), 16) % shards]


@dataclass(frozen=True, slots=True)
class Decision(Generic[State, Answer]):
    """The result of a decision: the new state, the answer to the caller, and the tasks to enqueue."""

    state: State
    answer: Answer
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskEnvelope:
    """The body of a task. `operation` is the same in every delivery; ``context`` has the task's lease or unit."""

    operation: str
    name: str
    payload: Mapping[str, Any]
    context: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, effect: Effect) -> Self:
        """Return the envelope of an effect. Its operation is the effect's, or else the effect's name."""
        return cls(effect.operation or effect.name, effect.task, effect.payload, effect.context)

    def to_json(self) -> dict[str, Any]:
        """Return the body of the task."""
        return {"operation": self.operation, "task": self.name, "payload": self.payload, **self.context}

    @classmethod
    def from_json(cls, body: Json) -> Self:
        """Parse the body of a task. Raises `BadTaskEnvelope`, and `NewerFormat` for the body of a newer release."""
        match body:
            case {"operation": str(operation), "task": str(name), "payload": dict(payload), **context}:
                named = {str(kind): value for kind, value in context.items()}
                check_task(name, named)
                return cls(operation, name, payload, named)
        raise BadTaskEnvelope('A task\'s body is {"operation": …, "task": …, "payload": {…}}.')


@dataclass(frozen=True, slots=True)
class Backoff:
    """A queue's pauses between deliveries of a task, as Cloud Tasks documents them: they double, then grow linearly."""

    min_seconds: float
    max_seconds: float
    doublings_max: int

    def pause_seconds(self, attempt: int) -> float:
        """Return the least time between the end of this attempt, counted from 1, and the next attempt."""
        doublings = min(attempt - 1, self.doublings_max)
        steps = max(1, attempt - self.doublings_max)
        return float(min(self.min_seconds * 2**doublings * steps, self.max_seconds))


NO_BACKOFF = Backoff(0, 0, 0)

RECEIPTS = "receipts"


def receipt_path(name: str) -> str:
    """Return the path of the receipt of an operation."""
    return f"{RECEIPTS}/{name}"


# --- wake-ups ---


WAKE_UP_TASK = "turn"

WAKE_UP_PATH = "/turns"


@dataclass(frozen=True, slots=True)
class RecordedSpan:
    """A span of time that a commit has recorded, for traces. Repeating a `key` repeats the same span.

    `trace` is the key of the span's trace, and `parent` the key of the span above; both may be empty. `links` has the
    trace and the key of other spans. `error` is empty for a success.
    """

    name: str
    trace: str
    key: str
    parent: str
    started_at: datetime
    ended_at: datetime
    attributes: Mapping[str, str | int]
    error: str = ""
    links: Sequence[tuple[str, str]] = ()


def span_id(key: str, size_bytes: int) -> int:
    """Return the id of a recorded span (8 bytes) or of a trace (16 bytes): a hash of `key`."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:size_bytes]) or 1
