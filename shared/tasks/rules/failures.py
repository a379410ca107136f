"""A task that was given up: what it was, and why, kept for 30 days under the id of its operation.

    failed ──retry──► retried      its task was enqueued anew, once
      └─────delete──► deleted      its content is gone

The last two states stay as records, so that a late delivery of the task does not record the failure again, and a
repeated call is recognised. Only a record in the state `failed` has `failed_at`, by which they are listed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self

from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.problems import Gone
from shared.semaphores.rules.requests import WaitRequest
from shared.semaphores.rules.section_requests import SectionRequest
from shared.tasks.rules.attempts import Attempt
from shared.tasks.rules.errors import ErrorText

COLLECTION = "failures"
FAILED_AT, STATE = "failed_at", "state"

State = Literal["failed", "retried", "deleted"]


def path_of(id_: str) -> str:
    """Return the path of a failure's record."""
    return f"{COLLECTION}/{id_}"


@dataclass(frozen=True, slots=True)
class Failure:
    """A task that was given up. `context` is the lease or the batch it ran for; `problem` and `detail` say why."""

    id: str
    call: Call
    context: Mapping[str, Any]
    problem: str
    detail: str
    text: ErrorText
    attempts: int
    trace: str
    state: State = "failed"
    failed_at: datetime | None = None

    @classmethod
    def of(cls, attempt: Attempt, problem: tuple[str, str], text: ErrorText, attempts: int) -> Self:
        """Return the failure of a delivery; `problem` is its type and its detail."""
        kind, detail = problem
        what = attempt.operation, attempt.call, attempt.context, kind, ErrorText.cut(detail, "").error
        return cls(*what, text, attempts, attempt.trace)

    def to_record(self) -> dict[str, Any]:
        """Return the fields of its record, except for times. Payload and context are texts, so that any JSON fits."""
        return {
            "call": self.call.to_record(),
            "context": json.dumps(self.context),
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
        """Read a record. Raises `Gone` if its content was deleted."""
        if record["state"] == "deleted":
            raise Gone("This failure was deleted; its task does not run again.", field="id")
        return cls(
            id_,
            Call.from_record(record["call"]),
            json.loads(record["context"]),
            record["problem"],
            record["detail"],
            ErrorText(record["error"], record["traceback"]),
            record["attempts"],
            record["trace"],
            record["state"],
            record["recorded_at"],
        )

    def to_json(self) -> dict[str, Any]:
        """Return the failure as an answer shows it."""
        call = {"function": self.call.function, "task": self.call.task, "payload": self.call.payload}
        why = {"problem": self.problem, "detail": self.detail, "error": self.text.error}
        lease = {"semaphore": self.context["lease"]["semaphore"]} if "lease" in self.context else {}
        return {
            "id": self.id,
            "state": self.state,
            **call,
            "queue": self.call.queue,
            **lease,
            **why,
            "traceback": self.text.traceback,
            "attempts": self.attempts,
            "trace": self.trace,
            "failed_at": self.failed_at,
        }

    # --- retry ---

    def wait(self) -> tuple[str, WaitRequest] | None:
        """Return the wait for a new lease that a retry begins with: its semaphore and the request; None without one.

        Its id is derived, so that a repeated retry is the same wait.
        """
        lease = self.context.get("lease")
        if lease is None:
            return None
        known = {
            name: lease[name] for name in ("permits", "lease_seconds", "release_on_return", "holder") if name in lease
        }
        return lease["semaphore"], WaitRequest(name_of(path_of(self.id), "wait"), self.call, **known)

    def section_call(self) -> tuple[str, SectionRequest] | None:
        """Return the call of the critical section that a retry is: its key and the request; None without one."""
        section = self.context.get("section")
        if section is None:
            return None
        known = {name: section[name] for name in ("collect", "lease_seconds")}
        return section["key"], SectionRequest(self.call, **known, id=name_of(path_of(self.id), "call"))

    def effect(self) -> Effect:
        """Return the task that runs it again, under a name of its own: one for each failure."""
        task = f"/tasks/{self.call.task}"
        name = name_of(path_of(self.id), "retry")
        call = self.call
        return Effect(name, call.queue, call.function, call.task, call.payload, task, context=self.context)
