"""The answers about failures, and about tasks that are being retried."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Described, Range
from signalbox.core.surface.shown import RetriedTaskShown
from signalbox.payloads.model import escaped, shown
from signalbox.tasks.limits import LIMITS
from signalbox.tasks.model.contexts import OfLease, is_named
from signalbox.tasks.model.failures import Failure


def payload_of(failure: Failure) -> Mapping[str, Any]:
    """Return the arguments of a task that was given up. Large ones are shown by their size and hash."""
    arguments = failure.call.payload
    if not is_named(failure.context):
        arguments = {name: escaped(value) for name, value in arguments.items()}
    return {name: shown(value) for name, value in arguments.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureShown:
    """A task that was given up: its call, and why it failed."""

    id: str

    state: Literal["failed", "retried"]
    """`retried`: it was run again by a retry."""

    function: str

    task: str

    payload: Mapping[str, Any]

    queue: str

    semaphore: str = ""
    """The semaphore under whose lease it ran."""

    problem: str
    """The type of the problem that ended it; `gave-up` after too many attempts."""

    detail: str

    error: str
    """What its code raised last; empty if its process died."""

    traceback: str

    attempts: Annotated[int, Range(0)]
    """How often its code has been started."""

    trace: str
    """A W3C traceparent."""

    failed_at: datetime

    @classmethod
    def of(cls, failure: Failure) -> Self:
        assert failure.state != "deleted", "a failure whose content was deleted is not parsed"
        assert failure.failed_at is not None, "a record has its time"
        return cls(
            id=failure.id,
            state=failure.state,
            function=failure.call.function,
            task=failure.call.task,
            payload=payload_of(failure),
            queue=failure.call.queue,
            semaphore=failure.context.granted.semaphore if isinstance(failure.context, OfLease) else "",
            problem=failure.problem,
            detail=failure.detail,
            error=failure.text.error,
            traceback=failure.text.traceback,
            attempts=failure.attempts,
            trace=failure.trace,
            failed_at=failure.failed_at,
        )


@dataclass(frozen=True, slots=True)
class FailuresShown:
    """One page, the last if it has no `next_page_token`."""

    failures: Annotated[
        tuple[FailureShown | RetriedTaskShown, ...], Described({"maxItems": LIMITS.failures_listed_max})
    ]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class FailureCountShown:
    """The number of the tasks."""

    count: Annotated[int, Range(0)]


@dataclass(frozen=True, slots=True)
class RetriedFailureShown:
    """It is enqueued, or was by an earlier call."""

    id: str
    state: Literal["retried"]
