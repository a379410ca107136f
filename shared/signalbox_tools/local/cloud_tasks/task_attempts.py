"""The attempts of one task so far, and the consequences of an attempt.

Two counts travel with every delivery. `X-CloudTasks-TaskRetryCount` is the number of attempts before this one, whatever
their result. `X-CloudTasks-TaskExecutionCount` is the number of earlier attempts that were executions, which has two
interpretations. ANSWERED (the default): the worker responded, with any status; failed connections and exceeded
deadlines do not count. DOCUMENTED: as Google's documentation describes the header, a 5xx response does not count
either. So if a worker answers 500 each time, the first interpretation counts up to its limit, and the second one counts
nothing.
"""

from dataclasses import dataclass, replace
from enum import Enum

from signalbox_tools.local.cloud_tasks.queue_rules import RETENTION_SECONDS, RetryPolicy

THROTTLING_STATUSES = frozenset({429, 503})
DEADLINE_EXCEEDED, UNAVAILABLE = "DEADLINE_EXCEEDED", "UNAVAILABLE"
"""The reasons for a missing response, as names of `google.rpc.Code`: a passed deadline, or a failed connection."""


class Executions(Enum):
    """The attempts that count as executions."""

    ANSWERED = "answered"
    DOCUMENTED = "documented"

    def counts(self, status: int | None) -> bool:
        return status is not None and (self is Executions.ANSWERED or status < 500)


@dataclass(frozen=True, slots=True)
class DispatchResult:
    """The result of one attempt.

    Without a `status` there was no response, and `reason` is `DEADLINE_EXCEEDED` or `UNAVAILABLE`.
    """

    status: int | None
    reason: str = ""
    retry_after_seconds: float = 0.0

    @property
    def succeeded(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def throttles(self) -> bool:
        """Whether the response throttles the queue."""
        return self.status in THROTTLING_STATUSES


@dataclass(frozen=True, slots=True)
class Progress:
    """One task's attempts so far. Times are seconds since 1970, or None before the event."""

    due_at: float
    dispatches: int = 0
    responses: int = 0
    executions: int = 0
    first_dispatched_at: float | None = None
    last_due_at: float | None = None
    last_dispatched_at: float | None = None
    last_responded_at: float | None = None
    last_status: int | None = None
    last_reason: str = ""

    def dispatched(self, now: float) -> "Progress":
        """Begin an attempt."""
        first = self.first_dispatched_at if self.first_dispatched_at is not None else now
        return replace(
            self,
            dispatches=self.dispatches + 1,
            first_dispatched_at=first,
            last_due_at=self.due_at,
            last_dispatched_at=now,
            last_responded_at=None,
        )

    def failed(
        self, answer: DispatchResult, retries: RetryPolicy, executions: Executions, began_at: float, now: float
    ) -> "Progress":
        """End an attempt that did not succeed and set the time of the next one.

        The backoff begins at `began_at`: now, or for a forced run the time of its request. A longer `Retry-After`
        replaces it.
        """
        answered = answer.status is not None
        backoff_until = began_at + retries.backoff_seconds(self.dispatches)
        return replace(
            self,
            due_at=max(backoff_until, now + answer.retry_after_seconds),
            responses=self.responses + answered,
            executions=self.executions + executions.counts(answer.status),
            last_responded_at=now if answered else None,
            last_status=answer.status,
            last_reason=answer.reason,
        )

    def expired(self, retries: RetryPolicy, created_at: float, now: float) -> bool:
        """Return whether a task that just failed is out of retries or too old."""
        first = self.first_dispatched_at if self.first_dispatched_at is not None else now
        return retries.exhausted(self.dispatches, now - first) or now - created_at >= RETENTION_SECONDS
