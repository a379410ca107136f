"""A lease: permits for one holder, under a fencing token.

The token grows from grant to grant, even if the semaphore is deleted and created again. The lease id that callers
receive contains the wait's id and the token (``ID~TOKEN``), so a late signal cannot end a later lease of the same wait.
A continuation's lease is granted for a short time and starts when its task claims it. A second delivery of that task
claims it again under a new token: `grant` is the token of the grant, `token` the one that is valid now.
"""

import json
from collections.abc import Mapping
from dataclasses import field, fields
from datetime import datetime, timedelta
from typing import Any, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Checked
from signalbox.core.times import forms, instant, microseconds
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.problems import BadSemaphore

TOKEN_DIGITS_MAX = 20
"""More digits than a token in microseconds ever has, and few enough to parse quickly."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as its holder sees it: permits of `semaphore` until `ends_at`, by the server's clock.

    `id` identifies this lease to signal and renew. `token` grows from lease to lease of one semaphore, so whatever the
    permits protect can refuse a smaller token.
    """

    semaphore: str
    id: str
    token: int
    ends_at: datetime


def stable_names(lease: Lease) -> dict[Any, str]:
    """Return the lease's id, token and end, each mapped to a name that is the same in every delivery of its task."""
    return dict.fromkeys((lease.id, lease.token, *forms(lease.ends_at)), f"lease of {lease.semaphore}")


@dataclass(frozen=True, slots=True)
class Granted:
    """The lease of a continuation as it was granted: the ``lease`` in the context of its task.

    `id` names the grant, whichever delivery has claimed it. The other fields are the options of the wait, which the
    task repeats if it waits again.
    """

    semaphore: str
    id: str
    permits: int = 1
    lease_seconds: float | None = None
    release_on_return: bool = False
    release_on_failure: bool = False
    resumes: str = ""
    """The operation that the task continues, if the wait was for its next attempt."""

    resumed: int = 0
    """The number of that operation's earlier grants."""

    unit: str = ""
    holder: str = ""
    key: str = ""
    priority: str = "normal"
    record: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The JSON that was parsed, to store it or to send it again unchanged."""

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Self:
        """Parse the ``lease`` of a task's context. Other members are only kept in `record`."""
        known = [part.name for part in fields(cls) if part.name in context and part.name != "record"]
        return cls(**{name: context[name] for name in known}, record=context)

    @property
    def wait_id(self) -> str:
        """The id of the wait that was granted. Raises `BadSemaphore`."""
        return parse_lease_id(self.id)[0]

    def options(self) -> dict[str, Any]:
        """Return the options of another wait for the same permits."""
        return {name: getattr(self, name) for name in REPEATED}


REPEATED = ("permits", "lease_seconds", "release_on_return", "release_on_failure", "holder", "unit", "key", "priority")
"""The options of a wait that are the same in its repeat."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease in the semaphore's record. `id` is the id of its wait.

    `seconds` is the length of the lease from its claim. `continued` is true if the lease belongs to a continuation, and
    `claimed` once the continuation's task has claimed the lease.
    """

    id: str
    grant: int
    token: int
    ends_at: datetime
    permits: int
    seconds: float
    continued: bool = False
    claimed: bool = False

    @property
    def lease_id(self) -> str:
        """The id that callers signal and renew with."""
        return lease_id(self.id, self.token)

    def is_live(self, now: datetime) -> bool:
        """Return whether the lease has not expired."""
        return now < self.ends_at

    @property
    def silent_at(self) -> datetime | None:
        """The time at which the task of an unclaimed grant counts as lost; None if there is no such task."""
        if not self.continued or self.claimed:
            return None
        return self.ends_at + timedelta(seconds=LIMITS.grant_silent_seconds)

    def is_ended_by(self, release: "Release | None") -> bool:
        """Return whether a release that was left for an admit run ends this lease under its current token."""
        return release is not None and (release.id, release.token) == (self.id, self.token)

    def held(self, semaphore: str) -> Lease:
        """Return the lease as its holder sees it."""
        return Lease(semaphore, self.lease_id, self.token, self.ends_at)

    def to_record(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(**record)


@dataclass(frozen=True, slots=True)
class EndedLease:
    """A lease of `permits` that has ended, kept for a while so that a repeated call is recognised.

    `operation` is the signal that ended the lease. It is empty if the lease expired, or if the signal was decided too
    late. `in_time` means that the signal is known to have come before the end of the lease; if it is false, the time of
    the commit decides.

    The semaphore's record has a text for each, since every write of the record contains them, and few operations read
    them: as maps, fifty of them took most of the processor time of a semaphore's reads and writes.
    """

    id: str
    token: int
    ends_at: datetime
    operation: str = ""
    in_time: bool = False
    permits: int = 1

    def to_text(self) -> str:
        """Return the text of the record: a JSON list of the values, without the permits if there was one."""
        permits = [] if self.permits == 1 else [self.permits]
        return _text([self.id, self.token, microseconds(self.ends_at), self.operation, self.in_time, *permits])

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Undo `to_text`."""
        id_, token, ends_at, *others = json.loads(text)
        return cls(id_, token, instant(ends_at), *others)

    @staticmethod
    def beginning(id_: str) -> str:
        """Return the beginning of the texts of a wait's leases, which no other text has."""
        return f"{_text([id_])[:-1]},"


_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Release:
    """The end of a token, stored as a separate record that an admit run applies.

    `operation` identifies the signal. It is empty if another delivery of the task has created the release.
    `created_at` is the commit time of the record, or None before the commit.
    """

    id: str
    token: int
    operation: str
    incarnation: int
    created_at: datetime | None = None

    @property
    def lease_id(self) -> str:
        """The id of the lease that ends."""
        return lease_id(self.id, self.token)

    def to_record(self) -> dict[str, Any]:
        return {"id": self.id, "token": self.token, "operation": self.operation, "incarnation": self.incarnation}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], created_at: datetime | None) -> Self:
        return cls(**record, created_at=created_at)


def lease_id(id_: str, token: int) -> str:
    """Return the lease id of a wait's id and a token."""
    return f"{id_}~{token}"


def check_lease_id(text: Any) -> str:
    """Return a lease id, or raise `BadSemaphore`."""
    parse_lease_id(text)
    return str(text)


def parse_lease_id(text: Any) -> tuple[str, int]:
    """Return the two parts of a lease id, the wait's id and the token. Raises `BadSemaphore`."""
    id_, _, token = text.rpartition("~") if isinstance(text, str) else ("", "", "")
    if not id_ or not token.isascii() or not token.isdecimal() or len(token) > TOKEN_DIGITS_MAX:
        raise BadSemaphore("`lease` must be the id of a lease, as the answer of the wait contains it.", field="lease")
    return id_, int(token)


LEASE_ID = Checked(
    check_lease_id,
    {"pattern": rf"^[\s\S]+~[0-9]{{1,{TOKEN_DIGITS_MAX}}}$", "description": "The id that came with the lease."},
)
"""A lease id, in requests and answers."""
