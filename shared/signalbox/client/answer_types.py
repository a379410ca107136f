# Generated from openapi.yaml by `make docs`.
"""The types of answers. Times are RFC 3339."""

from typing import NotRequired, TypedDict

from signalbox.client.model import Json


class Lease(TypedDict):
    """A granted permit."""

    id: str
    """The id that came with the lease."""

    token: int
    """A fencing token; each lease has a larger one than all earlier leases."""

    ends_at: str


class Waited(TypedDict):
    """The answer to a wait: acquired, waiting, or (of a repeated id) ended."""

    acquired: bool
    lease: NotRequired[Lease]
    waiting: NotRequired[bool]
    """The wait is in the wait queue."""

    ended: NotRequired[bool]
    """The wait of this id has ended. Its lease was signalled or expired, or it was cancelled or timed out."""

    paused: NotRequired[bool]
    """The semaphore is paused, and there is no continuation that could wait."""


class FailureShown(TypedDict):
    """A task that was given up, or that is being retried."""

    id: str
    state: str
    function: str
    task: str
    payload: NotRequired[dict[str, Json]]
    queue: NotRequired[str]
    semaphore: NotRequired[str]
    """The semaphore under whose lease it ran."""

    problem: NotRequired[str]
    """The type of the problem that ended it; `gave-up` after too many attempts."""

    detail: NotRequired[str]
    error: str
    """What its code raised last."""

    traceback: str
    attempts: int
    """How often its code has been started."""

    trace: str
    """A W3C traceparent."""

    failed_at: str
    next_at: NotRequired[str]
    """The earliest time of the next attempt."""


class BatchShown(TypedDict):
    """The state and the counts of a batch."""

    id: str
    state: str
    task: NotRequired[dict[str, Json]]
    """The task that executes each unit; absent if units are completed from outside."""

    size: int
    succeeded: int
    failed: int
    remaining: int
    """Units without an outcome."""

    pages: int | None
    reason: NotRequired[str]
    """Why it was cancelled: `cancelled`, `deadline`, `failures`; a sub-batch: `parent`, `replaced`."""

    missing: NotRequired[list[int]]
    """Units without an outcome at the deadline."""

    then: NotRequired[str]
    """The id of the batch that follows, which exists once this one has succeeded."""

    last_error: NotRequired[FailureShown]
    """The last error of a unit that is being retried, while the batch runs. In the answer to a GET only."""


class UnitShown(TypedDict):
    """A unit that has ended."""

    index: int
    attempt: int
    state: str
    result: NotRequired[Json]
    """Any JSON. A large one is `{"$payload": {"bytes", "sha256"}}`."""

    error: NotRequired[str]


class RunShown(TypedDict):
    """The state of a run of a flow."""

    flow: str
    id: str
    state: str
    result: NotRequired[Json]
    """The value that a completed run has returned; any JSON. A large one is `{"$payload": {"bytes", "sha256"}}`."""

    object: NotRequired[dict[str, Json]]
    """The object that a completed run has returned."""

    error: NotRequired[dict[str, Json]]
    """The problem that ended a run that failed or was cancelled."""

    ended_at: NotRequired[str]
    waiting_for: list[dict[str, Json]]
    """The pending commands, by path."""

    unawaited: NotRequired[dict[str, Json]]
    unanswered: NotRequired[dict[str, Json]]
    log_length: int
    """The number of entries in its log."""

    generation: int
    """The number of executions that ended with `flow.continue_as_new`."""

    progress: Json
    """The last value that the code showed with `flow.progress`; any JSON."""

    labels: NotRequired[dict[str, str]]
    deadline_at: NotRequired[str]
    """The end of the run's time-out, if it has one."""

    problem: NotRequired[dict[str, Json]]
    suspended: NotRequired[dict[str, Json]]
    trace: NotRequired[str]
    """The place where the code of a failed run raised its error, in frames of the flow's code. An open function shows
    none."""

    forked_from: NotRequired[dict[str, Json]]
    retried: NotRequired[dict[str, Json]]


class StandingShown(TypedDict):
    """The numbers of a standing."""

    kind: str
    id: str
    count: int
    sum: float
    average: float | None
    min: float | None
    max: float | None
    pending: NotRequired[int]
    """The number of changes that are committed and not added yet; 0 means that the numbers are exact."""
