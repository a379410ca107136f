"""The two ways to say no: a Problem is definite, Unavailable means ask again.

A queue acts on the difference: it must not retry a Problem and must retry what was Unavailable. The slug and the title
of a problem come from its class, so a caller can rely on them; the detail says what to do about this one.
Bodies are RFC 9457 (problem details for HTTP APIs), rendered in ``shared/adapters/web/http.py``.
"""

import re
from collections.abc import Mapping


class Problem(Exception):
    """A definite refusal: the same call would be refused again.

    ``detail`` tells the caller what to change; ``field`` names the offending part of the request, where there is one;
    ``headers`` go with the answer (``Allow`` with a 405).
    """

    status = 400
    title = "The request cannot be carried out as it is"

    def __init__(self, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.headers = dict(headers or {})

    @classmethod
    def slug(cls) -> str:
        """Name the kind of problem in URL style: ``BadKey`` is ``bad-key``."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


class NotJson(Problem):
    title = "Send a body that is JSON"


class NotAnObject(Problem):
    title = "Send a JSON object"


class BadKey(Problem):
    title = "Use a key of 1 to 1,500 bytes of UTF-8, without '/' and control signs, not '.', '..' or '__…__'"


class ReservedField(Problem):
    title = "Choose another field name: this one belongs to the kit"


class BadValue(Problem):
    title = "Send values that a document can hold"


class TooDeep(Problem):
    title = "Nest less deeply"


class TooLarge(Problem):
    status = 413
    title = "Send less in one call"


class BadQuery(Problem):
    title = "Ask with where=FIELD==VALUE, order_by, limit and page_token"


class NeedsIndex(BadQuery):
    title = "Declare the index that this query needs"


class BadTransform(Problem):
    title = "Store a transform that can make an object of a document"


class TransformFailed(Problem):
    status = 409
    title = "Change the transform of this field, or what it is applied to: together they make no object"


class NotFound(Problem):
    status = 404
    title = "There is nothing under that name"


class EditsACopy(Problem):
    status = 409
    title = "Change the document itself, not a copy of it"


class PreconditionFailed(Problem):
    status = 412
    title = "Read again, and decide again: what is there is not what the condition asks for"


class BadPrecondition(Problem):
    title = "Send If-Match and If-None-Match as * or as entity tags in quotes, for one document at a time"


class UnsupportedMediaType(Problem):
    status = 415
    title = "Send one of the media types this address takes"


class KeyTwice(Problem):
    status = 409
    title = "Put a key once in a call"


class MethodNotAllowed(Problem):
    status = 405
    title = "Use one of the methods this address has"


class NotAllowed(Problem):
    status = 403
    title = "Call as somebody who may"


class BadCall(Problem):
    title = "Name a function of the catalogue, one of its tasks, and a payload that is an object"


class BadArgument(Problem):
    title = "Call the task with the arguments that its signature names"


class UnknownTask(Problem):
    status = 404
    title = "Name a task that the function has"


class GaveUp(Problem):
    status = 500
    title = "The task died every time"


class Unavailable(Exception):
    """Unknown or passing: the call may or may not have taken effect; ask again.

    ``retry_after_seconds`` is what a caller should wait at least.
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
    title = "Invalid semaphore request"


class NoSemaphore(NotFound):
    title = "Semaphore not found"
