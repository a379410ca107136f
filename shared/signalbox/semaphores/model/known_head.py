"""The known head of a wait queue: the first waiters, whose order has been found."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.model.waiters import Waiter


@dataclass(frozen=True, slots=True)
class KnownHead:
    """Waiters at the head of the wait queue whose order has been found: their ids, in that order.

    Finding the first waiters can require reading more of them than there are permits to grant. The order of the others
    is kept in the semaphore's record, so the next grant reads them by their ids, and no more. Later waiters follow
    them, by their create times, so the known head stays correct until its waiters leave. A waiter that returns to an
    old place invalidates it.

    All of them were created by `until`; a later record under one of these ids has another place. With `until` and
    without ids, order had to be found the last time, so the next read is of many waiters at once.
    """

    ids: tuple[str, ...] = ()
    until: datetime | None = None

    def page(self, count: int) -> int:
        """Return how many waiters to read to find the order of `count`: one more, for comparison."""
        return 1 + (count if self.until is None else max(count, LIMITS.known_head_max))

    def behind(self, count: int) -> Self:
        """Return what is known of the order after the first `count` waiters."""
        return type(self)(self.ids[count:], self.until)

    def has(self, waiter: Waiter, incarnation: int) -> bool:
        """Return whether this waiter, whose id is known, still waits in its place."""
        if waiter.state != "waiting" or waiter.incarnation != incarnation:
            return False
        return self.until is not None and waiter.created_at is not None and waiter.created_at <= self.until

    def after(self, waiters: Sequence[Waiter]) -> Self:
        """Return the knowledge after these waiters, in their order, are known to precede all others."""
        ids = (*(waiter.id for waiter in waiters), *self.ids)[: LIMITS.known_head_max]
        until = self.until or max((waiter.created_at for waiter in waiters if waiter.created_at), default=None)
        return type(self)(ids, until)

    def shortened(self, ids_max: int) -> Self:
        """Return what is known of the first waiters, at most `ids_max` of them; nothing if that is 0."""
        return replace(self, ids=self.ids[:ids_max]) if ids_max else type(self)()

    def to_record(self) -> dict[str, Any]:
        """Return the fields for the semaphore's record; none if nothing is known."""
        return {"head": {"ids": list(self.ids), "until": self.until}} if self.until else {}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        head = record.get("head", {})
        return cls(tuple(head.get("ids", ())), head.get("until"))


NOTHING_KNOWN = KnownHead()
