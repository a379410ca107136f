"""A waiter, which is the record of a wait with a continuation, and the answer to a wait.

The wait queue is ordered by these records' create times. No query can order by a create time, so while a waiter is in
the queue, its record has the field `since`, which is close to its create time. A query ordered by `since` therefore
finds the queue and nothing else. After that the record is a receipt: it identifies a repeated wait, which is then
answered with the current state. `joined` keeps the value of `since`, so a wait whose grant was lost returns to its old
place.
"""

import json
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Literal, Self

from signalbox.core.calls import Call
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.semaphores.model.leases import Lease
from signalbox.semaphores.requests import WaitRequest

State = Literal["waiting", "granted", "lost", "cancelled", "timed_out", "refused"]
"""`lost`: its lease expired and was evicted from the semaphore's record. `refused`: the permits of the semaphore were
lowered below the number that the wait needs."""

_CALLS = ("continuation", "on_timeout")
_OPTIONS: Mapping[str, Any] = {
    "permits": 1,
    "lease_seconds": None,
    "release_on_return": False,
    "release_on_failure": False,
    "resumes": "",
    "resumed": 0,
}
"""The options of a wait that its task receives, with their defaults. See `WaitRequest` for the last two."""

_OFTEN_ABSENT: Mapping[str, Any] = {"holder": "", "unit": "", "key": "", "priority": "normal"}
"""The options that most waits do not have, with their defaults. An option is stored only if it differs from its
default."""

_WAITER_FIELDS = ("incarnation", "deadline_at", "state", "grant")
_OWN_FIELDS = (*_WAITER_FIELDS, "lane", "joined", "since", "expires_at")


@dataclass(frozen=True, slots=True)
class Waiter:
    """A wait with a continuation.

    - `incarnation`: the create time, in microseconds, of the semaphore it waits for. A later semaphore of the same name
      never grants it.
    - `request`: the wait as it was requested. If it was read from a record, its `deadline_seconds` is None: see
      `deadline_at`.
    - `lane`: the lane in whose queue the waiter is, and `since` its place there.
    - `grant`: the token of its last grant.
    - `created_at`, `version`: the create and update time of its record, or None if the record is not known to exist.
    """

    request: WaitRequest
    incarnation: int
    lane: str = ""
    deadline_at: datetime | None = None
    state: State = "waiting"
    grant: int | None = None
    joined: datetime | None = None
    since: datetime | None = None
    expires_at: datetime | None = None
    version: datetime | None = None
    created_at: datetime | None = None

    @property
    def id(self) -> str:
        """The id of the wait."""
        return self.request.id

    @property
    def permits(self) -> int:
        """The number of permits that the wait is for."""
        return self.request.permits

    @property
    def continuation(self) -> Call:
        """The task that runs when the permits are granted."""
        assert self.request.continuation is not None, "only a wait with a continuation has a record"
        return self.request.continuation

    def options(self) -> dict[str, Any]:
        """Return the options of the wait that differ from their defaults. A repeat of the wait has the same options."""
        defaults = {**_OPTIONS, **_OFTEN_ABSENT}
        return {name: value for name in defaults if (value := getattr(self.request, name)) != defaults[name]}

    def task_shown(self) -> dict[str, Any]:
        """Return the waiter's task as lists and log lines show it: function, task, and the unit of a batch, if any."""
        unit = json.loads(self.request.unit) if self.request.unit else {}
        return self.continuation.shown() | ({"batch": unit["batch"], "unit": unit["index"]} if unit else {})

    def is_late(self, now: datetime) -> bool:
        """Return whether the deadline of the wait has passed."""
        return self.deadline_at is not None and now >= self.deadline_at

    def to_record(self) -> dict[str, Any]:
        """Return the fields of the waiter's record, except for its place and its end, which depend on the commit."""
        request = self.request
        options = {name: getattr(request, name) for name in _OPTIONS}
        plain = {name: getattr(self, name) for name in _WAITER_FIELDS}
        calls = {name: None if (call := getattr(request, name)) is None else call.to_record() for name in _CALLS}
        others = {name: value for name, none in _OFTEN_ABSENT.items() if (value := getattr(request, name)) != none}
        return options | plain | calls | others

    @classmethod
    def from_record(
        cls, id_: str, record: Mapping[str, Any], version: datetime | None, created_at: datetime | None
    ) -> Self:
        calls = {name: Call.from_record(record[name]) for name in _CALLS if record.get(name)}
        options = {name: record[name] for name in (*_OPTIONS, *_OFTEN_ABSENT) if name in record}
        request = WaitRequest.checked_before(id=id_, **options, **calls)
        own = {name: record[name] for name in _OWN_FIELDS if name in record}
        for since in record.get("places", {}).values():
            own["since"] = since
        return cls(request, version=version, created_at=created_at, **own)


@dataclass(frozen=True, slots=True)
class WaitAnswer:
    """The answer to a wait: that it has a lease, is in the wait queue, or has ended; or none of these.

    If none of these is true, the wait was not granted and has no record, perhaps because the semaphore is paused.
    `repeated`: the wait, which has a continuation, existed before this call.
    """

    lease: Lease | None = None
    waiting: bool = False
    ended: bool = False
    paused: bool = False
    repeated: bool = field(default=False, compare=False)

    @property
    def acquired(self) -> bool:
        """Whether the wait has its permits."""
        return self.lease is not None


WAITING = WaitAnswer(waiting=True)
NOT_ACQUIRED = WaitAnswer()
PAUSED = WaitAnswer(paused=True)
ENDED = WaitAnswer(ended=True)
