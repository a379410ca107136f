"""The tasks of a semaphore: admit runs, deadlines, clean-ups, and the tasks of its users.

Every task is named after what it is for, so that a repeat is recognised by the queue: the semaphore's path and
incarnation, then the alarm's time, the nudge's slot, or the wait and its grant.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.times import microseconds, slot_end
from shared.semaphores.rules.leases import LeaseRecord
from shared.semaphores.rules.semaphores import path_of
from shared.semaphores.rules.waiters import Waiter

QUEUE = "admit"
FUNCTION = "semaphore_admit"


def nudge_task(name: str, incarnation: int, moment: datetime) -> Effect:
    """Return the admit run that sees what was committed at `moment`: one run for all of a slot."""
    ends_at = slot_end(moment, LIMITS.admit_slot_seconds)
    task = name_of(path_of(name), incarnation, "admit", microseconds(ends_at))
    return _admit_task(task, name, ends_at, ends_at + timedelta(seconds=LIMITS.admit_margin_seconds))


def alarm_task(name: str, incarnation: int, at: datetime) -> Effect:
    """Return the admit run that is due when a lease ends."""
    return _admit_task(name_of(path_of(name), incarnation, "alarm", microseconds(at)), name, at, at)


def deadline_task(name: str, waiter: Waiter) -> tuple[Effect, ...]:
    """Return the task that looks at a waiter when its deadline is over."""
    if waiter.deadline_at is None:
        return ()
    task = name_of(path_of(name), waiter.incarnation, waiter.id, waiter.grant, "deadline")
    payload = {"semaphore": name, "id": waiter.id}
    return (Effect(task, QUEUE, FUNCTION, "deadline", payload, not_before=waiter.deadline_at),)


def clean_up_task(name: str, incarnation: int) -> Effect:
    """Return the task that deletes what a deleted semaphore leaves behind."""
    payload = {"semaphore": name, "incarnation": incarnation}
    return Effect(name_of(path_of(name), incarnation, "clean"), QUEUE, FUNCTION, "clean", payload)


def continuation_task(name: str, waiter: Waiter, lease: LeaseRecord, now: datetime) -> Effect:
    """Return the continuation of a grant, under a name of its own for each grant."""
    task = name_of(path_of(name), waiter.incarnation, waiter.id, lease.grant, "continuation")
    context = {"semaphore": name} | lease.granted().to_json()
    context |= waiter.asked()
    return waiter.continuation.effect(task, now, lease=context)


def refuse_task(name: str, incarnation: int, last: Waiter, now: datetime) -> Effect:
    """Return the task that ends, behind the waiter `last`, the waits which can never be granted."""
    assert last.since is not None, "a waiter in the wait queue has its place"
    payload = {"semaphore": name, "after": [last.since.isoformat(), last.id]}
    task = name_of(path_of(name), incarnation, "refuse", microseconds(now), last.id)
    return Effect(task, QUEUE, FUNCTION, "refuse", payload)


def timeout_task(name: str, waiter: Waiter, now: datetime, reason: str = "deadline") -> tuple[Effect, ...]:
    """Return the task that a waiter names for the case that it ends ungranted; `reason` stands beside its payload."""
    if waiter.on_timeout is None:
        return ()
    task = name_of(path_of(name), waiter.incarnation, waiter.id, waiter.grant, "timeout")
    return (waiter.on_timeout.effect(task, now, reason=reason),)


def _admit_task(task: str, name: str, at: datetime, due: datetime) -> Effect:
    payload: Mapping[str, Any] = {"semaphore": name, "at": at.isoformat()}
    return Effect(task, QUEUE, FUNCTION, "admit", payload, not_before=due)
