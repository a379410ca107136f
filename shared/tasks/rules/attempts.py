"""When a user's task is given up: by how often its code was started, not by how often it was delivered.

A delivery may be refused before the code runs, since the store is away or no instance is free: that costs a task
nothing. So starts are counted in a record, and the queue's headers only say whether a delivery is the first.

    delivery       before the code      the code raises an error that is retried
    first          -                    count one
    later          count one            -

A first delivery that returns costs nothing. Without the second column, it would cost a task one of its starts to have
its first delivery refused; without the third, a task would be started once too often.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.core.rules.calls import QUEUE_DEFAULT, Call

COLLECTION = "attempts"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One delivery of the task `operation`: its `context`, and how many deliveries came before it.

    `executions` counts those that a process answered, `retries` all: Cloud Tasks does not document whether a delivery
    that was answered with 5xx is an execution. `function`, `task`, `payload`, `queue` and `trace` are what was
    delivered, to be kept if the task is given up; `pause_seconds` is the least time to the next delivery.
    """

    operation: str
    context: Mapping[str, Any]
    executions: int = 0
    retries: int = 0
    function: str = ""
    task: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    queue: str = QUEUE_DEFAULT
    trace: str = ""
    pause_seconds: float = 0

    @property
    def is_repeated(self) -> bool:
        """Return whether the task was delivered before."""
        return self.executions + self.retries > 0

    @property
    def record_path(self) -> str:
        """Return the path of the record that counts the starts of this task's code."""
        return f"{COLLECTION}/{self.operation}"

    @property
    def call(self) -> Call:
        """Return the call that was delivered."""
        return Call(self.function, self.task, self.payload, self.queue)


def resumed(operation: str, context: Mapping[str, Any]) -> tuple[str, int]:
    """Return the operation whose attempts a delivery goes on with, and how many waits for its attempts came before."""
    lease = context.get("lease")
    known = lease if isinstance(lease, dict) else {}
    return str(known.get("resumes") or operation), int(known.get("resumed", 0))


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a task's code: its number, from 1, and how many starts before it raised and were noted."""

    number: int
    errors: int = 0


FIRST = Start(1)


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """How often the code of a task may be started.

    It is started once more if a first delivery killed its process: nothing could count that start.
    """

    attempts_max: int

    def allow(self, start: Start) -> bool:
        """Return whether the start that was just counted may happen."""
        return start.number <= self.attempts_max
