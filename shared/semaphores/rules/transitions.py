"""What the rules of a semaphore take and return: what was loaded, and the transition that follows from it.

Nothing here reads or writes. `shared/semaphores/operations/transitions.py` loads a `Loaded`, calls a rule, and commits
the `Transition` under the guards of what was loaded.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, Literal, TypeVar

from shared.core.rules.effects import Effect
from shared.semaphores.rules.known_heads import NOTHING_KNOWN, KnownHead
from shared.semaphores.rules.leases import LeaseRecord, Release
from shared.semaphores.rules.semaphores import Semaphore
from shared.semaphores.rules.tasks import alarm_task
from shared.semaphores.rules.waiters import State, Waiter

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class QueueReads:
    """How many waiters and receipts a decision needs besides the semaphore's record; 0: none.

    `in_order`: those at the head, in their order; else whichever come first by `since`. `after` is the place in the
    latter, a time and an id, behind which the waiters are read.
    """

    waiters: int = 0
    receipts: int = 0
    in_order: bool = False
    after: tuple[datetime, str] | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a decision rests on.

    `wait` is the record of the wait in question, read with the semaphore's if `wait_read`; `release` that of its lease,
    if it has one and its release was left to an admit run, read with them at one instant. `releases`, and then
    `waiters` (the head of the wait queue) and `receipts`, were read after it; `more_waiters`: there may be others
    behind those. `known` is what is known of their order. `update_time` is the last commit of the semaphore.
    """

    name: str
    semaphore: Semaphore
    incarnation: int
    read_time: datetime
    update_time: datetime | None = None
    wait: Waiter | None = None
    wait_read: bool = False
    release: Release | None = None
    reads: QueueReads = QueueReads()
    waiters: tuple[Waiter, ...] = ()
    more_waiters: bool = False
    known: KnownHead = NOTHING_KNOWN
    releases: tuple[Release, ...] = ()
    receipts: tuple[Waiter, ...] = ()

    @property
    def now(self) -> datetime:
        """Return the time at which this decision is made: the read time of the load, never a process's clock."""
        return self.read_time


@dataclass(frozen=True, slots=True)
class WaiterTransition:
    """What happens to a waiter's record, guarded by the version of `waiter`, which is the waiter as it follows.

    ``created``: written whole, at the end of the wait queue or as the receipt of an immediate grant. ``left``: out of
    the wait queue, kept as a receipt. ``requeued``: back in its old place. ``kept``: a receipt for longer. ``removed``:
    deleted.
    """

    kind: Literal["created", "left", "requeued", "kept", "removed"]
    waiter: Waiter


@dataclass(frozen=True, slots=True)
class Transition(Generic[Answer]):
    """A decision: the semaphore that follows, the answer, what else changes, and whether an admit run must follow.

    `evicted` are expired leases without room in the record; the loss is noted at their waiters. A transition that
    leaves the semaphore as it was and changes nothing else commits nothing.
    """

    semaphore: Semaphore
    answer: Answer
    waiters: tuple[WaiterTransition, ...] = ()
    releases_created: tuple[Release, ...] = ()
    releases_applied: tuple[Release, ...] = ()
    effects: tuple[Effect, ...] = ()
    nudge: bool = False
    evicted: tuple[LeaseRecord, ...] = ()

    def commits(self, loaded: Loaded) -> bool:
        """Return whether there is anything to commit; what was found of the wait queue's order alone is not."""
        others = self.waiters or self.releases_created or self.releases_applied or self.effects
        return bool(others) or replace(self.semaphore, known=loaded.semaphore.known) != loaded.semaphore


Rule = Callable[[Loaded], Transition[Answer]]


def unchanged(loaded: Loaded, answer: Answer) -> Transition[Answer]:
    """Return the transition that commits nothing."""
    return Transition(loaded.semaphore, answer)


def leave(waiter: Waiter, state: State) -> WaiterTransition:
    """Return the transition that takes a waiter out of the wait queue."""
    return WaiterTransition("left", replace(waiter, state=state))


def with_alarm(transition: Transition[Answer], now: datetime) -> Transition[Answer]:
    """Return the transition with the alarm that its semaphore needs."""
    return replace(transition, semaphore=transition.semaphore.with_alarm(now))


def new_alarm(loaded: Loaded, after: Semaphore) -> tuple[Effect, ...]:
    """Return the alarm's task, if the alarm was set anew."""
    if after.alarm_at is None or after.alarm_at == loaded.semaphore.alarm_at:
        return ()
    return (alarm_task(loaded.name, loaded.incarnation, after.alarm_at),)
