"""The semaphores with one clause of their protocol left out; the simulation must notice each.

Some clauses cannot be broken alone, and no fault is planted for them:

    sem-1, an admit run for who finds permits free beside others
                                        who left these free has asked for one, which opens, or finds the waiter
    sem-8, an early alarm answers 503   is the same line of code as sem-2's early admit run
    sem-9, as many as are free          a run that leaves a head that fits asks for the next: slower, never wrong
    sem-9, a commit changes its record  who joins a closed wait queue is seen by the run that opens it, changed or not
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations import outbox
from shared.core.operations.ports import SERVER_TIME, Change, Committed, Delete, Must, Ports, RecordMissing, Write
from shared.core.rules import times
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.problems import BadSemaphore, NoSemaphore
from shared.core.rules.task_context import Lease
from shared.core.rules.times import EPOCH, slot_end
from shared.semaphores.operations import admission, leases, records, removal, semaphores, sweep, transitions, waits
from shared.semaphores.operations.transitions import SemaphoreReads, change
from shared.semaphores.rules import admission as admission_rules
from shared.semaphores.rules import lease_commands, tasks, upkeep, wait_commands, wait_queue
from shared.semaphores.rules import semaphores as rules
from shared.semaphores.rules import transitions as transition_rules
from shared.semaphores.rules.known_heads import KnownHead
from shared.semaphores.rules.lease_commands import Claimed, EndLease
from shared.semaphores.rules.leases import EndedLease, GrantedLease, LeaseRecord, lease_id, parse_lease_id
from shared.semaphores.rules.requests import RenewRequest, SemaphoreSettings, WaitRequest
from shared.semaphores.rules.semaphores import Semaphore
from shared.semaphores.rules.transitions import Loaded, Transition
from shared.semaphores.rules.wait_queue import head_of
from shared.semaphores.rules.waiters import WAITING, WaitAnswer, Waiter
from shared.testing.expiry_policies import POLICIES, ExpiryPolicy
from tests.simulation import expiry, semaphores_joining, semaphores_world
from tests.simulation.faults import Fault, torn

writes_of_commit = transitions._writes


def _without(clause: str, without: str, *patches: tuple[Any, str, Any]) -> Fault:
    def plant() -> AbstractContextManager[Any]:
        return _Planted([mock.patch.object(module, name, instead) for module, name, instead in patches])

    return Fault(clause, without, plant, semaphores_world.run)


def _racing(fault: Fault, racing: bool) -> Fault:
    """Look for a fault only where there is a race, or only where there is none: fewer seeds find it."""
    return replace(fault, run=partial(semaphores_world.run, racing=racing))


def _changing(fault: Fault) -> Fault:
    """Look for a fault only where the permits are lowered and raised."""
    return replace(fault, run=partial(semaphores_world.run, racing=False, changing=True))


def _steady(fault: Fault) -> Fault:
    """Look for a fault only where the permits change and nothing fails, so that every delay is the kit's own."""
    return replace(fault, run=partial(semaphores_world.run, racing=False, changing=True, steady=True))


def _reborn(fault: Fault) -> Fault:
    """Look for a fault only where the semaphore is deleted and created anew."""
    return replace(fault, run=partial(semaphores_world.run, racing=False, reborn=True))


def _joining(fault: Fault) -> Fault:
    """Look for a fault only where waits join alone while a signal frees several permits."""
    return replace(fault, run=semaphores_joining.run)


def _abandoned(fault: Fault) -> Fault:
    """Look for a fault only where weeks have passed since the tasks of some grants were lost."""
    return replace(fault, run=partial(semaphores_world.run, racing=False, abandoned=True))


class _Planted(AbstractContextManager[None]):
    def __init__(self, patches: Sequence[Any]) -> None:
        self._patches = patches

    def __enter__(self) -> None:
        for patch in self._patches:
            patch.start()

    def __exit__(self, *_: object) -> None:
        for patch in self._patches:
            patch.stop()


# --- sem-1 ---


def _open_at_once(_: rules.Mode, *, found: bool, remaining: bool) -> rules.Mode:
    return "closed" if remaining or found else "open"


def _confirm_blindly(ports: Ports, name: str, waiter: Waiter) -> WaitAnswer:
    [snapshot] = ports.store.read(rules.path_of(name))
    ports.queue.create([tasks.nudge_task(name, waiter.incarnation, snapshot.read_time)])
    return WAITING


def _admit_and_rest(loaded: Loaded) -> Transition[None]:
    return replace(admit_rule(loaded), nudge=False)


admit_rule = admission_rules.admit

# --- sem-2, sem-3 ---


def _slot_before_the_commit(moment: datetime, slot_seconds: float) -> datetime:
    return slot_end(moment - timedelta(seconds=0.25), slot_seconds)


def _admit_however_early(ports: Ports, name: str, _: datetime | None = None) -> None:
    admit(ports, name)


admit = admission.admit


def _by_a_fast_clock(loaded: Loaded) -> datetime:
    return loaded.read_time + timedelta(seconds=3)


# --- sem-4 ---


def _run_unclaimed(_: Ports, given: Any) -> Lease:
    return Lease(given["semaphore"], given["id"], given["token"], datetime.fromisoformat(given["ends_at"]))


def _drop_what_was_lost(loaded: Loaded, _: LeaseRecord | None, __: int) -> Transition[Claimed]:
    return Transition(loaded.semaphore, None)


def _back_to_the_end(path: str, waiter: Waiter) -> Change:
    requeued = requeue(path, waiter)
    return replace(requeued, fields={**requeued.fields, ("since",): SERVER_TIME})


requeue = records.requeue


def _under_the_same_token(semaphore: Semaphore, lease: LeaseRecord, now: datetime) -> tuple[Semaphore, LeaseRecord]:
    claimed = replace(lease, ends_at=now + timedelta(seconds=lease.seconds), claimed=True)
    held = tuple(claimed if (one.id, one.grant) == (lease.id, lease.grant) else one for one in semaphore.leases)
    return replace(semaphore, leases=held), claimed


# --- sem-5, sem-6, sem-7 ---


def _delete_on_grant(path: str, waiter: Waiter, now: datetime) -> Write:
    return Delete(path, waiter.version) if waiter.state == "granted" else leave(path, waiter, now)


def _leave_blindly(path: str, waiter: Waiter, now: datetime) -> Write:
    return replace(leave(path, waiter, now), guard=Must.EXIST)


leave = records.leave


def _no_receipt(path: str, waiter: Waiter, now: datetime, guard: Any) -> Write:
    put = put_waiter(path, waiter, now, guard)
    return put if waiter.state == "waiting" else Delete(path)


put_waiter = records.put_waiter


def _named_without_token(*parts: object) -> str:
    return name_of(*(parts[:3] + parts[4:] if parts[-1] == "continuation" else parts))


def _by_id_alone(semaphore: Semaphore, id_: str, _: int) -> LeaseRecord | None:
    return next((lease for lease in semaphore.leases if lease.id == id_), None)


def _cancel_only_who_waits(_: Ports, __: str, ___: Waiter) -> bool:
    return True


# --- sem-5, a repeat ---


def _acquired_once_and_for_all(loaded: Loaded, request: WaitRequest) -> Transition[WaitAnswer]:
    if ended := loaded.semaphore.ended_lease(request.id):
        lease = GrantedLease(lease_id(ended.id, ended.token), ended.token, ended.ends_at)
        return Transition(loaded.semaphore, WaitAnswer(lease))
    return acquire(loaded, request)


acquire = wait_commands.acquire


def _held_for_ever(_: Loaded, lease: LeaseRecord) -> WaitAnswer:
    return WaitAnswer(lease.granted())


def _hopeful(_: Waiter, __: Semaphore) -> bool:
    return False


def _grant_to_whoever_waits(loaded: Loaded, semaphore: Semaphore) -> wait_queue.Granted:
    with mock.patch.object(wait_queue, "is_hopeless", _hopeful):
        return grant_waiters(loaded, semaphore)


grant_waiters = wait_queue.grant_waiters


def _refuse_unseen(_: Ports, __: str, request: WaitRequest) -> WaitAnswer:
    raise BadSemaphore(f"{request.permits} are too many", field="permits")


# --- sem-8 ---


def _alarm_named_without_its_time(name: str, incarnation: int, at: datetime) -> Effect:
    return replace(alarm_task(name, incarnation, at), name=name_of(name, incarnation, "alarm"))


alarm_task = tasks.alarm_task


def _armed_once(semaphore: Semaphore, now: datetime) -> Semaphore:
    kept = semaphore.alarm_at is not None and now < semaphore.alarm_at and semaphore.mode != "open"
    return semaphore if kept else with_alarm(semaphore, now)


with_alarm = Semaphore.with_alarm

# --- sem-9, sem-10 ---


def _tokens_by_counting(
    semaphore: Semaphore, id_: str, permits: int, seconds: float, now: datetime, *, claim_seconds: float | None
) -> tuple[Semaphore, LeaseRecord]:
    after, lease = grant(semaphore, id_, permits, seconds, now, claim_seconds=claim_seconds)
    token = max(semaphore.next_token, times.microseconds(EPOCH))
    counted = replace(lease, grant=token, token=token)
    return replace(after, leases=(*after.leases[:-1], counted), next_token=token + 1), counted


grant = Semaphore.grant


def _delete_blindly(path: str, _: Any) -> Delete:
    return Delete(path)


def _end_unsigned(semaphore: Semaphore, lease: LeaseRecord, _: str = "", **__: bool) -> Semaphore:
    return end(semaphore, lease)


end = Semaphore.end


def _remember_nothing(semaphore: Semaphore, _: Sequence[EndedLease]) -> Semaphore:
    return semaphore


def _released_when_seen(ports: Ports, name: str, command: EndLease, attempts_max: int) -> bool:
    reads = SemaphoreReads(name, partial(lease_commands.end_reads, command=command))
    rule = partial(lease_commands.end_lease, command=command)
    return change(ports, reads, rule, attempts_max=attempts_max).answer is not None


def _semaphore_first(loaded: Loaded, transition: Transition[Any]) -> tuple[Write, ...]:
    *others, semaphore = writes_of_commit(loaded, transition)
    return (semaphore, *others)


def _without_outbox(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    ports.queue.create(effects)
    return committed


# --- sem-13 ---


def _ordered_by_since(page: Sequence[Waiter], *, more: bool) -> tuple[Waiter, ...]:
    return tuple(page)


def _all_of_a_page(page: Sequence[Waiter], *, more: bool) -> tuple[Waiter, ...]:
    return head_of(page, more=False)


def _known_for_ever(loaded: Loaded, lease: LeaseRecord | None, grant: int) -> Transition[Claimed]:
    transition = claim_lost(loaded, lease, grant)
    return replace(transition, semaphore=replace(transition.semaphore, known=loaded.semaphore.known))


claim_lost = lease_commands.claim_lost


def _whoever_was_known(_: KnownHead, __: Waiter, ___: int) -> bool:
    return True


def _left_over(loaded: Loaded, semaphore: Semaphore, answer: datetime | None) -> Transition[datetime | None]:
    transition = passed_on(loaded, semaphore, answer)
    return replace(transition, nudge=transition.nudge and transition.semaphore.mode == "opening")


passed_on = lease_commands._passed_on


def _delete_what_is_there(ports: Ports, name: str) -> None:
    incarnation = transitions.load(ports, name).incarnation
    try:
        removal.remove(ports, name, incarnation, Must.EXIST)
    except RecordMissing as conflict:
        raise NoSemaphore(name, field="name") from conflict


# --- faults that were planted from outside ---


def _raise_quietly(loaded: Loaded, settings: SemaphoreSettings) -> Transition[Semaphore]:
    return replace(change_settings(loaded, settings), nudge=False)


change_settings = upkeep.change_settings


def _skip_the_head(
    semaphore: Semaphore, waiters: Iterable[Waiter], now: datetime, room_bytes: int, *, first: bool
) -> tuple[Semaphore, tuple[wait_queue.Grant, ...]]:
    grants: tuple[wait_queue.Grant, ...] = ()
    for waiter in waiters:
        semaphore, more = grant_in_order(semaphore, [waiter], now, room_bytes, first=first)
        grants += more
    return semaphore, grants


grant_in_order = wait_queue._grant_in_order


def _renewed_for_good(ports: Ports, name: str, request: RenewRequest) -> datetime | None:
    id_, token = parse_lease_id(request.lease)
    rule = partial(lease_commands.renew, id_=id_, token=token, lease_seconds=request.lease_seconds)
    renewal = change(ports, SemaphoreReads(name), rule).answer
    return renewal.after.ends_at if renewal else None


# --- sem-12 ---


def _whatever_is_old(*_: Any) -> bool:
    return False


EXPIRING_RECEIPTS = POLICIES | {"waiters": ExpiryPolicy("expires_at", timedelta(0), "none")}


FAULTS = (
    _racing(
        _without(
            "sem-1",
            "two steps to open",
            *((module, "mode_after", _open_at_once) for module in (admission_rules, lease_commands)),
        ),
        True,
    ),
    _without("sem-1", "reading again after creating a waiter", (waits, "confirm", _confirm_blindly)),
    _without("sem-1", "the next slot after a run that leaves work", (admission_rules, "admit", _admit_and_rest)),
    _without("sem-2", "the commit's time in a slot", (tasks, "slot_end", _slot_before_the_commit)),
    _without("sem-2", "503 to what comes early", (admission, "admit", _admit_however_early)),
    _without("sem-3", "the server's time", (Loaded, "now", property(_by_a_fast_clock))),
    _without("sem-4", "the claim", (semaphores, "claim", _run_unclaimed)),
    _without("sem-4", "the way back into the wait queue", (lease_commands, "claim_lost", _drop_what_was_lost)),
    _without("sem-4", "the old place in the wait queue", (records, "requeue", _back_to_the_end)),
    _without("sem-4", "a new token for a second delivery", (Semaphore, "claim", _under_the_same_token)),
    _racing(
        _without("sem-4", "taking a release from the first delivery", (lease_commands, "take_over", lambda *_: ())),
        False,
    ),
    _without("sem-5", "the waiter's record after a grant", (records, "leave", _delete_on_grant)),
    _without("sem-5", "the receipt of an immediate grant", (records, "put_waiter", _no_receipt)),
    _without("sem-5", "the token in a task's name", (tasks, "name_of", _named_without_token)),
    _without("sem-5", "remembering ended leases", (Semaphore, "remember", _remember_nothing)),
    _without("sem-5", "the signal of a repeat's lease", (wait_commands, "acquire", _acquired_once_and_for_all)),
    _without("sem-5", "the end of a repeat's lease", (wait_commands, "answer_of", _held_for_ever)),
    _without("sem-5", "the release beside a repeat's lease", (transitions, "read_release", lambda _: None)),
    _without("sem-6", "the token of a signal", (Semaphore, "lease", _by_id_alone)),
    _without("sem-7", "the guard of a waiter that leaves", (records, "leave", _leave_blindly)),
    _without(
        "sem-7", "ending the lease that a cancel finds granted", (leases, "_cancel_granted", _cancel_only_who_waits)
    ),
    _changing(_without("sem-7", "the end of a wait that can never be granted", (wait_queue, "is_hopeless", _hopeful))),
    _changing(
        _without(
            "sem-7",
            "the end of such a wait that came later",
            *((module, "grant_waiters", _grant_to_whoever_waits) for module in (admission_rules, lease_commands)),
        )
    ),
    _changing(_without("sem-7", "the record of a wait for too many permits", (waits, "repeated", _refuse_unseen))),
    _without("sem-8", "the alarm", (transition_rules, "new_alarm", lambda *_: ())),
    _without("sem-8", "the end in an alarm's name", (transition_rules, "alarm_task", _alarm_named_without_its_time)),
    _without("sem-8", "arming for an earlier end", (Semaphore, "with_alarm", _armed_once)),
    _without("sem-8", "the sweeper", (semaphores, "sweep", lambda *_: 0)),
    _without("sem-9", "the time in tokens", (Semaphore, "grant", _tokens_by_counting)),
    _reborn(_without("sem-9", "the guard of a waiter that is taken back", (waits, "Delete", _delete_blindly))),
    _racing(_without("sem-9", "the incarnation", (transitions, "incarnation_of", lambda _: 0)), False),
    _reborn(_without("sem-9", "the life that a DELETE has found", (semaphores, "delete", _delete_what_is_there))),
    _without("sem-10", "the operation in what it ended", (Semaphore, "end", _end_unsigned)),
    _without("sem-10", "the commit's time in `released`", (leases, "end", _released_when_seen)),
    _without("sem-11", "postponing what a visit leaves as it was", (sweep, "_postpone", lambda *_: None)),
    _abandoned(_without("sem-12", "receipts without a time-to-live policy", (expiry, "POLICIES", EXPIRING_RECEIPTS))),
    _abandoned(_without("sem-12", "the receipt of a lease in the record", (upkeep, "_is_needed", _whatever_is_old))),
    _steady(
        _without(
            "sem-7",
            "waking who is behind a head that leaves",
            *((module, "wake_behind", lambda *_: None) for module in (leases, waits)),
        )
    ),
    _steady(_without("sem-9", "waking waiters for more permits", (upkeep, "change_settings", _raise_quietly))),
    _changing(
        _without("sem-7", "the place of a head that wants several", (wait_queue, "_grant_in_order", _skip_the_head))
    ),
    _racing(_without("sem-10", "undoing a renewal that is late", (semaphores, "renew", _renewed_for_good)), False),
    _without("sem-13", "the order of create times", (records, "head_of", _ordered_by_since)),
    _without("sem-13", "what is left out of a full page", (records, "head_of", _all_of_a_page)),
    _without("sem-13", "the end of what is known with a return", (lease_commands, "claim_lost", _known_for_ever)),
    _without("sem-13", "whether who is known still waits", (KnownHead, "has", _whoever_was_known)),
    _joining(_without("sem-1", "the admit run for permits left over", (lease_commands, "_passed_on", _left_over))),
    torn(_without("sem-14", "the semaphore's record as the last write", (transitions, "_writes", _semaphore_first))),
    _without("outbox", "the outbox", (outbox, "commit", _without_outbox)),
)
