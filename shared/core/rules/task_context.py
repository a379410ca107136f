"""The context of a user's task: its subject, and the attempt that runs.

The subject is the lease it was granted, the run of a critical section, its unit of a batch, the batch that is complete,
or nothing. It travels in the
envelope with the payload, under the name of its kind. A task with a parameter of one of these types receives it; times
are RFC 3339 texts in the envelope and aware datetimes here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from shared.core.rules.problems import BadTaskEnvelope


@dataclass(frozen=True, slots=True)
class Lease:
    """A permit of `semaphore` that is ours until `ends_at`, by the server's clock.

    `id` names this lease to signal and renew. `token` only grows from lease to lease of one semaphore: whatever the
    permit protects can refuse who comes with a smaller one.
    """

    semaphore: str
    id: str
    token: int
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit `index`, counted from 0, of a batch; `attempt` counts retries. Runs of one unit may overlap."""

    batch: str
    index: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """A batch that has ended, as its `on_complete` task gets it; `state` is completed or cancelled.

    `size` counts all units; `succeeded` and `failed` are disjoint.
    """

    id: str
    state: str
    size: int
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the call `call` of an object ended, as its continuation gets it; `called` is the object's class and key.

    Either there is an `error`, with the members of a problem, or there is the `result`; a result that is an object is
    in `object`, by its class and key.
    """

    called: Mapping[str, str]
    call: str
    result: Any = None
    error: Mapping[str, Any] | None = None
    object: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class SectionRun:
    """The run of the critical section `key`: no other begins before it has ended.

    `token` only grows from run to run and from delivery to delivery, so whatever the section protects can refuse who
    comes with a smaller one. Until `ends_at`, by the server's clock, no second delivery of this task runs beside it.
    """

    key: str
    token: int
    ends_at: datetime


TaskSubject = Lease | SectionRun | Unit | Completion | Outcome


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The attempt that runs: `operation` is the same in every attempt, `attempt` counts the starts of the code from 1.

    After `attempts_max` attempts the task is given up. `trace` is a W3C ``traceparent``.
    """

    operation: str
    attempt: int
    attempts_max: int
    trace: str = ""
    _seconds_left: Callable[[], float] = field(default=float, compare=False, repr=False)
    _cancelled: Callable[[], bool] = field(default=bool, compare=False, repr=False)

    @property
    def is_last(self) -> bool:
        """Return whether the task is given up if this attempt fails."""
        return self.attempt >= self.attempts_max

    def seconds_left(self) -> float:
        """Return how long this attempt may still run, before Cloud Tasks delivers the task again beside it."""
        return max(0.0, self._seconds_left())

    def cancelled(self) -> bool:
        """Return whether nobody wants the result: the batch of this unit has ended. May be some seconds old."""
        return self._cancelled()


KINDS: Mapping[str, type[TaskSubject]] = {
    "lease": Lease,
    "section": SectionRun,
    "unit": Unit,
    "batch": Completion,
    "outcome": Outcome,
}


def subject_of(context: Mapping[str, Any]) -> TaskSubject | None:
    """Parse the subject in the context of an envelope, or return None. Raises `BadTaskEnvelope`."""
    for name, kind in KINDS.items():
        if name in context:
            return _read(kind, context[name], name)
    return None


def _read(kind: type[TaskSubject], given: Any, name: str) -> TaskSubject:
    known = {field.name for field in fields(kind)}
    try:
        return kind(**{part: _part(part, value) for part, value in given.items() if part in known})
    except (AttributeError, TypeError, ValueError) as error:
        raise BadTaskEnvelope(f"A task's {name} has {', '.join(sorted(known))}.", field=name) from error


def _part(name: str, value: Any) -> Any:
    return datetime.fromisoformat(value) if name == "ends_at" else value
