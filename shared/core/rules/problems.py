"""Errors: a `Problem` is permanent, `Unavailable` is transient.

A queue acts on the difference: it must not retry the former and must retry the latter. The slug and the title of a
problem come from its class, so a caller can rely on them; the detail names what to change in this request. Problems are
rendered as RFC 9457 (problem details for HTTP APIs) by ``shared/adapters/http/responses.py``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


class Problem(Exception):
    """A permanent error: the same request would fail again.

    ``detail`` names what to change; ``field`` names the part of the request that is wrong, if it is one; ``headers``
    are those of the response (``Allow`` with 405).
    """

    status = 400
    title = "Bad request"

    def __init__(self, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.headers = dict(headers or {})

    @classmethod
    def slug(cls) -> str:
        """Return the last part of the problem's type: ``BadKey`` is ``bad-key``."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field of a request that is wrong, and why."""

    field: str
    detail: str


class InvalidFields(Problem):
    """Several fields may be wrong at once: `errors` names each, and `field` the first."""

    title = "Invalid fields"

    def __init__(self, errors: Sequence[FieldError]) -> None:
        detail = "; ".join(f"`{each.field}` {each.detail}" for each in errors)
        super().__init__(f"{detail}.", field=errors[0].field)
        self.errors = tuple(errors)


class IncompleteBody(Problem):
    title = "Incomplete or malformed body"


class NotJson(Problem):
    title = "Invalid JSON"


class NotAnObject(Problem):
    title = "JSON object required"


class BadKey(Problem):
    title = "Invalid key"


class KeyRequired(BadKey):
    title = "`key` is required"


class KeyMismatch(BadKey):
    title = "Key in body differs from key in URL"


class ReservedField(Problem):
    title = "Reserved field name"


class BadValue(Problem):
    title = "Invalid value"


class TooDeep(BadValue):
    title = "Nested too deep"


class TooLarge(Problem):
    status = 413
    title = "Request too large"


class BadQuery(Problem):
    title = "Invalid query"


class NeedsIndex(BadQuery):
    title = "Missing index"


class BadTransform(Problem):
    title = "Invalid transform"


class TransformFailed(Problem):
    status = 409
    title = "Transform output is not an object"


class NotFound(Problem):
    status = 404
    title = "Not found"


class Gone(Problem):
    status = 410
    title = "Deleted"


class EditsACopy(Problem):
    status = 409
    title = "A copy cannot be edited; edit its source document"


class StaleCopy(Problem):
    status = 409
    title = "The copy is stale; read the document again"


class CannotWriteBack(Problem):
    status = 409
    title = "The edit of a copy cannot be written back"


class PreconditionFailed(Problem):
    status = 412
    title = "Precondition failed"


class BadPrecondition(Problem):
    title = "Invalid If-Match or If-None-Match"


class BadTransaction(Problem):
    title = "Invalid transaction"


class UnsupportedMediaType(Problem):
    status = 415
    title = "Unsupported media type"


class DuplicateKey(Problem):
    status = 409
    title = "Duplicate key in one call"


class MethodNotAllowed(Problem):
    status = 405
    title = "Method not allowed"


class Unauthenticated(Problem):
    status = 401
    title = "Authentication required"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"})


class PermissionDenied(Problem):
    status = 403
    title = "Permission denied"


class BadCall(Problem):
    title = "Invalid task call"


class BadTaskEnvelope(Problem):
    title = "Invalid task envelope"


class BadArgument(Problem):
    title = "Task arguments do not match the signature"


class UnknownTask(Problem):
    status = 404
    title = "Unknown task"


class GaveUp(Problem):
    """``error`` and ``traceback`` are those of the last attempt, if it raised; a process that died left none."""

    status = 500
    title = "Task failed in every attempt"

    def __init__(self, detail: str, error: str = "", traceback: str = "") -> None:
        super().__init__(detail)
        self.error = error
        self.traceback = traceback


class Unavailable(Exception):
    """503: a transient error. It is not known whether the call took effect; retry.

    ``retry_after_seconds`` is the least time to wait before.
    """

    def __init__(self, reason: str, *, retry_after_seconds: int = 1) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


class PartlyEnqueued(Exception):
    """Not all tasks of a call are known to be enqueued. ``enqueued`` are the names of those that are."""

    def __init__(self, reason: str, enqueued: Iterable[str] = ()) -> None:
        super().__init__(reason)
        self.enqueued = frozenset(enqueued)


class EnqueueUnconfirmed(PartlyEnqueued, Unavailable):
    """Cloud Tasks did not confirm a task: it may be enqueued or not."""


class DeploymentCannotEnqueue(PartlyEnqueued, Unavailable):
    """The deployment lacks a queue or a right to enqueue. A right may lag behind a first deployment, so retry."""


class StillRetried(Problem):
    status = 409
    title = "The task is still being retried"


class BadBatch(Problem):
    title = "Invalid batch request"


class OtherBody(Problem):
    status = 409
    title = "The id is in use with a different body"


class PageOutOfOrder(Problem):
    status = 409
    title = "Pages must be loaded in order, starting with 0"


class BatchSealed(Problem):
    status = 409
    title = "The batch is sealed or has ended"


class NothingToRun(Problem):
    status = 409
    title = "The batch has no task to run"


class BadSemaphore(Problem):
    title = "Invalid semaphore request"


class BadCriticalSection(Problem):
    title = "Invalid critical section request"


class OtherTask(Problem):
    status = 409
    title = "A run of another task is due under this key"


class LeaseEnded(Problem):
    status = 409
    title = "The lease of this id is over"


class NoSemaphore(NotFound):
    title = "Semaphore not found"


class BadObjectCall(Problem):
    title = "Invalid call of an object"


class NoSuchMethod(Problem):
    status = 404
    title = "The class has no such method"


class CallTooLate(Problem):
    status = 409
    title = "The call was too late"


class MethodFailed(Problem):
    status = 500
    title = "The object's method raised an error"


class NoObject(Problem):
    status = 409
    title = "The result is no object"


class NotReady(Problem):
    status = 409
    title = "The call has no result yet"


class BadFlow(Problem):
    title = "Invalid request on a flow"


class NoFlow(NotFound):
    title = "Flow not found"


class FlowEnded(Problem):
    status = 409
    title = "The flow has ended"


class FlowRunning(Problem):
    status = 409
    title = "The flow has not ended"


class FlowCancelled(Problem):
    status = 409
    title = "The flow was cancelled"


class BadStanding(Problem):
    title = "Invalid declaration of standings"


class NoStanding(NotFound):
    title = "Kind of standing not found"
