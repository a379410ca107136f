"""A lease: permits of a semaphore held by one wait until a time, by the server's clock.

A lease is granted under a fencing token that grows from grant to grant, also across delete and recreate of the
semaphore. The lease id that callers see holds both the wait's id and the token (``ID~TOKEN``), so that a late signal
cannot end a later lease of the same wait.

A continuation's lease is granted for a short time and begins when its task claims it. A second delivery of that task
claims again under a new token: `grant` stays the token the lease was granted with, `token` is the one valid now.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from shared.core.rules.problems import BadSemaphore

TOKEN_DIGITS_MAX = 20
"""More than a token in microseconds will ever have, and still quickly parsed."""


@dataclass(frozen=True, slots=True)
class GrantedLease:
    """A lease as its caller sees it: the lease id to signal and renew by, the fencing token, and the end."""

    id: str
    token: int
    ends_at: datetime

    def to_json(self) -> dict[str, Any]:
        """Return the lease as people see it."""
        return {"id": self.id, "token": self.token, "ends_at": self.ends_at}

    to_record = to_json

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `to_record` returned."""
        return cls(**record)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """One lease in a semaphore's record. `id` is its wait's id.

    `seconds` is how long it lasts from its claim; `continued` says that it is a continuation's, which `claimed` it.
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
        """Return the id under which callers signal and renew."""
        return lease_id(self.id, self.token)

    def live(self, now: datetime) -> bool:
        """Return whether the lease has not expired."""
        return now < self.ends_at

    def is_ended_by(self, release: "Release | None") -> bool:
        """Return whether this release, left to an admit run, is of this lease under the token valid now."""
        return release is not None and (release.id, release.token) == (self.id, self.token)

    def granted(self) -> GrantedLease:
        """Return the lease as its caller sees it."""
        return GrantedLease(self.lease_id, self.token, self.ends_at)

    def to_record(self) -> dict[str, Any]:
        """Return the lease as the record holds it."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `to_record` returned."""
        return cls(**record)

    def to_json(self) -> dict[str, Any]:
        """Return the lease as `GET` shows it."""
        return self.granted().to_json() | {"permits": self.permits}


@dataclass(frozen=True, slots=True)
class EndedLease:
    """A lease that is over, remembered for a while so that a repeated call is recognised.

    `operation` names the signal that ended it; it is empty where the lease expired, or the signal was late when it was
    decided. `in_time` says that the signal is known to have come before the end; otherwise its commit time must tell.
    """

    id: str
    token: int
    ends_at: datetime
    operation: str = ""
    in_time: bool = False

    def to_record(self) -> dict[str, Any]:
        """Return it as the record holds it."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `to_record` returned."""
        return cls(**record)


@dataclass(frozen=True, slots=True)
class Release:
    """The end of a token, left as a record of its own for an admit run to apply.

    `operation` names the signal, or says that another delivery of the task took the lease over. `created_at` is the
    server's time of its commit, None before that.
    """

    id: str
    token: int
    operation: str
    incarnation: int
    created_at: datetime | None = None

    @property
    def lease_id(self) -> str:
        """Return the id of the lease that ends."""
        return lease_id(self.id, self.token)

    def to_record(self) -> dict[str, Any]:
        """Return the fields of its record."""
        return {"id": self.id, "token": self.token, "operation": self.operation, "incarnation": self.incarnation}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], created_at: datetime | None) -> Self:
        """Read back what `to_record` returned."""
        return cls(**record, created_at=created_at)


def lease_id(id_: str, token: int) -> str:
    """Return the lease id made of a wait's id and a token."""
    return f"{id_}~{token}"


def parse_lease_id(text: Any) -> tuple[str, int]:
    """Return a lease id's two parts: the wait's id and the token. Raises `BadSemaphore`."""
    id_, _, token = text.rpartition("~") if isinstance(text, str) else ("", "", "")
    if not id_ or not token.isascii() or not token.isdecimal() or len(token) > TOKEN_DIGITS_MAX:
        raise BadSemaphore("`lease` must be the id of a lease, as the wait answered it.", field="lease")
    return id_, int(token)
