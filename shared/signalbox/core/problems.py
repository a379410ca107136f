"""Errors: a `Problem` is permanent, `Unavailable` is transient.

A queue must not retry a permanent error and must retry a transient one. The slug and the title of a problem come from
its class, so callers can rely on them; the detail names the change to make in this request. A problem that one subject
alone raises is in that subject's `problems.py`. `adapters/http/responses.py` renders problems as RFC 9457.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Self

from signalbox.core.lazy_dataclasses import dataclass


def text_of(value: object) -> str:
    """Return a value as text. The text of a user's object may itself raise an error, which is not raised here."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  an error whose text raises another one is still the error to report
        return "its text cannot be shown"


def _is_status(value: object) -> bool:
    return isinstance(value, int) and 400 <= value < 600


class Problem(Exception):
    """A permanent error: the same request would fail again.

    ``detail`` names the change to make; ``field`` names the part of the request that is wrong, if it is a single part;
    ``headers`` are those of the response (``Allow`` with 405).

    The code that waits for a task, a step, an object or a sub-flow receives the problem as the class that was raised,
    with the fields of that class (`mailboxes.model.outcomes`).
    """

    status = 400
    title = "Bad request"

    MEMBERS: ClassVar[tuple[str, ...]] = ()
    """The attributes of the kit's own problems that the answer also has, unless they are empty."""

    NOT_STORED: ClassVar[frozenset[str]] = frozenset()
    """The attributes of the kit's own problems that code in another process does not receive."""

    CLASSES_DEFINED: ClassVar[int] = 0
    """The number of classes of problems that this process has defined so far."""

    detail: str
    field: str | None
    headers: dict[str, str]

    def __init_subclass__(cls, **options: Any) -> None:
        """Check a class. Raises `TypeError` for a status or a title that no answer could have."""
        super().__init_subclass__(**options)
        Problem.CLASSES_DEFINED += 1
        if not _is_status(cls.status):
            raise TypeError(f"{cls.__name__}.status is {cls.status!r}: write the status of an error, such as 409")
        if not isinstance(cls.title, str):
            raise TypeError(f"{cls.__name__}.title is {cls.title!r}: write a str")

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a problem that can be shown even if a user's ``__init__`` does not call that of `Problem`."""
        problem = super().__new__(cls, *args, **kwargs)
        if not hasattr(cls, "detail"):
            problem.detail = ", ".join(map(text_of, args)) or cls.title
        problem.field, problem.headers = None, {}
        return problem

    def __init__(self, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.headers = dict(headers or {})

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute. What answers and records show becomes text, whatever the user's code has passed."""
        if name in ("detail", "title") or (name == "field" and value is not None):
            value = value if type(value) is str else text_of(value)
        elif name == "status" and not _is_status(value):
            value = type(self).status
        super().__setattr__(name, value)

    def __bool__(self) -> bool:
        """Return True, also for a user's class with a length."""
        return True

    @classmethod
    def slug(cls) -> str:
        """Return the last part of the problem's type: ``bad-key`` for ``BadKey``."""
        return _slug_of(cls.__name__)


@cache
def _slug_of(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


@dataclass(frozen=True, slots=True)
class FieldError:
    """A wrong field of a request, and the reason."""

    field: str
    detail: str


class InvalidFields(Problem):
    """One or more wrong fields: `errors` has all of them, and `field` is the first."""

    title = "Invalid fields"

    errors: tuple[FieldError, ...]

    def __init__(
        self,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
        errors: Iterable[FieldError] = (),
    ) -> None:
        super().__init__(detail, field=field, headers=headers)
        self.errors = tuple(errors)

    @classmethod
    def of(cls, errors: Sequence[FieldError]) -> "InvalidFields":
        """Return the problem of these fields; there must be at least one."""
        detail = "; ".join(f"`{error.field}` {error.detail}" for error in errors)
        return cls(f"{detail}.", field=errors[0].field, errors=errors)


class IncompleteBody(Problem):
    title = "Incomplete or malformed body"


class NotJson(Problem):
    title = "Invalid JSON"


class NotAnObject(Problem):
    title = "JSON object required"


class BadBody(Problem):
    title = "The body does not have the type of the route"


class BadKey(Problem):
    title = "Invalid key"


class BadValue(Problem):
    title = "Invalid value"


class TooDeep(BadValue):
    title = "Nested too deep"


class TooLarge(Problem):
    status = 413
    title = "Request too large"


class UnsupportedMediaType(Problem):
    status = 415
    title = "Unsupported media type"


class BadQuery(Problem):
    title = "Invalid query"


class NeedsIndex(BadQuery):
    title = "Missing index"


class NotFound(Problem):
    """A document, semaphore, batch, run or other record that does not exist."""

    status = 404
    title = "Not found"


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
    """A task was given up. ``error`` and ``traceback`` are from its last attempt, and empty if the process died.

    A flow receives it without ``traceback``, which the flow's log would otherwise contain. The task's log line has it.
    """

    NOT_STORED = frozenset({"traceback"})

    status = 500
    title = "Task failed in every attempt"

    def __init__(self, detail: str, error: str = "", traceback: str = "") -> None:
        super().__init__(detail)
        self.error = error
        self.traceback = traceback


class Unavailable(Exception):
    """A transient error, answered with 503: it is not known whether the call took effect. Retry it.

    ``retry_after_seconds`` is the shortest pause before the retry: ``Retry-After`` has it in whole seconds, rounded up,
    and 0 for a number that is negative or not finite. Callers receive ``detail``; the reason is only logged.
    """

    detail = "It is not known whether the request took effect. Retry."

    def __init__(self, reason: str, *, retry_after_seconds: float = 1) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


class Contended(Unavailable):
    """Every attempt of a guarded commit lost the race, or its answer was lost."""


class NewerFormat(Unavailable):
    """A newer release wrote a record or a task in a format that this code cannot read. Nothing was written."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, retry_after_seconds=30)
        self.detail = reason


class PartlyEnqueued(Exception):
    """Some tasks of a call are not known to be enqueued. ``enqueued`` are the names of those that are."""

    def __init__(self, reason: str, enqueued: Iterable[str] = ()) -> None:
        super().__init__(reason)
        self.enqueued = frozenset(enqueued)


class EnqueueUnconfirmed(PartlyEnqueued, Unavailable):
    """Cloud Tasks did not confirm a task, which may be enqueued or not."""


class DeploymentCannotEnqueue(PartlyEnqueued, Unavailable):
    """The deployment lacks a queue or the right to enqueue. A new right takes effect with a delay, so retry."""


class NotInCatalogue(PartlyEnqueued, Problem):
    """A record names a function, task or queue that the catalogue does not connect. No retry can enqueue it."""

    status = 500
    title = "The catalogue has no such task"


class OtherBody(Problem):
    status = 409
    title = "The id is in use with a different body"


class WaitOfFlow(Problem):
    status = 409
    title = "Only its flow can end this wait"


class LeaseEnded(Problem):
    """An `acquire` under an id whose lease has been released or has expired: an id acquires once."""

    status = 409
    title = "The lease of this id is over"
