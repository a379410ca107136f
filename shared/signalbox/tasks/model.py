"""A user's task as it is delivered: its context, its attempts, its last error, and its failure.

    attempts/{operation}    the starts of its code that were counted, and its last error while it is being retried
    failures/{operation}    a task that was given up: failed, retried or deleted

The context travels in the task's envelope together with the payload. It has the subject of the task, under the name of
its kind: the lease that was granted, the run of a critical section, the unit of a batch, the batch that is complete, or
the outcome of a call. A task with a parameter of one of these types receives it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, field, fields
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from signalbox.batches.model.units import Completion, Unit
from signalbox.core.calls import Call
from signalbox.core.kit_names import TASKS_QUEUE
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import BadTaskEnvelope
from signalbox.core.shown import RetriedTaskShown
from signalbox.critical_sections.model import SectionRun
from signalbox.mailboxes.model.outcomes import Outcome
from signalbox.semaphores.model.leases import Lease
from signalbox.tasks.problems import Gone

ATTEMPTS = "attempts"
ERRED_AT, BATCH = "erred_at", "batch"

FAILURES = "failures"
FAILED_AT, STATE = "failed_at", "state"


# --- contexts ---


TaskSubject = Lease | SectionRun | Unit | Completion | Outcome

KINDS: Mapping[str, type[TaskSubject]] = {
    "unit": Unit,
    "lease": Lease,
    "section": SectionRun,
    "batch": Completion,
    "outcome": Outcome,
}
"""The kinds of subjects by their names in a context. A unit that runs under a permit also has a lease."""


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The running attempt: `operation` is the same in every attempt, `attempt` counts the starts of the code from 1.

    After `attempts_max` attempts the task is given up. `trace` is a W3C ``traceparent``. `reason` says why the wait of
    an `on_timeout` task ended: ``deadline``, or ``permits`` if the semaphore has fewer than it needs; otherwise it is
    empty.
    """

    operation: str
    attempt: int
    attempts_max: int
    trace: str = ""
    _seconds_left: Callable[[], float] = field(default=float, compare=False, repr=False)
    _cancelled: Callable[[], bool] = field(default=bool, compare=False, repr=False)
    reason: str = ""

    @property
    def is_last(self) -> bool:
        """Whether the task is given up if this attempt fails."""
        return self.attempt >= self.attempts_max

    def seconds_left(self) -> float:
        """Return the seconds until Cloud Tasks delivers the task again, while this attempt still runs."""
        return max(0.0, self._seconds_left())

    def cancelled(self) -> bool:
        """Return whether the result is not needed, because the unit's batch has ended. May be a few seconds old."""
        return self._cancelled()


def subject_of(context: Mapping[str, Any]) -> TaskSubject | None:
    """Parse the subject in the context of an envelope, or return None. Raises `BadTaskEnvelope`."""
    for name, kind in KINDS.items():
        if name in context:
            return _parse(kind, context[name], name)
    return None


def _parse(kind: type[TaskSubject], value: Any, name: str) -> TaskSubject:
    known = {part.name for part in fields(kind)}
    try:
        return kind(**{part: _part(part, item) for part, item in value.items() if part in known})
    except (AttributeError, TypeError, ValueError) as error:
        raise BadTaskEnvelope(f"A task's {name} has {', '.join(sorted(known))}.", field=name) from error


def _part(name: str, value: Any) -> Any:
    return datetime.fromisoformat(value) if name == "ends_at" else value


# --- attempts ---


@dataclass(frozen=True, slots=True)
class Attempt:
    """One delivery of the task `operation`, with its `context` and the number of earlier deliveries.

    `executions` counts those that a process answered, `retries` all: Cloud Tasks does not document whether a delivery
    that was answered with 5xx is an execution. `function`, `task`, `payload`, `queue` and `trace` are what was
    delivered, and are kept if the task is given up. `pause_seconds` is the shortest time until the next delivery. It
    `is_late` if it was delivered long after it was due.
    """

    operation: str
    context: Mapping[str, Any]
    executions: int = 0
    retries: int = 0
    function: str = ""
    task: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    queue: str = TASKS_QUEUE
    trace: str = ""
    pause_seconds: float = 0
    is_late: bool = False

    @property
    def is_repeated(self) -> bool:
        """Whether the task was delivered before."""
        return self.executions + self.retries > 0

    @property
    def record_path(self) -> str:
        """The path of the record that counts the starts of this task's code."""
        return f"{ATTEMPTS}/{self.operation}"

    @property
    def call(self) -> Call:
        """The call that was delivered."""
        return Call(self.function, self.task, self.payload, self.queue)


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a task's code: its number, from 1, and the number of earlier starts whose errors were noted."""

    number: int
    errors: int = 0


FIRST = Start(1)


# --- errors ---


@dataclass(frozen=True, slots=True)
class ErrorText:
    """The texts of an exception that are stored: one line, and the end of its traceback."""

    error: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class ErrorNote:
    """The error of the start `attempt` of a task's code. The queue delivers the task again after `pause_seconds`.

    The note is in the record that counts the starts. It is shown while it has `erred_at`: until the task returns or is
    given up. A unit's note also has `batch` for that time, so that the batch can show it. No rule depends on a note: if
    it cannot be written, it is left out.
    """

    function: str
    task: str
    attempt: int
    error: str
    traceback: str
    trace: str
    pause_seconds: float

    @classmethod
    def of(cls, attempt: Attempt, number: int, text: ErrorText) -> Self:
        """Return the note of a delivery's error."""
        what = attempt.function, attempt.task, number
        return cls(*what, text.error, text.traceback, attempt.trace, attempt.pause_seconds)

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self | None:
        """Return the note in the record that counts starts, or None if there is none."""
        if record is None or "error" not in record:
            return None
        return cls(**{part.name: record[part.name] for part in fields(cls)})

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    def shown(self, operation: str, erred_at: datetime) -> RetriedTaskShown:
        """Return the note of a task as an answer shows it."""
        what = self.function, self.task, self.error, self.traceback, self.trace, self.attempt
        return RetriedTaskShown(
            operation, "retrying", *what, erred_at, erred_at + timedelta(seconds=self.pause_seconds)
        )


# --- failures ---

State = Literal["failed", "retried", "deleted"]


def failure_path(id_: str) -> str:
    """Return the path of a failure's record."""
    return f"{FAILURES}/{id_}"


@dataclass(frozen=True, slots=True)
class Failure:
    """A task that was given up, kept for 30 days under the id of its operation; `problem` and `detail` say why.

    Its record stays when it is retried or deleted, so that a late delivery of the task does not record the failure
    again, and a repeated call is recognised. Only in the state `failed` does it have `failed_at`, by which failures are
    listed.
    """

    id: str
    call: Call
    context: Mapping[str, Any]
    problem: str
    detail: str
    text: ErrorText
    attempts: int
    trace: str
    state: State = "failed"
    failed_at: datetime | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the record's fields, except for times. Payload and context are texts, so that any JSON fits."""
        return {
            "call": self.call.to_record(),
            "context": json.dumps(self.context),
            "problem": self.problem,
            "detail": self.detail,
            "error": self.text.error,
            "traceback": self.text.traceback,
            "attempts": self.attempts,
            "trace": self.trace,
            "state": self.state,
        }

    @classmethod
    def from_record(cls, id_: str, record: Mapping[str, Any]) -> Self:
        """Parse a record. Raises `Gone` if its content was deleted."""
        if record["state"] == "deleted":
            raise Gone("This failure was deleted; its task does not run again.", field="id")
        return cls(
            id_,
            Call.from_record(record["call"]),
            json.loads(record["context"]),
            record["problem"],
            record["detail"],
            ErrorText(record["error"], record["traceback"]),
            record["attempts"],
            record["trace"],
            record["state"],
            record["recorded_at"],
        )
