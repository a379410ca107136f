"""A lease: permits of a semaphore held by one wait until a time, by the server's clock.

A lease is granted under a fencing token that grows from grant to grant, also across delete and recreate of the
semaphore. The id that callers see holds both the wait's id and the token (``ID~TOKEN``), so that a late signal cannot
end the next life of the same wait.

A continuation's lease is granted for a short while and begins when its task claims it. A second delivery of that task
claims again under a new token: `grant` keeps naming what the task was granted, `token` what is valid now.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from shared.core.rules.problems import BadSemaphore


@dataclass(frozen=True, slots=True)
class Held:
    """One lease. `seconds` is how long it lasts from its claim; `continued`: it is a continuation's."""

    id: str
    grant: int
    token: int
    ends_at: datetime
    permits: int
    seconds: float
    continued: bool = False
    claimed: bool = False

    @property
    def name(self) -> str:
        """Give the id under which callers signal and renew."""
        return name_of_lease(self.id, self.token)

    def live(self, now: datetime) -> bool:
        """Tell whether the lease has not ended by itself."""
        return now < self.ends_at

    def record(self) -> dict[str, Any]:
        """Give the lease as a record holds it."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `record` gave."""
        return cls(**record)

    def shown(self) -> dict[str, Any]:
        """Give the lease as callers see it."""
        return {"id": self.name, "token": self.token, "ends_at": self.ends_at}


@dataclass(frozen=True, slots=True)
class Ended:
    """A lease that is over, kept a while: so that a call that comes again is answered as it was.

    ``operation`` names the signal that ended it; it is empty where time, or a signal that was late when it was decided,
    did. ``in_time`` says that the signal is known to have come before the end; otherwise its commit's time must tell.
    """

    id: str
    token: int
    ends_at: datetime
    operation: str = ""
    in_time: bool = False

    def record(self) -> dict[str, Any]:
        """Give it as a record holds it."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `record` gave."""
        return cls(**record)

    def shown(self) -> dict[str, Any]:
        """Give it as its caller saw it when it was granted."""
        return {"id": name_of_lease(self.id, self.token), "token": self.token, "ends_at": self.ends_at}


def name_of_lease(id_: str, token: int) -> str:
    """Put a wait's id and a token together."""
    return f"{id_}~{token}"


def parse_lease(name: Any) -> tuple[str, int]:
    """Take a lease's id apart: the wait's id and the token. Raises `BadSemaphore`."""
    id_, _, token = name.rpartition("~") if isinstance(name, str) else ("", "", "")
    if not id_ or not token.isascii() or not token.isdecimal() or len(token) > 20:
        raise BadSemaphore("Name the lease by the id that came with it.", field="lease")
    return id_, int(token)
