"""What a decision asks for beside the new state: tasks that exist if and only if its commit landed.

An effect is a value. `shared/operations/perform.py` writes it into the outbox with the state it follows from, hands
it to the queue afterwards, and the sweeper repeats the handing over if a process died in between. That is safe
because an effect carries its own name: a queue takes a name once.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

State = TypeVar("State")
Answer = TypeVar("Answer")

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


def name_of(*parts: object) -> str:
    """Name a task after what it is for: the same parts, the same name, on any machine.

    Hashed, because Cloud Tasks slows down on names with a common beginning. Give the record's path, its incarnation,
    the operation and the attempt: a name stays taken for up to 24 hours after its task has run.
    """
    return hashlib.sha256("\0".join(str(part) for part in parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


@dataclass(frozen=True, slots=True)
class Effect:
    """A task to be: `function` of the catalogue is called with `payload` through `queue`, not before `not_before`.

    ``task`` names what the function should do (the ``task`` of the envelope); ``path`` is the rest of the URL after the
    function's name and begins with ``/``. ``context`` is JSON that stands beside the payload in the envelope: a lease,
    a unit, a batch. ``trace`` is a W3C ``traceparent``, carried to the call.
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

    def __post_init__(self) -> None:
        assert self.name, "an effect without a name would be handed over twice"
        assert self.path.startswith("/"), "a task's path begins with a slash"
        assert not self.context.keys() & {"operation", "task", "payload"}, "the envelope has these already"


@dataclass(frozen=True, slots=True)
class Decision(Generic[State, Answer]):
    """What a rule says: the state that follows, the answer to the caller, and the tasks that the commit asks for."""

    state: State
    answer: Answer
    effects: tuple[Effect, ...] = ()
