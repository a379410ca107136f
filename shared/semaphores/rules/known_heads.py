"""The known head of a wait queue: waiters whose order has been found, kept in the semaphore's record.

To find who comes first, more waiters may have to be read than permits are granted. What was found about the others is
kept: who grants next reads them by their ids, and nobody else. Waiters that come later stand behind them, by their
create times, so the known head stays true until its waiters leave; a waiter that comes back to an old place ends it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from shared.core.rules.limits import LIMITS
from shared.semaphores.rules.waiters import Waiter


@dataclass(frozen=True, slots=True)
class KnownHead:
    """The ids of waiters in their order. All were created by `until`: a later one of such an id stands elsewhere.

    A head whose waiters have all left says that order had to be found, and so does the next: many are read at once.
    """

    ids: tuple[str, ...] = ()
    until: datetime | None = None

    def page(self, count: int) -> int:
        """Return how many waiters to read to find the order of so many: one is only to compare."""
        return 1 + (count if self.until is None else max(count, LIMITS.known_head_max))

    def behind(self, count: int) -> Self:
        """Return what is known behind the first so many."""
        return type(self)(self.ids[count:], self.until)

    def has(self, waiter: Waiter, incarnation: int) -> bool:
        """Return whether this waiter, whose id is known, still waits in its place."""
        if waiter.state != "waiting" or waiter.incarnation != incarnation:
            return False
        return self.until is not None and waiter.created_at is not None and waiter.created_at <= self.until

    def after(self, waiters: Sequence[Waiter]) -> Self:
        """Return what is known when these waiters, in their order, stand before all that was known."""
        ids = (*(one.id for one in waiters), *self.ids)[: LIMITS.known_head_max]
        until = self.until or max((one.created_at for one in waiters if one.created_at), default=None)
        return type(self)(ids, until)

    def to_record(self) -> dict[str, Any]:
        """Return the fields of the semaphore's record; none, if nothing was known."""
        return {"head": {"ids": list(self.ids), "until": self.until}} if self.until else {}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read the semaphore's record."""
        head = record.get("head", {})
        return cls(tuple(head.get("ids", ())), head.get("until"))


NOTHING_KNOWN = KnownHead()
