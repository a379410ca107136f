"""Every decision about a rate, as pure functions of the loaded records and the server's time.

A permit is free at `now` if the bucket is full again at most `burst - 1` intervals later; granting it moves that time
one interval on. So in any window of t seconds, by the times of the grants, at most `burst + rate * t` permits are
granted, in whatever order the grants are decided.

    command  waits left  permits            answer   full_at    alarm
    -------  ----------  -----------------  -------  ---------  -----
    acquire  no          now                granted  later      -
    acquire  no          later              refused  same       -
    acquire  yes         any                refused  same       same
    acquire  paused      any                refused  same       -
    admit    paused      any                -        same       none
    pause    any         any                -        same       none
    resume   any         any                -        same       now
    admit    none        any                -        same       none
    admit    some        now, or soon       -        later      of the first wait that is left, if any
    admit    some        later than soon    -        same       of the first wait

*Soon* is within `grants_ahead_seconds`: such a grant has its own time, for which its task is enqueued.
"""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any

from signalbox.core.effects import Decision, Effect, name_of
from signalbox.core.kit_names import ADMIT_QUEUE, FLOW_COMMAND_TASK, SEMAPHORE_ADMIT
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import OtherBody, Unavailable
from signalbox.core.times import instant, microseconds
from signalbox.rates.limits import LIMITS
from signalbox.rates.model import (
    Acquired,
    Rate,
    RateSettings,
    RateWait,
    Receipt,
    WaitAnswer,
    path_of,
    seconds_between,
)
from signalbox.rates.problems import BadRate
from signalbox.rates.requests import AcquireRequest, RateWaitRequest

ADMIT = "rate_admit"
"""The task of an admit run."""

MINUTE = 60_000_000

AHEAD = timedelta(seconds=LIMITS.grants_ahead_seconds)
ALARM_AHEAD = timedelta(seconds=LIMITS.alarm_ahead_seconds)
ALARM_LOST = timedelta(seconds=LIMITS.alarm_lost_seconds)
CHECKED = timedelta(seconds=LIMITS.rate_checked_seconds)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The records that an admit run has read: the rate, and the first waits in order. `more`: others may follow.

    `rate` is None if the rate was deleted. `asleep` means that no wait was read, because the next run is enqueued.
    """

    name: str
    rate: Rate | None
    incarnation: int
    now: datetime
    waits: tuple[RateWait, ...] = ()
    more: bool = False
    asleep: bool = False


@dataclass(frozen=True, slots=True)
class Admitted:
    """The decision of an admit run: grants, stale waits to delete, the new rate. `again`: there is more to do now."""

    rate: Rate | None
    granted: tuple[RateWait, ...] = ()
    stale: tuple[RateWait, ...] = ()
    again: bool = False


# --- limits ---


def new_rate(settings: RateSettings, now: datetime) -> Rate:
    """Return a rate of which all permits are free."""
    return Rate(settings, sweep_at=now + CHECKED)


def change_settings(rate: Rate, wanted: RateSettings, now: datetime) -> Rate:
    """Return the rate with other limits. Permits in use stay in use, up to the new burst."""
    owed = min(Fraction(max(0, rate.full_at - microseconds(now)), interval(rate)), Fraction(wanted.burst))
    changed = replace(rate, settings=wanted)
    return replace(changed, full_at=microseconds(now) + ceil(owed * interval(changed)))


def pause(rate: Rate, now: datetime) -> Rate:
    """Return the rate in a pause: it grants nothing, and has no admit run due. Waits stay in their order."""
    return rate if rate.paused_at else replace(with_alarm(rate, None, now), paused_at=now)


def resume(rate: Rate, now: datetime) -> Rate:
    """Return the rate after a pause, with an admit run now. Of the permits that came back, at most `burst` are free."""
    return with_alarm(replace(rate, paused_at=None), now, now) if rate.paused_at else rate


def check_weight(rate: Rate, weight: int) -> None:
    """Raise `BadRate` for a weight that can never be granted."""
    if weight > rate.settings.burst:
        detail = f"`weight` is {weight}, and the rate grants at most its burst of {rate.settings.burst} at once."
        raise BadRate(f"{detail} Lower the weight, or raise `burst`.", field="weight")


# --- permits ---


def interval(rate: Rate) -> int:
    """Return the microseconds in which a permit comes back, rounded up, so that the rate is never exceeded."""
    return ceil(MINUTE / Fraction(rate.settings.per_minute))


def slot(rate: Rate, weight: int, now: datetime) -> datetime:
    """Return the earliest time at which `weight` permits can be granted.

    A wait for more than the burst, which was larger when the wait began, is granted when all permits are there.
    """
    spare = rate.settings.burst - min(weight, rate.settings.burst)
    return max(now, instant(rate.full_at - spare * interval(rate)))


def free(rate: Rate, now: datetime) -> int:
    """Return the number of permits that can be granted at once."""
    owed = max(0, rate.full_at - microseconds(now))
    return max(0, rate.settings.burst - ceil(Fraction(owed, interval(rate))))


def free_to_acquire(rate: Rate, now: datetime) -> int:
    """Return the permits that an acquire could be granted now: 0 while there are waits, or while the rate is paused."""
    return 0 if rate.alarm_at is not None or rate.paused_at is not None else free(rate, now)


def take(rate: Rate, weight: int, at: datetime) -> Rate:
    """Return the rate after `weight` permits were granted at a time."""
    return replace(rate, full_at=max(rate.full_at, microseconds(at)) + weight * interval(rate))


def acquire(rate: Rate, request: AcquireRequest, now: datetime) -> Decision[Rate, Acquired]:
    """Grant permits now, or refuse. While the queue has waits, refuse, because they came first.

    Raises `BadRate`, and `OtherBody` if the id was granted with another weight.
    """
    check_weight(rate, request.weight)
    before = next((receipt for receipt in rate.recent if receipt.id == request.id), None)
    if before and before.weight != request.weight:
        raise OtherBody(
            f"The id {request.id!r} was granted {before.weight} permits, not {request.weight}: choose another id.",
            field="id",
        )
    if before:
        return Decision(rate, Acquired(granted=True))
    if rate.paused_at is not None:
        return Decision(rate, Acquired(granted=False, retry_after_seconds=LIMITS.paused_retry_seconds, paused=True))
    there_at = slot(rate, request.weight, now)
    if rate.alarm_at is not None:
        there_at = max(there_at, rate.alarm_at) + timedelta(microseconds=interval(rate))
    if there_at > now:
        return Decision(rate, Acquired(granted=False, retry_after_seconds=seconds_between(now, there_at)))
    recent = (*rate.recent, Receipt(request.id, now, request.weight))[-LIMITS.recent_acquires_max :]
    return Decision(replace(take(rate, request.weight, now), recent=recent), Acquired(granted=True))


def repeated_wait(name: str, wait: RateWait, request: RateWaitRequest, now: datetime) -> WaitAnswer:
    """Return the answer to a repeated wait. If a unit's grant is due, this includes its task, which may be lost.

    Raises `OtherBody` if a caller named the id, and the wait is for another call or weight.
    """
    given, wanted = (wait.continuation.digest, wait.weight), (request.continuation.digest, request.weight)
    if request.named and given != wanted:
        raise OtherBody(
            f"The id {request.id!r} is that of a wait for another task or weight: choose another id.", field="id"
        )
    due = wait.granted_at is not None and wait.granted_at <= now
    lost = (continuation_task(name, wait, now, repeated=True),) if due and wait.unit else ()
    return WaitAnswer(wait.id, wait.state, due, lost, repeated=True)


# --- the admit run ---


def check_due(now: datetime, not_before: datetime | None) -> None:
    """Raise `Unavailable` for an early run: the commits that the run should see may not have been made yet."""
    if not_before is not None and now < not_before:
        raise Unavailable("the commits that this run should see may not have been made yet")


def is_asleep(rate: Rate, now: datetime) -> bool:
    """Return whether nothing is granted now: the rate is paused, or no permit comes back before the next run."""
    return rate.paused_at is not None or _waits_for_alarm(rate, now)


def _waits_for_alarm(rate: Rate, now: datetime) -> bool:
    return rate.alarm_at is not None and now < rate.alarm_at <= _alarm_at(rate, 1, now)


def page_size(rate: Rate, now: datetime) -> int:
    """Return the number of waits to read: one more than can be granted until the next run."""
    ahead = microseconds(now + AHEAD) - microseconds(slot(rate, 1, now))
    soon = free(rate, now) + max(0, ahead // interval(rate)) + 1
    return min(soon, LIMITS.rate_grants_page_max) + 1


def admit(loaded: Loaded) -> Admitted:
    """Grant from the head of the queue, up to `AHEAD` of now, and set the alarm for the first wait that is left.

    Each grant has its own time. No wait overtakes one that needs several permits. A rate that was deleted grants
    nothing, and its waits are stale.
    """
    rate, now = loaded.rate, loaded.now
    all_stale = [wait for wait in loaded.waits if is_stale(loaded, wait)]
    stale = _fitting(all_stale)
    if rate is None or loaded.asleep:
        rate = rate and with_alarm(rate, rate.alarm_at, now)
        return Admitted(rate, stale=stale, again=loaded.more or len(stale) < len(all_stale))
    if len(stale) < len(all_stale):
        return Admitted(rate, stale=stale, again=True)
    waiting = [wait for wait in loaded.waits if wait not in stale]
    granted, rate = grant_waits(rate, waiting, now)
    left = waiting[len(granted) :]
    again = not left and loaded.more
    alarm_at = _alarm_at(rate, left[0].weight if left else 1, now) if left or again else None
    full_page = bool(left) and slot(rate, left[0].weight, now) <= now + AHEAD
    return Admitted(with_alarm(rate, alarm_at, now), granted, stale, again or full_page)


def _fitting(waits: Sequence[RateWait]) -> tuple[RateWait, ...]:
    """Return the first waits of a deleted rate: as many as fit into one commit with their units' tasks."""
    room_bytes, fitting = LIMITS.rate_grant_bytes_max, list[RateWait]()
    for wait in waits:
        room_bytes -= len(wait.continuation.to_record()["payload"]) if wait.unit else 0
        if room_bytes < 0 and fitting:
            break
        fitting.append(wait)
    return tuple(fitting)


def grant_waits(rate: Rate, waiting: Sequence[RateWait], now: datetime) -> tuple[tuple[RateWait, ...], Rate]:
    """Grant waits in order until one is later than `AHEAD`, or the commit is full. Return the waits and the rate."""
    granted: list[RateWait] = []
    room_bytes = LIMITS.rate_grant_bytes_max
    for wait in waiting[: LIMITS.rate_grants_page_max]:
        granted_at = slot(rate, wait.weight, now)
        room_bytes -= len(wait.continuation.to_record()["payload"])
        if granted_at > now + AHEAD or (room_bytes < 0 and granted):
            break
        rate = take(rate, wait.weight, granted_at)
        granted.append(replace(wait, state="granted", granted_at=granted_at))
    return tuple(granted), rate


def is_stale(loaded: Loaded, wait: RateWait) -> bool:
    """Return whether a wait is of an earlier rate of this name, or of a rate that was deleted before this read."""
    if loaded.rate is None:
        return wait.incarnation < microseconds(loaded.now)
    return wait.incarnation < loaded.incarnation


def with_alarm(rate: Rate, alarm_at: datetime | None, now: datetime) -> Rate:
    """Return the rate with the time of its next admit run, if any, and that of the sweeper's visit.

    The visit is at most an hour away, also if the alarm is later: a cancel, or a change of the limits, may have made an
    earlier run necessary, and that run may be lost.
    """
    is_due = rate.sweep_at is None or rate.sweep_at <= now
    if alarm_at == rate.alarm_at and not is_due:
        return rate
    lost_at = [] if alarm_at is None else [alarm_at + ALARM_LOST]
    return replace(rate, alarm_at=alarm_at, sweep_at=min([now + CHECKED, *lost_at]))


def _alarm_at(rate: Rate, weight: int, now: datetime) -> datetime:
    """Return the time of the run that grants `weight` permits: a little before the permits are free."""
    latest = now + timedelta(days=LIMITS.alarm_days_max)
    return min(max(now, slot(rate, weight, now) - ALARM_AHEAD), latest)


# --- tasks ---


def admit_effects(name: str, before: Rate, after: Rate, incarnation: int) -> tuple[Effect, ...]:
    """Return the task of the alarm, if the alarm has a new time."""
    if after.alarm_at is None or after.alarm_at == before.alarm_at:
        return ()
    return (admit_task(name, incarnation, after.alarm_at),)


def admit_task(name: str, incarnation: int, at: datetime | None = None) -> Effect:
    """Return an admit run: at a time, or soon after its commit. All runs of one time slot are one task."""
    base = f"{path_of(name)} {incarnation}"
    return Effect(base, ADMIT_QUEUE, SEMAPHORE_ADMIT, ADMIT, {"rate": name}, not_before=at, wakes=True)


def continuation_task(name: str, wait: RateWait, now: datetime, *, repeated: bool = False) -> Effect:
    """Return the task of a wait that was granted, due at the time of its grant.

    If it is `repeated`, some units of a group may have run, so the task reads their outcomes first.
    """
    assert wait.granted_at is not None, "the wait was granted"
    task = name_of(path_of(name), wait.incarnation, wait.id, "continuation")
    again = {"careful": True} if repeated and wait.is_of_group else {}
    effect = _with_unit(wait.continuation.effect(task, wait.granted_at), wait, granted=True, **again)
    return (
        replace(effect, not_before=wait.granted_at) if effect.not_before is None and wait.granted_at > now else effect
    )


def ended_tasks(name: str, admitted: Admitted, now: datetime) -> tuple[Effect, ...]:
    """Return the tasks by which flows and units repeat their waits for a rate that was deleted.

    The repeated waits are for the rate that has this name now. They fail if there is no such rate.
    """
    stale = admitted.stale
    flows = tuple(
        replace(
            wait.continuation,
            task=FLOW_COMMAND_TASK,
            payload={**wait.continuation.payload, "act": "wait_rate", "rate": name, "weight": wait.weight},
        ).effect(name_of(path_of(name), wait.incarnation, wait.id, "ended"), now)
        for wait in stale
        if wait.continuation.is_of_flow
    )
    return flows + tuple(task for wait in stale for task in unit_task(name, wait))


def unit_task(name: str, wait: RateWait) -> tuple[Effect, ...]:
    """Return the task of the unit whose wait has ended without a grant, if the wait was a unit's.

    A unit whose wait was cancelled is recorded as failed; any other unit repeats its wait.
    """
    if not wait.unit:
        return ()
    task = name_of(path_of(name), wait.incarnation, wait.id, "ended")
    cancelled = {"wait_ended": "cancelled"} if wait.state == "cancelled" else {}
    return (_with_unit(wait.continuation.effect(task, None), wait, **cancelled),)


def _with_unit(effect: Effect, wait: RateWait, **members: Any) -> Effect:
    """Return the task. If it runs for a unit or a group, its context has that, with `members` added to it."""
    if not wait.unit:
        return effect
    record = json.loads(wait.unit)
    if wait.is_of_group:
        return replace(effect, context={"group": record["group"] | members})
    return replace(effect, context={"unit": record | members})
