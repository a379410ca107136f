"""The attempts of one task so far, and the consequences of an attempt.

Two counts travel with every delivery. `X-CloudTasks-TaskRetryCount` is the number of attempts before this one, whatever
their result. `X-CloudTasks-TaskExecutionCount` is the number of those that were executions: the worker responded, and
not with a 5xx. Google's documentation describes it so, and Cloud Tasks sends it so for HTTP targets. So if a worker
answers 500 each time, the second count stays 0.
"""

from dataclasses import dataclass, replace

from signalbox_tools.local.cloud_tasks.queue_rules import RETENTION_SECONDS, RetryPolicy

THROTTLING_STATUSES = frozenset({429, 503})
DEADLINE_EXCEEDED, UNAVAILABLE = "DEADLINE_EXCEEDED", "UNAVAILABLE"
"""The reasons for a missing response, as names of `google.rpc.Code`: a passed deadline, or a failed connection."""


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
    def counts_as_execution(self) -> bool:
        return self.status is not None and self.status < 500

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

    def failed(self, answer: DispatchResult, retries: RetryPolicy, began_at: float, now: float) -> "Progress":
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
            executions=self.executions + answer.counts_as_execution,
            last_responded_at=now if answered else None,
            last_status=answer.status,
            last_reason=answer.reason,
        )

    def expired(self, retries: RetryPolicy, created_at: float, now: float) -> bool:
        """Return whether a task that just failed is out of retries or too old."""
        first = self.first_dispatched_at if self.first_dispatched_at is not None else now
        return retries.exhausted(self.dispatches, now - first) or now - created_at >= RETENTION_SECONDS
