"""A lock as a flow's code holds it: permits of a semaphore until they are released, at the latest when the flow ends.

with (yield flow.lock("till", lease_seconds=3600)) as lease:
    ...
"""

from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self


class Holder(Protocol):
    """Who gives leases back."""

    held: dict[str, dict[str, Any]]

    def release(self, path: str) -> bool: ...


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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.release()
