"""Effects: the tasks of a decision, which exist if and only if its commit landed.

An effect is a value. `shared/core/operations/outbox.py` commits it in an outbox record together with the new state and
enqueues it afterwards; the sweeper enqueues it again if a process crashed in between. That is safe because an effect
has a name, and a queue accepts a name once.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Self, TypeVar

State = TypeVar("State")
Answer = TypeVar("Answer")

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


def name_of(*parts: object) -> str:
    """Return a task's name: the same parts, the same name, on any machine.

    Hashed, because Cloud Tasks slows down on names with a common prefix. The parts are the record's path, its
    incarnation, the operation and the attempt: a name stays taken for up to 24 hours after its task has run.
    """
    return hashlib.sha256("\0".join(str(part) for part in parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


@dataclass(frozen=True, slots=True)
class Effect:
    """A task to enqueue: `queue` calls `function` of the catalogue with `payload`, not before `not_before`.

    ``task`` is the task's name in that function; ``path`` is the rest of the URL after the function's name and begins
    with ``/``. ``context`` travels with the payload in the envelope: JSON of a lease, a unit, a batch. ``trace`` is a
    W3C ``traceparent``, propagated to the function. ``wakes`` marks a wake-up, whose name and time follow from the time
    of its commit: see `wake_ups`.
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

    def __post_init__(self) -> None:
        assert self.name, "an effect without a name could be enqueued twice"
        assert self.path.startswith("/"), "a task's path begins with a slash"
        assert not self.context.keys() & {"operation", "task", "payload"}, "the envelope uses these names"

    def to_record(self) -> dict[str, Any]:
        """Return the effect as an outbox record holds it: payload and context as text, so that any JSON fits."""
        wakes = {"wakes": True} if self.wakes else {}
        return wakes | {
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
        """Undo `to_record`."""
        texts = {"payload": json.loads(record["payload"]), "context": json.loads(record["context"])}
        return cls(**{**record, **texts})


@dataclass(frozen=True, slots=True)
class Decision(Generic[State, Answer]):
    """What a rule decides: the new state, the answer to the caller, and the tasks to enqueue."""

    state: State
    answer: Answer
    effects: tuple[Effect, ...] = ()
