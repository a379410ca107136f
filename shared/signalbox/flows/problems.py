"""The problems that only flows raise."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from signalbox.core.problems import NotFound, Problem


class BadFlow(Problem):
    title = "Invalid request on a flow"


class NoFlow(NotFound):
    title = "Flow not found"


class FlowEnded(Problem):
    status = 409
    title = "The flow has ended"


class FlowExists(Problem):
    status = 409
    title = "The id of the sub-flow is in use"


class CannotFork(Problem):
    status = 409
    title = "The run cannot be forked at this entry"


class CannotRetry(Problem):
    """A run cannot be retried in place. `reason` is one word for it, `entries` are the numbers of entries it is about.

    If another entry can be named, `from_entry` is that one. `parent` is the run that does not wait any more, as
    FLOW/ID, and `first_key` the key of the retry that was carried out instead.
    """

    MEMBERS = ("reason", "entries", "from_entry", "parent", "first_key")

    status = 409
    title = "The run cannot be retried in place"

    def __init__(
        self,
        detail: str,
        reason: str = "",
        *,
        field: str | None = None,
        entries: Sequence[int] = (),
        from_entry: int | None = None,
        parent: str = "",
        first_key: str = "",
        retry_after_seconds: int = 0,
    ) -> None:
        headers = {"Retry-After": str(retry_after_seconds)} if retry_after_seconds else {}
        super().__init__(detail, field=field, headers=headers)
        self.reason, self.entries, self.from_entry = reason, list(entries), from_entry
        self.parent, self.first_key = parent, first_key


class NoQuery(NotFound):
    title = "The run answers no query of this name"


class CannotQuery(Problem):
    status = 409
    title = "The query cannot be answered"


class FlowRunning(Problem):
    status = 409
    title = "The flow has not ended"


class FlowCancelled(Problem):
    status = 409
    title = "The flow was cancelled"


class NotArchived(Problem):
    status = 409
    title = "The archive of the run is not written yet"


class TooManyRuns(Problem):
    status = 409
    title = "Too many runs for one request"


class TooManyEvents(Problem):
    status = 409
    title = "The flow has too many events that it has not waited for"


class TooManyUpdates(Problem):
    status = 409
    title = "The flow has too many updates that it has not answered"


class NoUpdate(NotFound):
    title = "Update not found"


class NotAnswered(Problem):
    status = 409
    title = "The run has ended without an answer to the update"


class RunExists(Problem):
    status = 409
    title = "There is a run under this id"


class TimedOut(Problem):
    status = 504
    title = "The wait took too long"


class AllFailed(Problem):
    """All commands of a `flow.first_success` failed. `errors` has their problems, by name or position."""

    status = 424
    title = "All commands failed"

    def __init__(self, detail: str, errors: Mapping[int | str, Problem] | None = None) -> None:
        super().__init__(detail)
        self.errors = dict(errors or {})


class CommandCancelled(Problem):
    status = 409
    title = "The command was cancelled"


class StepTimedOut(TimedOut):
    title = "The step took too long"


class NoCallback(NotFound):
    title = "Callback address not valid"


class CallbackExpired(Problem):
    status = 410
    title = "The callback address has expired"


def check_count(name: str, value: Any, most: int) -> None:
    """Raise `BadFlow` unless an argument is a whole number from 1 to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise BadFlow(f"`{name}` must be a whole number from 1 to {most:,}.", field=name)


def utf8_bytes(value: Any) -> int:
    """Return the size of a text in bytes, or 0 if it is not a string or has a lone surrogate, which UTF-8 lacks."""
    try:
        return len(value.encode()) if isinstance(value, str) else 0
    except UnicodeEncodeError:
        return 0


def check_text(text: Any, what: str, bytes_max: int, field: str) -> None:
    """Raise `BadFlow` unless a text has 1 to `bytes_max` bytes of UTF-8."""
    if not 0 < utf8_bytes(text) <= bytes_max:
        refuse_text(text, f"{what} must be a string of 1 to {bytes_max} bytes of UTF-8.", field)


def refuse_text(text: Any, detail: str, field: str) -> NoReturn:
    """Raise `BadFlow`. A text that is too long or not UTF-8 may be a caller's, and does not make a run stuck."""
    if isinstance(text, str) and text:
        refuse_for_code(detail, field)
    raise BadFlow(detail, field=field)


def refuse_for_code(detail: str, field: str) -> NoReturn:
    """Raise `BadFlow`, which the flow's code handles, or the run fails."""
    raise BadFlow(detail, field=field)


def check_seconds(name: str, value: Any, most: float) -> None:
    """Raise `BadFlow` unless an argument is a number of seconds from 0 to `most`."""
    if not is_number(value) or not 0 <= value <= most:
        raise BadFlow(f"`{name}` must be a number of seconds from 0 to {most:,}.", field=name)


def is_number(value: Any) -> bool:
    """Return whether an argument is a number. `True` is none."""
    return type(value) in (int, float) or (isinstance(value, int | float) and not isinstance(value, bool))
