"""The input and output of every decision about a semaphore, and the tasks that a decision enqueues.

A decision is a pure function from `Loaded` to `Transition`. `storage.py` loads the input, and commits the output under
preconditions on the loaded records. The decisions are in the other modules of this folder:

    waits        acquire, wait, confirm, cancel, time out
    leases       claim, renew, end
    wait_queue   the next waiters to grant; the admit run
    lanes        whose turn it is among the waits of several keys and priorities
    settings     create, change, pause, resume
    deletion     delete old receipts and unused semaphores
    deadlocks    circles among waits of several semaphores

A task is named after its purpose, so that the queue recognises a repeat: the semaphore's path and incarnation, and then
the time of the alarm, the slot of the nudge, or the wait and its grant.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Generic, Literal, TypeVar

from signalbox.core.effects import Effect, name_of
from signalbox.core.kit_names import ADMIT_QUEUE, SEMAPHORE_ADMIT
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.times import microseconds, slot_end
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.model.known_head import NOTHING_KNOWN, KnownHead
from signalbox.semaphores.model.leases import LeaseRecord, Release
from signalbox.semaphores.model.semaphore import Semaphore, path_of
from signalbox.semaphores.model.waiters import State, Waiter

Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


# --- the input of a decision ---


@dataclass(frozen=True, slots=True)
class QueueReads:
    """The number of waiters and receipts that a decision needs in addition to the semaphore's record.

    - `in_order`: read the waiters at the head of the queue, in their order. Otherwise read the first ones by `since`.
    - `by_lane`: read the waiters of all lanes except the plain one, sorted by lane and id.
    - `after`: the place behind which to read: a time and an id, or with `by_lane`, a lane and an id.
    """

    waiters: int = 0
    receipts: int = 0
    in_order: bool = False
    after: tuple[datetime | str, str] | None = None
    by_lane: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """The first waiters of a queue in their order, found by a read for `asked` waiters.

    - `more`: whether there may be others behind these.
    - `known`: the part of their order that is known.
    """

    waiters: tuple[Waiter, ...] = ()
    more: bool = True
    known: KnownHead = NOTHING_KNOWN
    asked: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """The records that a decision rests on.

    The semaphore, `wait` and `release` were read at one instant, then `releases`, then `waiters` and `receipts`.

    - `update_time`: the time of the semaphore's last commit.
    - `wait`: the record of the wait in question, if `wait_read`.
    - `release`: the release of that wait's lease, if one was left for an admit run.
    - `more_waiters`: whether there may be others behind `waiters`.
    - `known`: the part of the waiters' order that is known.
    - `heads`: the lanes that were read, if the semaphore has lanes. `waiters` are then their waiters in turn.
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
    heads: Mapping[str, Head] = field(default_factory=dict)
    releases: tuple[Release, ...] = ()
    receipts: tuple[Waiter, ...] = ()

    @property
    def now(self) -> datetime:
        """The time of the decision: the read time of the load, never the clock of a process."""
        return self.read_time


# --- the output of a decision ---


class Undecided(Enum):
    """The reason why a command is not decided yet. The service acts on it, and no caller receives it."""

    READ_WAITER = "the waiter's record must also be read, and the command decided again"
    STALE_RECORD = "the waiter's record is of an earlier semaphore and is deleted; the wait must be decided again"
    JOIN_ALONE = "the waiter must be created without the semaphore's record, which already says that others wait"


@dataclass(frozen=True, slots=True)
class WaiterTransition:
    """A change of a waiter's record. `waiter` is the new state; its `version` is the precondition of the write.

    - ``created``: written whole, at the end of the wait queue or as the receipt of an immediate grant.
    - ``left``: taken out of the wait queue, kept as a receipt.
    - ``requeued``: put back into its old place.
    - ``kept``: a receipt that is kept for longer.
    - ``removed``: deleted.
    """

    kind: Literal["created", "left", "requeued", "kept", "removed"]
    waiter: Waiter


@dataclass(frozen=True, slots=True)
class Transition(Generic[Answer_co]):
    """A decision: the new state of the semaphore, the answer, and all other changes.

    A transition that changes nothing commits nothing.

    - `unreleased`: leases for which no release may exist. If there is a release, the commit fails.
    - `nudge`: whether an admit run is needed.
    - `evicted`: expired leases that the record has no room for. Their loss is noted in their waiters' records.
    """

    semaphore: Semaphore
    answer: Answer_co
    waiters: tuple[WaiterTransition, ...] = ()
    releases_created: tuple[Release, ...] = ()
    releases_applied: tuple[Release, ...] = ()
    unreleased: tuple[LeaseRecord, ...] = ()
    effects: tuple[Effect, ...] = ()
    nudge: bool = False
    evicted: tuple[LeaseRecord, ...] = ()

    def commits(self, loaded: Loaded) -> bool:
        """Return whether there is anything to commit. Knowledge of the queue's order alone is not committed."""
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
    """Return the task of the alarm, if the alarm has a new time."""
    if after.alarm_at is None or after.alarm_at == loaded.semaphore.alarm_at:
        return ()
    return (alarm_task(loaded.name, loaded.incarnation, after.alarm_at),)


# --- tasks ---


def nudge_task(name: str, incarnation: int, moment: datetime) -> Effect:
    """Return the admit run that sees the commits made at `moment`. All nudges of one time slot are one task."""
    ends_at = slot_end(moment, LIMITS.admit_slot_seconds)
    task = name_of(path_of(name), incarnation, "admit", microseconds(ends_at))
    return _admit_task(task, name, ends_at, ends_at + timedelta(seconds=LIMITS.admit_margin_seconds))


def alarm_task(name: str, incarnation: int, at: datetime) -> Effect:
    """Return the admit run that is due when a lease ends."""
    return _admit_task(name_of(path_of(name), incarnation, "alarm", microseconds(at)), name, at, at)


def departure_task(name: str, waiter: Waiter, now: datetime) -> tuple[Effect, ...]:
    """Return the admit run for the waiters behind one that leaves the wait queue.

    Only a waiter that needs several permits can have kept others from free permits.
    """
    if waiter.permits == 1:
        return ()
    return (_admit_task(name_of(path_of(name), waiter.incarnation, waiter.id, "departure"), name, now, now),)


def deadline_task(name: str, waiter: Waiter) -> tuple[Effect, ...]:
    """Return the task that ends a wait at its deadline, if the wait has a deadline."""
    if waiter.deadline_at is None:
        return ()
    task = name_of(path_of(name), waiter.incarnation, waiter.id, waiter.grant, "deadline")
    payload = {"semaphore": name, "id": waiter.id}
    return (Effect(task, ADMIT_QUEUE, SEMAPHORE_ADMIT, "deadline", payload, not_before=waiter.deadline_at),)


def clean_up_task(name: str, incarnation: int) -> Effect:
    """Return the task that deletes the records below a deleted semaphore."""
    payload = {"semaphore": name, "incarnation": incarnation}
    return Effect(name_of(path_of(name), incarnation, "clean"), ADMIT_QUEUE, SEMAPHORE_ADMIT, "clean", payload)


def continuation_task(name: str, waiter: Waiter, lease: LeaseRecord, now: datetime) -> Effect:
    """Return the continuation of a grant."""
    task = continuation_name(name, waiter, lease.grant)
    held = lease.held(name)
    context = {part: getattr(held, part) for part in held.__slots__} | waiter.options()
    return waiter.continuation.effect(task, now, lease=context)


def continuation_name(name: str, waiter: Waiter, grant: int | None) -> str:
    """Return the name of a grant's continuation, which is different for each grant."""
    return name_of(path_of(name), waiter.incarnation, waiter.id, grant, "continuation")


def refuse_task(loaded: Loaded, last: Waiter) -> Effect:
    """Return the task that ends the waits behind the waiter `last` that can never be granted."""
    assert last.since is not None, "a waiter in the wait queue has its place"
    if last.lane:
        return refuse_lanes_task(loaded, (last.lane, last.id))
    payload = {"semaphore": loaded.name, "after": [last.since.isoformat(), last.id]}
    task = name_of(path_of(loaded.name), loaded.incarnation, "refuse", microseconds(loaded.now), last.id)
    return Effect(task, ADMIT_QUEUE, SEMAPHORE_ADMIT, "refuse", payload)


def refuse_lanes_task(loaded: Loaded, after: tuple[str, ...] = ()) -> Effect:
    """Return the task that ends the waits in all lanes, behind a lane and an id, that can never be granted."""
    payload = {"semaphore": loaded.name, "lanes_after": list(after)}
    task = name_of(path_of(loaded.name), loaded.incarnation, "refuse in lanes", microseconds(loaded.now), *after)
    return Effect(task, ADMIT_QUEUE, SEMAPHORE_ADMIT, "refuse", payload)


def timeout_task(name: str, waiter: Waiter, now: datetime, reason: str = "deadline") -> tuple[Effect, ...]:
    """Return the `on_timeout` task of a wait that ends without a grant, with the `reason` in its context."""
    if waiter.request.on_timeout is None:
        return ()
    task = name_of(path_of(name), waiter.incarnation, waiter.id, waiter.grant, "timeout")
    return (waiter.request.on_timeout.effect(task, now, reason=reason),)


def unit_task(name: str, waiter: Waiter, state: str, now: datetime) -> tuple[Effect, ...]:
    """Return the task that records a batch's unit as failed, if the wait was that unit's. The wait ended in `state`."""
    if not waiter.request.unit:
        return ()
    task = name_of(path_of(name), waiter.incarnation, waiter.id, waiter.grant, "unit")
    unit = json.loads(waiter.request.unit) | {"wait_ended": state}
    return (waiter.continuation.effect(task, now, unit=unit),)


def end_tasks(name: str, waiter: Waiter, now: datetime) -> tuple[Effect, ...]:
    """Return the tasks that notify the waiting unit or flow that its wait has ended with the semaphore."""
    flow = timeout_task(name, waiter, now, "deleted") if waiter.continuation.is_of_flow else ()
    return unit_task(name, waiter, "deleted", now) + flow


def _admit_task(task: str, name: str, at: datetime, due: datetime) -> Effect:
    payload: Mapping[str, Any] = {"semaphore": name, "at": at.isoformat()}
    return Effect(task, ADMIT_QUEUE, SEMAPHORE_ADMIT, "admit", payload, not_before=due)
