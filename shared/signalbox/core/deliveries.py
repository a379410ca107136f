"""One delivery of a task, as a function receives it.

The adapter that receives the request gives it the members of the task's context as JSON. The kit's own tasks read their
payload only. For a user's task, `tasks.model.contexts` parses the context once, and all code after that has its types.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Generic, TypeVar

from signalbox.core.calls import Call
from signalbox.core.effects import NO_BACKOFF, Backoff
from signalbox.core.kit_names import TASKS_QUEUE
from signalbox.core.lazy_dataclasses import dataclass, replace

Context_co = TypeVar("Context_co", covariant=True)
Other = TypeVar("Other")

Members = Mapping[str, Any]
"""A task's context as JSON: the members of its envelope next to `operation`, `task` and `payload`."""


@dataclass(frozen=True, slots=True)
class Delivered(Generic[Context_co]):
    """One delivery of a task. Another delivery of the same `operation` may run at the same time."""

    operation: str
    context: Context_co
    executions: int = 0
    """The number of earlier deliveries that a process answered. Whether Cloud Tasks counts an answer with 5xx is not
    documented."""

    retries: int = 0
    """The number of all earlier deliveries."""

    function: str = ""
    task: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    queue: str = TASKS_QUEUE
    """The catalogue's name of the queue."""

    trace: str = ""
    """A W3C ``traceparent``."""

    backoff: Backoff = NO_BACKOFF
    """The queue's pauses between deliveries."""

    is_late: bool = False
    """Whether the task was delivered long after it was due."""

    turns: int = 0
    """How often the task has waited in a record for its turn, and was enqueued again for it."""

    @property
    def is_repeated(self) -> bool:
        """Whether the task was delivered before."""
        return self.executions + self.retries > 0

    @property
    def pause_seconds(self) -> float:
        """The shortest time until the next delivery."""
        return self.backoff.pause_seconds(self.retries + 1)

    @property
    def call(self) -> Call:
        """The call that was delivered."""
        return Call(self.function, self.task, self.payload, self.queue)

    def within(self, context: Other) -> "Delivered[Other]":
        """Return the same delivery with another context."""
        changed: Any = replace(self, context=context)  # type: ignore[arg-type]  # the context is what changes
        delivered: Delivered[Other] = changed
        return delivered
