"""The order of a queue of records: that of their create times, by which no query can order.

A record in the queue has `since`, which is close to its create time. Queries order by it, and the page is then put into
the order of create times (docs/protocols/semaphores.md, sem-13).
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from signalbox.core.limits import LIMITS

READ_ON_FACTOR = 4
"""The growth of a page whose head is not certain."""


class InQueue(Protocol):
    """A record of a queue: its id, its create time, and its place in the order of the query."""

    @property
    def id(self) -> str: ...
    @property
    def created_at(self) -> datetime | None: ...
    @property
    def since(self) -> datetime | None: ...


Queued = TypeVar("Queued", bound=InQueue)


def head_of(page: Sequence[Queued], *, more: bool) -> tuple[Queued, ...]:
    """Return the head of the queue by create time, given the first page by `since`.

    If there may be `more` waiters behind the page, those created close to its end are left out: a waiter behind the
    page may have been created before them.
    """
    in_order = sorted(page, key=lambda waiter: (waiter.created_at, waiter.id))
    if not more or page[-1].since is None:
        return tuple(in_order)
    certain_until = page[-1].since - timedelta(seconds=LIMITS.since_ahead_seconds)
    return tuple(waiter for waiter in in_order if waiter.created_at is not None and waiter.created_at < certain_until)


def read_in_order(read: Callable[[int], Sequence[Queued]], limit: int) -> tuple[tuple[Queued, ...], bool]:
    """Return the head of the queue, and whether there may be more records behind the page.

    `read` returns the first records by `since`, up to a limit. While the first record of the queue is not certain,
    `read` is called again with a larger limit.
    """
    while True:
        page = read(limit)
        more = len(page) == limit
        head = head_of(page, more=more)
        if head or not more:
            return head, more
        limit *= READ_ON_FACTOR
