"""The failure of a user's task: a task that was given up, failed, retried or deleted.

failures/{operation}    the failure of the task
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Self

from signalbox.core.calls import Call
from signalbox.core.error_notes import ErrorText
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.tasks.model.contexts import Context, context_of
from signalbox.tasks.problems import Gone

FAILURES = "failures"
FAILED_AT, STATE = "failed_at", "state"

State = Literal["failed", "retried", "deleted"]


def failure_path(id_: str) -> str:
    """Return the path of a failure's record."""
    return f"{FAILURES}/{id_}"


@dataclass(frozen=True, slots=True)
class Failure:
    """A task that was given up for `problem` and `detail`, kept for 30 days under the id of its operation.

    The record stays when the failure is retried or deleted, so that a late delivery of the task does not record the
    failure again, and a repeated call is recognised. Only in the state `failed` does it have `failed_at`, by which
    failures are listed.
    """

    id: str
    call: Call
    context: Context
    problem: str
    detail: str
    text: ErrorText
    attempts: int
    trace: str
    state: State = "failed"
    failed_at: datetime | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the record's fields, except for times. Payload and context are texts, so that any JSON fits."""
        return {
            "call": self.call.to_record(),
            "context": json.dumps(self.context.members),
            "problem": self.problem,
            "detail": self.detail,
            "error": self.text.error,
            "traceback": self.text.traceback,
            "attempts": self.attempts,
            "trace": self.trace,
            "state": self.state,
        }

    @classmethod
    def from_record(cls, id_: str, record: Mapping[str, Any]) -> Self:
        """Parse a record. Raises `Gone` if its content was deleted."""
        if record["state"] == "deleted":
            raise Gone("This failure was deleted; its task does not run again.", field="id")
        return cls(
            id_,
            Call.from_record(record["call"]),
            context_of(json.loads(record["context"])),
            record["problem"],
            record["detail"],
            ErrorText(record["error"], record["traceback"]),
            record["attempts"],
            record["trace"],
            record["state"],
            record["recorded_at"],
        )
