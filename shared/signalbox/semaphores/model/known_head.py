"""The known head of a wait queue: the first waiters, whose order has been found."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.model.waiters import Waiter


@dataclass(frozen=True, slots=True)
class KnownHead:
    """Waiters at the head of the wait queue whose order has been found: their ids, in that order.

    To find the first waiters, a read may need more waiters than there are permits to grant. The order of the surplus
    waiters is kept in the semaphore's record, so that the next grant reads only those, by their ids. Later waiters have
    later create times, so the known head stays correct until its waiters leave. A waiter that returns to an old place
    invalidates the known head.

    All waiters in the known head were created by `until`; a later record under one of these ids has another place. If
    there is an `until` and there are no ids, the last read had to find the order, so the next read takes many waiters
    at once.
    """

    ids: tuple[str, ...] = ()
    until: datetime | None = None

    def page(self, count: int) -> int:
        """Return the number of waiters to read to find the order of `count` waiters: one more, for comparison."""
        return 1 + (count if self.until is None else max(count, LIMITS.known_head_max))

    def behind(self, count: int) -> Self:
        """Return the known head without its first `count` waiters."""
        return type(self)(self.ids[count:], self.until)

    def has(self, waiter: Waiter, incarnation: int) -> bool:
        """Return whether this waiter, whose id is known, still waits in its place."""
        if waiter.state != "waiting" or waiter.incarnation != incarnation:
            return False
        return self.until is not None and waiter.created_at is not None and waiter.created_at <= self.until

    def after(self, waiters: Sequence[Waiter]) -> Self:
        """Return the known head, now that these waiters, in this order, are known to precede all others."""
        ids = (*(waiter.id for waiter in waiters), *self.ids)[: LIMITS.known_head_max]
        until = self.until or max((waiter.created_at for waiter in waiters if waiter.created_at), default=None)
        return type(self)(ids, until)

    def shortened(self, ids_max: int) -> Self:
        """Return the known head with at most `ids_max` waiters, or an empty known head if `ids_max` is 0."""
        return replace(self, ids=self.ids[:ids_max]) if ids_max else type(self)()

    def to_record(self) -> dict[str, Any]:
        """Return the fields for the semaphore's record. If no order is known, there are no fields."""
        return {"head": {"ids": list(self.ids), "until": self.until}} if self.until else {}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        head = record.get("head", {})
        return cls(tuple(head.get("ids", ())), head.get("until"))


NOTHING_KNOWN = KnownHead()
