"""A waiter: a wait with a continuation, in the wait queue or past it.

The order of the wait queue is that of the records' create times. No query can order by these, so a waiter's record has
the field `since`, which is near its create time, for as long as it is in the wait queue, and only then: a query
ordered by it finds the queue and nothing else, page by page. The record stays afterwards as a receipt: a wait that is
delivered again is recognised, and answered with what is true then. `joined` keeps `since`, so that a grant that was
lost goes back to its old place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self

from shared.core.rules.calls import Call
from shared.semaphores.rules.leases import GrantedLease

State = Literal["waiting", "granted", "lost", "cancelled", "timed_out", "refused"]
"""`refused`: the semaphore's permits were lowered below what the wait wants."""

_CALLS = ("continuation", "on_timeout")
_DEFAULTS = {
    "permits": 1,
    "lease_seconds": None,
    "release_on_return": False,
    "release_on_failure": False,
    "resumes": "",
    "resumed": 0,
}
"""What a wait may ask for and its task must know; the last two say whose attempts the task goes on with."""

_PLAIN_FIELDS = (*_DEFAULTS, "incarnation", "deadline_at", "state", "grant")


@dataclass(frozen=True, slots=True)
class WaitAnswer:
    """What the caller of a wait is answered: a lease, a place in the wait queue, that this wait is over, or nothing."""

    lease: GrantedLease | None = None
    waiting: bool = False
    ended: bool = False

    @property
    def acquired(self) -> bool:
        """Return whether the wait has its permits."""
        return self.lease is not None

    def to_json(self) -> dict[str, Any]:
        """Return the answer as people see it."""
        if self.lease:
            return {"acquired": True, "lease": self.lease.to_json()}
        states = {"waiting": self.waiting, "ended": self.ended}
        return {"acquired": False} | {name: True for name, holds in states.items() if holds}


WAITING = WaitAnswer(waiting=True)
NOT_ACQUIRED = WaitAnswer()
ENDED = WaitAnswer(ended=True)


@dataclass(frozen=True, slots=True)
class Waiter:
    """A wait with a continuation. `grant` is the token of its last grant; `holder` names who waits, if it was given.

    `incarnation` is the create time of the semaphore it waits for, in microseconds: it has no claim on a later
    semaphore of the same name. `created_at` and `version` are the record's create and update time, None if it is not
    known to exist.
    """

    id: str
    incarnation: int
    continuation: Call
    permits: int = 1
    lease_seconds: float | None = None
    release_on_return: bool = False
    release_on_failure: bool = False
    resumes: str = ""
    resumed: int = 0
    holder: str = ""
    on_timeout: Call | None = None
    deadline_at: datetime | None = None
    state: State = "waiting"
    grant: int | None = None
    joined: datetime | None = None
    since: datetime | None = None
    expires_at: datetime | None = None
    version: datetime | None = None
    created_at: datetime | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the fields of its record, except `joined`, `since` and `expires_at`, which depend on its commit."""
        plain = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        calls = {name: None if (call := getattr(self, name)) is None else call.to_record() for name in _CALLS}
        return plain | calls | ({"holder": self.holder} if self.holder else {})

    @classmethod
    def from_record(
        cls, id_: str, record: Mapping[str, Any], version: datetime | None, created_at: datetime | None
    ) -> Self:
        """Read a record."""
        calls = {name: Call.from_record(record[name]) for name in _CALLS if record.get(name)}
        return cls(id=id_, version=version, created_at=created_at, **(dict(record) | calls))

    def to_json(self) -> dict[str, Any]:
        """Return the waiter as `GET` shows it."""
        return {"id": self.id, "since": self.since, "permits": self.permits} | self.named()

    def named(self) -> dict[str, Any]:
        """Return the task that it stands for, and its holder, if it was given."""
        return {"task": self.continuation.shown()} | ({"holder": self.holder} if self.holder else {})

    def asked(self) -> dict[str, Any]:
        """Return what the wait asked for, where that is not the default: the same wait can be made again of it."""
        defaults = {**_DEFAULTS, "holder": ""}
        return {name: getattr(self, name) for name, default in defaults.items() if getattr(self, name) != default}

    def is_late(self, now: datetime) -> bool:
        """Return whether its deadline is over."""
        return self.deadline_at is not None and now >= self.deadline_at
