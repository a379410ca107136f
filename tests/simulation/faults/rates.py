"""Faults to plant: rates without one clause of their protocol (docs/protocols/rates.md)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any

from signalbox.core.effects import Effect
from signalbox.core.ports import Committed, Conflict, Must, Ports, Put, Write
from signalbox.core.times import microseconds
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.rates import machine
from signalbox.rates.model import Rate, RateWait, WaitAnswer, path_of, wait_path
from signalbox.rates.requests import RateWaitRequest
from signalbox.rates.storage import rate_of, wait_of
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import rates as rates_world

acquire = original("rates.acquire")
admit_writes = original("rates.admit_writes")
leave = original("rates.leave")
take = original("rates.take")
cancel = original("rates.cancel")
grant = original("rates.grant_waits")
wait = original("rates.wait")


def _rates(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), rates_world.run)


def _by_a_fast_clock(rate: Rate, request: Any, now: datetime) -> Any:
    return acquire(rate, request, now + timedelta(seconds=2))


def _unguarded(*given: Any) -> tuple[Write, ...]:
    return tuple(Put(each.path, each.data) if isinstance(each, Put) else each for each in admit_writes(*given))


def _without_receipt(rate: Rate, request: Any, now: datetime) -> Any:
    decided = acquire(rate, request, now)
    hidden = replace(rate, recent=())
    return acquire(hidden, request, now) if decided.state == rate and decided.answer else decided


def _left_unguarded(name: str, wait: RateWait, now: datetime) -> Any:
    return replace(leave(name, wait, now), guard=Must.EXIST)


def _whole_permits(rate: Rate, weight: int, slot: datetime) -> Rate:
    owed = max(0, rate.full_at - microseconds(slot)) // machine.interval(rate)
    return replace(rate, full_at=microseconds(slot) + (owed + weight) * machine.interval(rate))


def _one_permit(rate: Rate, _: int, slot: datetime) -> Rate:
    return take(rate, 1, slot)


def _owed_in_time(rate: Rate, wanted: Any, _: datetime) -> Rate:
    return replace(rate, settings=wanted)


def _owed_beyond_the_burst(rate: Rate, wanted: Any, now: datetime) -> Rate:
    owed = Fraction(max(0, rate.full_at - microseconds(now)), machine.interval(rate))
    changed = replace(rate, settings=wanted)
    return replace(changed, full_at=microseconds(now) + ceil(owed * machine.interval(changed)))


def _asleep_for_the_burst(rate: Rate, now: datetime) -> bool:
    due_at = machine.slot(rate, rate.settings.burst, now) - machine.ALARM_AHEAD
    return rate.paused_at is not None or (rate.alarm_at is not None and now < rate.alarm_at <= max(now, due_at))


def _cancelled_alone(ports: Ports, name: str, id_: str, *, by_flow: bool = False) -> bool:
    """Cancel a wait as if it were light: no admit run follows."""
    [read] = ports.store.read(wait_path(name, id_))
    waiting = wait_of(read)
    if waiting is None or waiting.state != "waiting":
        return bool(cancel(ports, name, id_, by_flow=by_flow))
    with suppress(Conflict):
        ports.store.commit([leave(name, replace(waiting, state="cancelled"), read.read_time)])
    return True


def _passing_the_heavy(rate: Rate, waiting: Sequence[RateWait], now: datetime) -> Any:
    light = [wait for wait in waiting if machine.slot(rate, wait.weight, now) <= now + machine.AHEAD]
    return grant(rate, light, now)


def _before_waits(rate: Rate, request: Any, now: datetime) -> Any:
    decided = acquire(replace(rate, alarm_at=None), request, now)
    return replace(decided, state=replace(decided.state, alarm_at=rate.alarm_at))


def _in_a_pause(rate: Rate, request: Any, now: datetime) -> Any:
    decided = acquire(replace(rate, paused_at=None), request, now)
    return replace(decided, state=replace(decided.state, paused_at=rate.paused_at))


def _without_a_run(rate: Rate, _: datetime) -> Rate:
    return replace(rate, paused_at=None)


def _with_a_full_bucket(rate: Rate, now: datetime) -> Rate:
    return replace(resume(rate, now), full_at=0) if rate.paused_at else rate


resume = original("rates.resume")


def _visited_for_the_alarm_only(rate: Rate, alarm_at: datetime | None, now: datetime) -> Rate:
    after = with_alarm(rate, alarm_at, now)
    return after if alarm_at else replace(after, sweep_at=None)


def _visited_after_the_alarm(rate: Rate, alarm_at: datetime | None, now: datetime) -> Rate:
    after = with_alarm(rate, alarm_at, now)
    return replace(after, sweep_at=alarm_at + machine.ALARM_LOST) if alarm_at else after


with_alarm = original("rates.with_alarm")


def _by_since(page: Sequence[RateWait], *, more: bool) -> tuple[RateWait, ...]:
    return tuple(page)


def without_the_receipt_first(ports: Ports, name: str, request: RateWaitRequest) -> WaitAnswer:
    """Look for the rate before the receipt of a wait."""
    [read] = ports.store.read(path_of(name))
    rate_of(name, read)
    answer: WaitAnswer = wait(ports, name, request)
    return answer


def _tasks_afterwards(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    ports.queue.create(complete_wake_ups(effects, committed.commit_time))
    return committed


FAULTS = (
    _rates("rate-1", "the server's time", "rates.acquire", _by_a_fast_clock),
    _rates("rate-2", "the guard of the rate's record", "rates.admit_writes", _unguarded),
    _rates("rate-2", "the receipt of an acquire", "rates.acquire", _without_receipt),
    _rates("rate-2", "the guard of a wait that leaves", "rates.leave", _left_unguarded),
    _rates("rate-3", "the part of a permit that is owed", "rates.take", _whole_permits),
    _rates("rate-4", "the alarm", "rates.admit_effects", lambda *_: ()),
    _rates("rate-4", "503 to an early run", "rates.check_due", lambda *_: None),
    _rates("rate-4", "the sweeper", "rates.sweep", lambda *_: 0),
    _rates("rate-4", "the visit to a rate without an alarm", "rates.with_alarm", _visited_for_the_alarm_only),
    _rates("rate-4", "the visit to a rate before a far alarm", "rates.with_alarm", _visited_after_the_alarm),
    _rates("rate-5", "grants ahead", "rates.AHEAD", timedelta(0)),
    _rates("rate-6", "counting in permits what is owed", "rates.change_settings", _owed_in_time),
    _rates("rate-6", "the new burst as the limit of what is owed", "rates.change_settings", _owed_beyond_the_burst),
    _rates("rate-4", "an admit run for one permit before the alarm", "rates.is_asleep", _asleep_for_the_burst),
    _rates("rate-4", "the admit run behind a heavy wait that is cancelled", "rates.cancel", _cancelled_alone),
    _rates("rate-7", "the place of a wait for several permits", "rates.grant_waits", _passing_the_heavy),
    _rates("rate-7", "the weight of a wait", "rates.take", _one_permit),
    _rates("rate-8", "waits before acquires", "rates.acquire", _before_waits),
    _rates("rate-8", "the order of create times", "rates.head_of", _by_since),
    _rates("rate-9", "the incarnation", "rates.is_stale", lambda *_: False),
    _rates("rate-9", "ending the waits of a deleted rate again", "rates.end_again", lambda *_: None),
    _rates("rate-9", "the receipt before the rate", "rates.wait", without_the_receipt_first),
    _rates("rate-10", "refusing acquires in a pause", "rates.acquire", _in_a_pause),
    _rates("rate-10", "admit runs that sleep in a pause", "rates.is_asleep", machine._waits_for_alarm),
    _rates("rate-10", "the admit run of a resume", "rates.resume", _without_a_run),
    _rates("rate-10", "the permits in use at a resume", "rates.resume", _with_a_full_bucket),
    _rates("outbox", "the outbox", "core.commit", _tasks_afterwards),
)
