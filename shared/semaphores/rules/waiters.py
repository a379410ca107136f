"""A waiter: a wait with a continuation, in the wait queue or past it.

A waiter's record has the field `since` for as long as it is in the wait queue, and only then: a query ordered by it
finds the queue, in the order of the server's commit times, and nothing else. The record stays afterwards as a receipt:
a wait that is delivered again gets the answer it got before. `joined` keeps its place, so that a grant that was lost
goes back to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self

from shared.core.rules.calls import Call
from shared.semaphores.rules.leases import GrantedLease

State = Literal["waiting", "granted", "lost", "cancelled", "timed_out"]

_CALLS = ("continuation", "on_timeout")
_PLAIN_FIELDS = ("incarnation", "permits", "lease_seconds", "release_on_return", "deadline_at", "state", "grant")


@dataclass(frozen=True, slots=True)
class WaitAnswer:
    """What the caller of a wait is answered: a lease, a place in the wait queue, or neither."""

    lease: GrantedLease | None = None
    waiting: bool = False

    @property
    def acquired(self) -> bool:
        """Return whether the wait has its permits."""
        return self.lease is not None

    def to_json(self) -> dict[str, Any]:
        """Return the answer as people see it."""
        if self.lease:
            return {"acquired": True, "lease": self.lease.to_json()}
        return {"acquired": False, "waiting": True} if self.waiting else {"acquired": False}

    to_record = to_json

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `to_record` returned."""
        lease = GrantedLease.from_record(record["lease"]) if record["acquired"] else None
        return cls(lease, record.get("waiting", False))


WAITING = WaitAnswer(waiting=True)
NOT_ACQUIRED = WaitAnswer()


@dataclass(frozen=True, slots=True)
class Waiter:
    """A wait with a continuation. `grant` is the token of its last grant, `answer` what its caller was answered.

    `incarnation` is the create time of the semaphore it waits for, in microseconds: it has no claim on a later
    semaphore of the same name. `version` is the record's update time, None if it is not known to exist.
    """

    id: str
    incarnation: int
    continuation: Call
    permits: int = 1
    lease_seconds: float | None = None
    release_on_return: bool = False
    on_timeout: Call | None = None
    deadline_at: datetime | None = None
    state: State = "waiting"
    grant: int | None = None
    answer: WaitAnswer = WAITING
    joined: datetime | None = None
    since: datetime | None = None
    expires_at: datetime | None = None
    version: datetime | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the fields of its record, except `joined`, `since` and `expires_at`, which depend on its commit."""
        plain = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        calls = {name: None if (call := getattr(self, name)) is None else call.to_record() for name in _CALLS}
        return plain | calls | {"answer": self.answer.to_record()}

    @classmethod
    def from_record(cls, id_: str, record: Mapping[str, Any], version: datetime | None) -> Self:
        """Read a record."""
        calls = {name: Call.from_record(record[name]) for name in _CALLS if record.get(name)}
        answer = WaitAnswer.from_record(record["answer"]) if record["answer"] else WAITING
        return cls(id=id_, version=version, **(dict(record) | calls | {"answer": answer}))

    def to_json(self) -> dict[str, Any]:
        """Return the waiter as `GET` shows it."""
        return {"id": self.id, "since": self.since, "permits": self.permits}

    def is_late(self, now: datetime) -> bool:
        """Return whether its deadline is over."""
        return self.deadline_at is not None and now >= self.deadline_at
