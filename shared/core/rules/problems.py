"""Errors: a `Problem` is permanent, `Unavailable` is transient.

A queue acts on the difference: it must not retry the former and must retry the latter. The slug and the title of a
problem come from its class, so a caller can rely on them; the detail says what to change in this request. Problems are
rendered as RFC 9457 (problem details for HTTP APIs) by ``shared/adapters/http/responses.py``.
"""

import re
from collections.abc import Mapping


class Problem(Exception):
    """A permanent error: the same request would fail again.

    ``detail`` says what to change; ``field`` names the part of the request that is wrong, if it is one; ``headers`` are
    those of the response (``Allow`` with 405).
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


class NotJson(Problem):
    title = "Invalid JSON"


class NotAnObject(Problem):
    title = "JSON object required"


class BadKey(Problem):
    title = "Invalid key"


class ReservedField(Problem):
    title = "Choose another field name: this one belongs to the kit"


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
    title = "Store a transform that can make an object of a document"


class TransformFailed(Problem):
    status = 409
    title = "Change the transform of this field, or what it is applied to: together they make no object"


class NotFound(Problem):
    status = 404
    title = "Not found"


class EditsACopy(Problem):
    status = 409
    title = "Change the document itself, not a copy of it"


class PreconditionFailed(Problem):
    status = 412
    title = "Precondition failed"


class BadPrecondition(Problem):
    title = "Invalid If-Match or If-None-Match"


class UnsupportedMediaType(Problem):
    status = 415
    title = "Unsupported media type"


class KeyTwice(Problem):
    status = 409
    title = "Put a key once in a call"


class MethodNotAllowed(Problem):
    status = 405
    title = "Method not allowed"


class PermissionDenied(Problem):
    status = 403
    title = "Permission denied"


class BadCall(Problem):
    title = "Invalid task call"


class BadTaskEnvelope(Problem):
    title = "Invalid task envelope"


class BadArgument(Problem):
    title = "Call the task with the arguments that its signature names"


class UnknownTask(Problem):
    status = 404
    title = "Name a task that the function has"


class GaveUp(Problem):
    status = 500
    title = "The task died every time"


class Unavailable(Exception):
    """503: a transient error. It is not known whether the call took effect; retry.

    ``retry_after_seconds`` is the least time to wait before.
    """

    def __init__(self, reason: str, *, retry_after_seconds: int = 1) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


class BadBatch(Problem):
    title = "Send a batch, a page, a seal or a result as documented"


class OtherBody(Problem):
    status = 409
    title = "What stands under this name came with another body"


class PageOutOfOrder(Problem):
    status = 409
    title = "Load pages one after the other, beginning with 0"


class BatchSealed(Problem):
    status = 409
    title = "Nothing can be added to a batch that is sealed or has ended"


class NothingToRun(Problem):
    status = 409
    title = "This batch has no task to run its units again"


class BadSemaphore(Problem):
    title = "Send limits, a wait or a lease as documented"


class NoSemaphore(NotFound):
    title = "Create the semaphore first"
