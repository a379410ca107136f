"""Faults to plant: semaphores without one clause of their protocol (docs/protocols/semaphores.md).

Some clauses cannot be broken alone, and no fault is planted for them:

    sem-1, an admit run for a wait that finds free permits next to other waiters
                                        the operation that left them free has asked for a run, which opens the
                                        semaphore or finds the waiter
    sem-8, an early alarm answers 503   this is the same line of code as sem-2's early admit run
    sem-9, as many as are free          a run that leaves a head that fits asks for the next: slower, never wrong
    sem-9, a commit changes its record  a waiter that joins a closed queue is seen by the run that opens it anyway
    lane-6, a shared lane stays shared  the waits of one key are then in two lanes, of which each keeps its order
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from threading import Event
from typing import Any

from signalbox.adapters.waiting_requests import Asker, Lines
from signalbox.core import times
from signalbox.core.effects import Effect, name_of
from signalbox.core.ports import SERVER_TIME, Change, Committed, Delete, Must, Ports, RecordMissing, Write
from signalbox.core.queue_order import head_of
from signalbox.core.times import EPOCH, slot_end
from signalbox.semaphores import storage, sweep
from signalbox.semaphores.machine import decision_types, leases, wait_queue
from signalbox.semaphores.machine.decision_types import Loaded, Transition
from signalbox.semaphores.machine.lanes import STRIDE
from signalbox.semaphores.machine.leases import Claimed, EndLease
from signalbox.semaphores.machine.settings import resume
from signalbox.semaphores.model import semaphore
from signalbox.semaphores.model.known_head import KnownHead
from signalbox.semaphores.model.lanes import Lane, Mode, lane_id
from signalbox.semaphores.model.leases import EndedLease, Lease, LeaseRecord, lease_id, parse_lease_id
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.model.waiters import WAITING, WaitAnswer, Waiter
from signalbox.semaphores.problems import BadSemaphore, NoSemaphore
from signalbox.semaphores.requests import RenewRequest, WaitRequest
from signalbox.semaphores.storage import SemaphoreReads, change
from tests.expiry_policies import POLICIES, ExpiryPolicy
from tests.simulation.faults.fault import Fault, torn
from tests.simulation.faults.points import Replacement, always, original, planted
from tests.simulation.worlds.semaphores import lane_shares as semaphores_shares
from tests.simulation.worlds.semaphores import releases_by_grant as semaphores_granted
from tests.simulation.worlds.semaphores import waiting_acquires as semaphores_acquires
from tests.simulation.worlds.semaphores import waits_that_join_alone as semaphores_joining
from tests.simulation.worlds.semaphores import world as semaphores_world

writes_of_commit = original("semaphores.transition_writes")


def _without(clause: str, without: str, *replacements: Replacement) -> Fault:
    return Fault(clause, without, always(*replacements), semaphores_world.run)


def _racing(fault: Fault, racing: bool) -> Fault:
    """Look for a fault only where there is a race, or only where there is none: fewer seeds find it."""
    return replace(fault, run=partial(semaphores_world.run, racing=racing))


def _changing(fault: Fault) -> Fault:
    """Look for a fault only where the permits are lowered and raised."""
    return replace(fault, run=partial(semaphores_world.run, racing=False, changing=True))


def _steady(fault: Fault) -> Fault:
    """Look for a fault only where the permits change and nothing fails, so that every delay is the kit's own."""
    return replace(fault, run=partial(semaphores_world.run, racing=False, changing=True, steady=True))


def _recreated(fault: Fault) -> Fault:
    """Look for a fault only where the semaphore is deleted and created again."""
    return replace(fault, run=partial(semaphores_world.run, racing=False, recreated=True))


def _plain(fault: Fault) -> Fault:
    """Look for a fault only where no wait has a key or a priority: fewer seeds find it."""
    return replace(fault, run=partial(semaphores_world.run, laned=False))


def _laned(fault: Fault) -> Fault:
    """Look for a fault only where many waits have keys and priorities."""
    return replace(fault, run=partial(semaphores_world.run, racing=False, laned=True, many=True))


def _sharing(fault: Fault) -> Fault:
    """Look for a fault only where clients of several lanes wait again and again."""
    return replace(fault, run=semaphores_shares.run)


def _by_grant(fault: Fault) -> Fault:
    """Look for a fault only where grants are released that other deliveries hold."""
    return replace(fault, run=semaphores_granted.run)


def _joining(fault: Fault) -> Fault:
    """Look for a fault only where waits join alone while a signal frees several permits."""
    return replace(fault, run=semaphores_joining.run)


def _acquiring(fault: Fault) -> Fault:
    """Look for a fault only where requests wait for permits in the lines of their processes."""
    return replace(fault, run=semaphores_acquires.run)


def _doubting(fault: Fault) -> Fault:
    """Look for a fault only where leases are renewed and signalled that were signalled before."""
    return replace(fault, run=partial(semaphores_world.run, doubting=True))


def _late(fault: Fault) -> Fault:
    """Look for a fault only where commits of renewals come late, and their answers are lost."""
    return replace(fault, run=semaphores_world.run_late_renewals)


def _abandoned(fault: Fault) -> Fault:
    """Look for a fault only where weeks have passed since the tasks of some grants were lost."""
    return replace(fault, run=partial(semaphores_world.run, racing=False, abandoned=True))


# --- sem-1 ---


def _free_in_a_pause(semaphore: Semaphore, now: datetime) -> int:
    return semaphore.settings.permits - sum(lease.permits for lease in semaphore.leases if lease.is_live(now))


def _resumed_quietly(loaded: Loaded) -> Transition[Semaphore]:
    return replace(resume(loaded), nudge=False)


_RESUMED_QUIETLY = (
    ("semaphores.resume", _resumed_quietly),
    ("semaphores.Semaphore.has_room", lambda *_: False),
)


def _open_at_once(_: Mode, *, found: bool, remaining: bool) -> Mode:
    return "closed" if remaining or found else "open"


def _confirm_blindly(ports: Ports, name: str, waiter: Waiter) -> WaitAnswer:
    [snapshot] = ports.store.read(semaphore.path_of(name))
    ports.queue.create([decision_types.nudge_task(name, waiter.incarnation, snapshot.read_time)])
    return WAITING


def _admit_and_rest(loaded: Loaded) -> Transition[None]:
    return replace(admit_rule(loaded), nudge=False)


admit_rule = original("semaphores.admit in wait_queue")

# --- sem-2, sem-3 ---


def _slot_before_the_commit(moment: datetime, slot_seconds: float) -> datetime:
    return slot_end(moment - timedelta(seconds=0.25), slot_seconds)


def _admit_however_early(ports: Ports, name: str, _: datetime | None = None) -> None:
    admit(ports, name)


admit = original("semaphores.admit in tasks")


def _by_a_fast_clock(loaded: Loaded) -> datetime:
    return loaded.read_time + timedelta(seconds=3)


# --- sem-4 ---


def _run_unclaimed(_: Ports, given: Any) -> Lease:
    claim = given.record
    return Lease(given.semaphore, given.id, claim["token"], datetime.fromisoformat(claim["ends_at"]))


def _drop_lost_grants(loaded: Loaded, _: LeaseRecord | None, __: int) -> Transition[Claimed]:
    return Transition(loaded.semaphore, None)


def _back_to_the_end(path: str, waiter: Waiter) -> Change:
    requeued = requeue(path, waiter)
    return replace(requeued, fields={**requeued.fields, ("since",): SERVER_TIME})


requeue = original("semaphores.requeue")


def _under_the_same_token(semaphore: Semaphore, lease: LeaseRecord, now: datetime) -> tuple[Semaphore, LeaseRecord]:
    claimed = replace(lease, ends_at=now + timedelta(seconds=lease.seconds), claimed=True)
    held = tuple(claimed if (one.id, one.grant) == (lease.id, lease.grant) else one for one in semaphore.leases)
    return replace(semaphore, leases=held), claimed


# --- sem-5, sem-6, sem-7 ---


def _delete_on_grant(path: str, waiter: Waiter, now: datetime) -> Write:
    return Delete(path, waiter.version) if waiter.state == "granted" else leave(path, waiter, now)


def _leave_blindly(path: str, waiter: Waiter, now: datetime) -> Write:
    return replace(leave(path, waiter, now), guard=Must.EXIST)


leave = original("semaphores.leave")


def _no_receipt(path: str, waiter: Waiter, now: datetime, guard: Any) -> Write:
    put = put_waiter(path, waiter, now, guard)
    return put if waiter.state == "waiting" else Delete(path)


put_waiter = original("semaphores.put_waiter")


def _named_without_token(*parts: object) -> str:
    return name_of(*(parts[:3] + parts[4:] if parts[-1] == "continuation" else parts))


def _by_id_alone(semaphore: Semaphore, id_: str, _: int) -> LeaseRecord | None:
    return next((lease for lease in semaphore.leases if lease.id == id_), None)


def _cancel_only_waiters(_: Ports, __: str, ___: Waiter) -> bool:
    return True


# --- sem-5, a repeat ---


def _acquired_once_and_for_all(loaded: Loaded, request: WaitRequest) -> Transition[WaitAnswer]:
    if ended := loaded.semaphore.ended_lease(request.id):
        lease = Lease(loaded.name, lease_id(ended.id, ended.token), ended.token, ended.ends_at)
        return Transition(loaded.semaphore, WaitAnswer(lease))
    return acquire(loaded, request)


acquire = original("semaphores.acquire")


def _held_for_ever(loaded: Loaded, lease: LeaseRecord) -> WaitAnswer:
    return WaitAnswer(lease.held(loaded.name))


def _hopeful(_: Waiter, __: Semaphore) -> bool:
    return False


def _grant_to_any_waiter(loaded: Loaded, semaphore: Semaphore) -> wait_queue.Granted:
    with planted(("semaphores.is_hopeless", _hopeful)):
        return grant_waiters(loaded, semaphore)


grant_waiters = original("semaphores.grant_waiters in wait_queue")


def _refuse_unseen(_: Ports, __: str, request: WaitRequest) -> WaitAnswer:
    raise BadSemaphore(f"{request.permits} are too many", field="permits")


# --- sem-8 ---


def _alarm_named_without_its_time(name: str, incarnation: int, at: datetime) -> Effect:
    return replace(alarm_task(name, incarnation, at), name=name_of(name, incarnation, "alarm"))


alarm_task = original("semaphores.alarm_task")


def _armed_once(semaphore: Semaphore, now: datetime) -> Semaphore:
    kept = semaphore.alarm_at is not None and now < semaphore.alarm_at and semaphore.mode != "open"
    return semaphore if kept else with_alarm(semaphore, now)


with_alarm = original("semaphores.Semaphore.with_alarm")

# --- sem-9, sem-10 ---


def _tokens_by_counting(
    semaphore: Semaphore, id_: str, permits: int, seconds: float, now: datetime, *, claim_seconds: float | None
) -> tuple[Semaphore, LeaseRecord]:
    after, lease = grant(semaphore, id_, permits, seconds, now, claim_seconds=claim_seconds)
    token = max(semaphore.next_token, times.microseconds(EPOCH))
    counted = replace(lease, grant=token, token=token)
    return replace(after, leases=(*after.leases[:-1], counted), next_token=token + 1), counted


grant = original("semaphores.Semaphore.grant")


def _delete_blindly(path: str, _: Any) -> Delete:
    return Delete(path)


def _end_unsigned(semaphore: Semaphore, lease: LeaseRecord, _: str = "", **__: bool) -> Semaphore:
    return end(semaphore, lease)


end = original("semaphores.Semaphore.end")


def _remember_nothing(semaphore: Semaphore, _: Sequence[EndedLease]) -> Semaphore:
    return semaphore


def _released_when_seen(ports: Ports, name: str, command: EndLease, attempts_max: int) -> bool:
    reads = SemaphoreReads(name, partial(leases.end_reads, command=command))
    rule = partial(leases.end_lease, command=command)
    return change(ports, reads, rule, attempts_max=attempts_max).answer is not None


def _semaphore_first(loaded: Loaded, transition: Transition[Any]) -> tuple[Write, ...]:
    *others, semaphore = writes_of_commit(loaded, transition)
    return (semaphore, *others)


def _without_outbox(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    ports.queue.create(effects)
    return committed


def _ended_again(loaded: Loaded, command: EndLease) -> Transition[datetime | None]:
    return replace(end_lease(loaded, command), unreleased=())


end_lease = original("semaphores.end_lease")


def _renewed_after_all(*call: Any, **options: Any) -> Transition[leases.Renewal | None]:
    return replace(renew(*call, **options), unreleased=())


renew = original("semaphores.renew in leases")

# --- sem-13 ---


def _ordered_by_since(page: Sequence[Waiter], *, more: bool) -> tuple[Waiter, ...]:
    return tuple(page)


def _all_of_a_page(page: Sequence[Waiter], *, more: bool) -> tuple[Waiter, ...]:
    return head_of(page, more=False)


def _known_for_ever(loaded: Loaded, lease: LeaseRecord | None, grant: int) -> Transition[Claimed]:
    transition = claim_lost(loaded, lease, grant)
    return replace(transition, semaphore=replace(transition.semaphore, known=loaded.semaphore.known))


claim_lost = original("semaphores.claim_lost")


def _every_known_waiter(_: KnownHead, __: Waiter, ___: int) -> bool:
    return True


def _left_over(loaded: Loaded, semaphore: Semaphore, answer: datetime | None) -> Transition[datetime | None]:
    transition = grant_freed(loaded, semaphore, answer)
    return replace(transition, nudge=transition.nudge and transition.semaphore.mode == "opening")


grant_freed = original("semaphores.grant_freed")


def _delete_the_current_one(ports: Ports, name: str) -> None:
    incarnation = storage.load(ports, name).incarnation
    try:
        sweep.remove(ports, name, incarnation, Must.EXIST)
    except RecordMissing as conflict:
        raise NoSemaphore(name, field="name") from conflict


# --- faults that were planted from outside ---


def _raise_quietly(loaded: Loaded, settings: SemaphoreSettings) -> Transition[Semaphore]:
    return replace(change_settings(loaded, settings), nudge=False)


change_settings = original("semaphores.change_settings")


def _skip_the_head(
    semaphore: Semaphore, waiters: Iterable[Waiter], now: datetime, room_bytes: int, *, first: bool
) -> tuple[Semaphore, tuple[wait_queue.Grant, ...]]:
    grants: tuple[wait_queue.Grant, ...] = ()
    for waiter in waiters:
        semaphore, more = grant_in_order(semaphore, [waiter], now, room_bytes, first=first)
        grants += more
    return semaphore, grants


grant_in_order = original("semaphores.grant_in_order")


def _renewed_for_good(ports: Ports, name: str, request: RenewRequest) -> datetime | None:
    id_, token = parse_lease_id(request.lease)
    rule = partial(leases.renew, id_=id_, token=token, lease_seconds=request.lease_seconds)
    renewal = change(ports, SemaphoreReads(name), rule).answer
    return renewal.after.ends_at if renewal else None


# --- sem-12 ---


def _every_old_receipt(*_: Any) -> bool:
    return False


EXPIRING_RECEIPTS = POLICIES | {"waiters": ExpiryPolicy("expires_at", timedelta(0), "none")}


def _not_behind(loaded: Loaded, semaphore: Semaphore, answer: datetime | None) -> Transition[datetime | None]:
    """An admit run follows only if every waiter that was read is granted."""
    passed = grant_freed(loaded, semaphore, answer)
    left = {one.waiter.id for one in passed.waiters}
    blocked = any(waiter.id not in left for waiter in loaded.waiters)
    return replace(passed, nudge=passed.nudge and not blocked)


# --- lanes ---


def _any_lane_may_be_joined(loaded: Loaded, _: str) -> bool:
    return loaded.semaphore.mode == "closed"


def _a_lane_that_opens_may_be_joined(loaded: Loaded, lane: str) -> bool:
    listed = loaded.semaphore.lane(lane)
    return may_join(loaded, lane) or (listed is not None and listed.mode == "opening")


may_join = original("semaphores.may_join")


def _closed_without_its_lane(semaphore: Semaphore, _: str, now: datetime) -> Semaphore:
    return semaphore.moved_to("closed", now)


def _back_into_no_lane(loaded: Loaded, lease: LeaseRecord | None, grant: int) -> Transition[Claimed]:
    with planted(("semaphores.closed", _closed_without_its_lane)):
        return claim_lost(loaded, lease, grant)


def _before_the_others(_: Semaphore) -> int:
    return -10 * STRIDE


def _forgotten_when_empty(loaded: Loaded, lane: Lane, left: Collection[str]) -> Lane:
    after = after_read(loaded, lane, left)
    return after if after.mode == "closed" else replace(after, tag=0)


after_read = original("semaphores.lane_after_read")


def _pass_the_head_of_a_lane(
    semaphore: Semaphore, waiters: Iterable[Waiter], now: datetime, room_bytes: int, *, first: bool
) -> tuple[Semaphore, tuple[wait_queue.Grant, ...]]:
    grants: tuple[wait_queue.Grant, ...] = ()
    blocked: set[str] = set()
    for waiter in waiters:
        if waiter.lane not in blocked:
            semaphore, more = grant_in_order(semaphore, [waiter], now, room_bytes, first=first)
            grants += more
            blocked |= set() if more else {waiter.lane}
    return semaphore, grants


def _read_behind_a_head(loaded: Loaded, permits: int) -> Mapping[str, int]:
    return reads_needed(loaded, permits + 2)


reads_needed = original("semaphores.reads_needed")


def _always_its_own(_: Semaphore, key: str, priority: str) -> str:
    return lane_id(key, priority)


def _moved_at_once(_: Semaphore, after: Semaphore) -> Semaphore:
    return after


def _as_loaded(_: Loaded, lease: LeaseRecord, __: object) -> LeaseRecord:
    return lease


def _each_is_first(lines: Lines, key: Hashable, name: str, place: Event) -> bool:
    has_place = enter_line(lines, key, name, place)
    place.set()
    return has_place


def _not_passed_on(lines: Lines, key: Hashable, place: Event) -> None:
    line = lines._lines.get(key, [])
    if place in line:
        line.remove(place)
    if not line:
        lines._lines.pop(key, None)
        lines._paces.pop(key, None)


def _left_if_it_returns(lines: Lines, key: Hashable, place: Event) -> None:
    if sys.exc_info()[0] is None:
        leave_line(lines, key, place)


def _never_forgotten(lines: Lines, asker: Asker, *, comes_back: bool) -> None:
    if comes_back:
        remember(lines, asker, comes_back=True)


enter_line, leave_line = original("line.Lines.enter"), original("line.Lines.leave")
remember = original("line.Lines.remember")


FAULTS = (
    _racing(
        _without(
            "sem-1",
            "two steps to open",
            ("semaphores.mode_after in wait_queue", _open_at_once),
            ("semaphores.mode_after in leases", _open_at_once),
        ),
        True,
    ),
    _without("sem-1", "reading again after creating a waiter", ("semaphores.confirm", _confirm_blindly)),
    _without(
        "sem-1", "the next slot after a run that leaves work", ("semaphores.admit in wait_queue", _admit_and_rest)
    ),
    _without("sem-2", "the commit's time in a slot", ("semaphores.slot_end", _slot_before_the_commit)),
    _without("sem-2", "503 to an early run", ("semaphores.admit in tasks", _admit_however_early)),
    _without("sem-3", "the server's time", ("semaphores.Loaded.now", property(_by_a_fast_clock))),
    _without("sem-4", "the claim", ("semaphores.claim", _run_unclaimed)),
    _without("sem-4", "the way back into the wait queue", ("semaphores.claim_lost", _drop_lost_grants)),
    _by_grant(
        _without(
            "sem-4", "the next token of a grant that is released", ("semaphores.grant_may_continue", lambda *_: False)
        )
    ),
    _without("sem-4", "the old place in the wait queue", ("semaphores.requeue", _back_to_the_end)),
    _without("sem-4", "returning a grant whose task is lost", ("semaphores.return_to_queue", lambda *_: None)),
    _without("sem-4", "a new token for a second delivery", ("semaphores.Semaphore.claim", _under_the_same_token)),
    _racing(
        _without("sem-4", "taking a release from the first delivery", ("semaphores.take_over", lambda *_: ())),
        False,
    ),
    _without("sem-5", "the waiter's record after a grant", ("semaphores.leave", _delete_on_grant)),
    _without("sem-5", "the receipt of an immediate grant", ("semaphores.put_waiter", _no_receipt)),
    _without("sem-5", "the token in a task's name", ("semaphores.name_of", _named_without_token)),
    _without("sem-5", "remembering ended leases", ("semaphores.Semaphore.remember", _remember_nothing)),
    _without("sem-5", "the signal of a repeat's lease", ("semaphores.acquire", _acquired_once_and_for_all)),
    _without("sem-5", "the end of a repeat's lease", ("semaphores.answer_of", _held_for_ever)),
    _without("sem-5", "the left release of a repeat's lease", ("semaphores.read_release", lambda _: None)),
    _without("sem-6", "the token of a signal", ("semaphores.Semaphore.lease", _by_id_alone)),
    _plain(_without("sem-7", "the guard of a waiter that leaves", ("semaphores.leave", _leave_blindly))),
    _without(
        "sem-7", "ending the lease that a cancel finds granted", ("semaphores.cancel_granted", _cancel_only_waiters)
    ),
    _changing(_without("sem-7", "the end of a wait that can never be granted", ("semaphores.is_hopeless", _hopeful))),
    _changing(
        _without(
            "sem-7",
            "the end of such a wait that came later",
            ("semaphores.grant_waiters in wait_queue", _grant_to_any_waiter),
            ("semaphores.grant_waiters in leases", _grant_to_any_waiter),
        )
    ),
    _changing(_without("sem-7", "the record of a wait for too many permits", ("semaphores.repeated", _refuse_unseen))),
    _without("sem-8", "the alarm", ("semaphores.new_alarm", lambda *_: ())),
    _without("sem-8", "the end in an alarm's name", ("semaphores.alarm_task", _alarm_named_without_its_time)),
    _without("sem-8", "arming for an earlier end", ("semaphores.Semaphore.with_alarm", _armed_once)),
    _without("sem-8", "the sweeper", ("semaphores.sweep", lambda *_: 0)),
    _without("sem-9", "the time in tokens", ("semaphores.Semaphore.grant", _tokens_by_counting)),
    _recreated(_without("sem-9", "the guard of a waiter that is taken back", ("semaphores.Delete", _delete_blindly))),
    _racing(_without("sem-9", "the incarnation", ("semaphores.incarnation_of", lambda _: 0)), False),
    _recreated(
        _without("sem-9", "the incarnation that a DELETE has found", ("semaphores.delete", _delete_the_current_one))
    ),
    _without("sem-10", "the operation in an ended lease", ("semaphores.Semaphore.end", _end_unsigned)),
    _without("sem-10", "the commit's time in `released`", ("semaphores.end", _released_when_seen)),
    _doubting(
        _without(
            "sem-10", "the left release of a lease that is renewed", ("semaphores.renew in leases", _renewed_after_all)
        )
    ),
    _doubting(_without("sem-10", "the left release of a lease that is ended", ("semaphores.end_lease", _ended_again))),
    _without("sem-10", "the nudge for a release of another process", ("semaphores.nudge_again", lambda *_: None)),
    _without(
        "sem-11", "postponing a semaphore that a visit did not change", ("semaphores.postpone_sweep", lambda *_: None)
    ),
    _abandoned(_without("sem-12", "receipts without a time-to-live policy", ("expiry.POLICIES", EXPIRING_RECEIPTS))),
    _abandoned(
        _without("sem-12", "the receipt of a lease in the record", ("semaphores.is_needed", _every_old_receipt))
    ),
    _steady(
        _without(
            "sem-7",
            "waking the waiters behind a head that leaves",
            ("semaphores.departure_task", lambda *_: ()),
        )
    ),
    _joining(
        _without("sem-7", "the admit run behind a head that a signal leaves", ("semaphores.grant_freed", _not_behind))
    ),
    _late(_without("sem-10", "the end before a renewal that has landed", ("semaphores.lease_before", _as_loaded))),
    _steady(_without("sem-9", "waking waiters for more permits", ("semaphores.change_settings", _raise_quietly))),
    _changing(
        _without("sem-7", "the place of a head that wants several", ("semaphores.grant_in_order", _skip_the_head))
    ),
    _racing(_without("sem-10", "undoing a renewal that is late", ("semaphores.renew", _renewed_for_good)), False),
    _without("sem-13", "the order of create times", ("semaphores.head_of", _ordered_by_since)),
    _without("sem-13", "leaving out the end of a full page", ("semaphores.head_of", _all_of_a_page)),
    _without("sem-13", "forgetting the known head when a wait returns", ("semaphores.claim_lost", _known_for_ever)),
    _without("sem-13", "whether a known waiter still waits", ("semaphores.KnownHead.has", _every_known_waiter)),
    _joining(_without("sem-1", "the admit run for permits left over", ("semaphores.grant_freed", _left_over))),
    _laned(
        _without("lane-1", "reading again whether its lane is closed", ("semaphores.may_join", _any_lane_may_be_joined))
    ),
    _laned(_without("lane-1", "closing a lane that opens", ("semaphores.may_join", _a_lane_that_opens_may_be_joined))),
    _laned(_without("lane-2", "two steps to open a lane", ("semaphores.lane_mode_after", _open_at_once))),
    _laned(
        _without("lane-2", "closing the lane of a wait that returns", ("semaphores.claim_lost", _back_into_no_lane))
    ),
    _sharing(_without("lane-3", "the tag of a lane that joins", ("semaphores.joining_tag", _before_the_others))),
    _sharing(_without("lane-4", "the tag of an empty lane", ("semaphores.lane_after_read", _forgotten_when_empty))),
    _sharing(
        _without(
            "lane-5",
            "the turn of a head that wants several",
            ("semaphores.grant_in_order", _pass_the_head_of_a_lane),
            ("semaphores.reads_needed", _read_behind_a_head),
        )
    ),
    _sharing(
        _without(
            "lane-6",
            "the lane of a key that is given a weight",
            ("semaphores.with_weights_of", _moved_at_once),
        )
    ),
    _sharing(_without("lane-6", "the limit of lanes", ("semaphores.lane_of in waits", _always_its_own))),
    torn(
        _without(
            "sem-14", "the semaphore's record as the last write", ("semaphores.transition_writes", _semaphore_first)
        )
    ),
    _without("sem-12", "the clean-up of a deleted semaphore, again", ("semaphores.clean_again", lambda *_: None)),
    _without("sem-17", "no free permits in a pause", ("semaphores.Semaphore.free", _free_in_a_pause)),
    _without("sem-17", "the admit run of a resume, and the sweep", *_RESUMED_QUIETLY),
    _acquiring(_without("sem-18", "the turn of the first request in line", ("line.Lines.enter", _each_is_first))),
    _acquiring(_without("sem-18", "passing the first place on", ("line.Lines.leave", _not_passed_on))),
    _acquiring(_without("sem-18", "the place of a request that is ended", ("line.Lines.leave", _left_if_it_returns))),
    _acquiring(
        _without("sem-18", "forgetting a request that does not come back", ("line.Lines.remember", _never_forgotten))
    ),
    _acquiring(_without("sem-18", "what a request has already", ("semaphores.acquired_before", lambda *_: None))),
    _without("outbox", "the outbox", ("core.commit", _without_outbox)),
)
