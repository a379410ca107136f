"""A lock as a flow's code holds it: permits of a semaphore until they are released, at the latest when the flow ends.

with (yield flow.lock("till", lease_seconds=3600)) as lease:
    ...
    lease = yield lease.renew()
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self

from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import LeaseEnded
from shared.flows.rules.commands import Command, check_seconds
from shared.flows.rules.nodes import Ended
from shared.flows.rules.running import made


class Holder(Protocol):
    """Who gives leases back."""

    held: dict[str, dict[str, Any]]

    def release(self, path: str) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class Renew(Command):
    """Extend the lease of a lock that the flow holds under `path`; the result is the `HeldLock` with its new end."""

    kind = "renew"
    semaphore: str
    path: str
    granted: Mapping[str, Any]
    lease_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.lease_seconds is not None:
            check_seconds("lease_seconds", self.lease_seconds, LIMITS.lease_seconds_max)

    @property
    def name(self) -> str:
        return self.semaphore


@dataclass(frozen=True, slots=True, eq=False)
class HeldLock:
    """A lease of `semaphore` until `ends_at`; `token` only grows, so that what it protects can refuse who is late."""

    semaphore: str
    id: str
    token: int
    ends_at: datetime
    _path: str
    _holder: Holder

    @classmethod
    def of(cls, holder: Holder, path: str) -> Self:
        """Return the lock whose lease a flow holds under a path."""
        lease = holder.held[path]
        ends_at = datetime.fromisoformat(lease["ends_at"])
        return cls(lease["semaphore"], lease["id"], lease["token"], ends_at, path, holder)

    def release(self) -> bool:
        """Release the permits; return whether they were held until now, as far as the flow knows."""
        return self._holder.release(self._path)

    def renew(self, lease_seconds: float | None = None) -> Renew:
        """Return a command: extend the lease, by as long as it was asked for; the result is the lock with its new end.

        Its error is `LeaseEnded` if the lease has ended before. Raises `LeaseEnded` for a lock that was released.
        """
        if self._path not in self._holder.held:
            raise LeaseEnded(f"The lock of {self.semaphore} was released.")
        granted = self._holder.held[self._path]["granted"]
        return made(Renew(self.semaphore, self._path, granted, lease_seconds), "renew()")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.release()


def renewed(holder: Holder, renew: Renew, ends_at: str) -> Ended:
    """Return the outcome of a renewal: the lock with its new end, unless the code has released it meanwhile."""
    if renew.path not in holder.held:
        return Ended(error=LeaseEnded(f"The lock of {renew.semaphore} was released meanwhile."))
    holder.held[renew.path] = holder.held[renew.path] | {"ends_at": ends_at}
    return Ended(HeldLock.of(holder, renew.path))
