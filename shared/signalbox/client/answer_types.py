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
    """Given up; run again by a retry; or not given up yet, with its last error."""

    function: str
    task: str
    payload: NotRequired[dict[str, Json]]
    queue: NotRequired[str]
    semaphore: NotRequired[str]
    """Whose lease it ran for."""

    batch: NotRequired[str]
    """Whose unit is being retried."""

    problem: NotRequired[str]
    """The type of the problem that ended it; `gave-up` after too many attempts."""

    detail: NotRequired[str]
    error: str
    """What its code raised last; empty if its process died."""

    traceback: str
    attempts: int
    """How often its code was started."""

    trace: str
    """A W3C traceparent."""

    failed_at: str
    next_at: NotRequired[str]
    """The earliest time of the next attempt, if it is retried."""


class BatchShown(TypedDict):
    """The state and the counts of a batch."""

    id: str
    state: str
    size: int
    succeeded: int
    failed: int
    remaining: int
    """Units without an outcome."""

    pages: NotRequired[int | None]
    reason: NotRequired[str]
    """Why it was cancelled: `cancelled`, `deadline`, `failures`; a sub-batch: `parent`, `replaced`."""

    missing: NotRequired[list[int]]
    """Units without an outcome at the deadline."""

    then: NotRequired[str]
    """The id of the batch that follows, which exists once this one has succeeded."""

    task: NotRequired[dict[str, Json]]
    last_error: NotRequired[FailureShown]
    """The last error of a unit that is being retried, while the batch runs. In the answer to a GET only."""


class UnitShown(TypedDict):
    """A unit that has ended."""

    index: int
    state: str
    attempt: int
    result: NotRequired[Json]
    """The result of a unit that succeeded."""

    error: NotRequired[str]


class RunShown(TypedDict):
    """The state of a run of a flow."""

    flow: str
    id: str
    state: str
    log_length: int
    """The number of entries in its log."""

    waiting_for: NotRequired[list[dict[str, Json]]]
    unawaited: NotRequired[dict[str, Json]]
    """Events that were sent and that the code has not waited for, perhaps since a name is misspelt."""

    labels: NotRequired[dict[str, str]]
    deadline_at: NotRequired[str]
    """The end of the run's time-out, if it has one."""

    suspended: NotRequired[dict[str, Json]]
    """Since when the run takes no further step, and why, if it is suspended."""

    forked_from: NotRequired[dict[str, Json]]
    """The run whose log this one's begins with, and how many entries of it, if it is a fork."""

    progress: NotRequired[Json]
    """What the code showed last with `flow.progress`; any JSON."""

    result: NotRequired[Json]
    """What a run that completed has returned; any JSON."""

    error: NotRequired[dict[str, Json]]
    """The problem that ended a run that failed or was cancelled."""

    problem: NotRequired[dict[str, Json]]
    """Why a run is stuck."""

    trace: NotRequired[str]
    """Where the code of a failed run raised its error: the frames of the flow's code."""


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
