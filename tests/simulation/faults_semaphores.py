"""The semaphores with one clause of their protocol left out; the simulation must notice each.

Some clauses cannot be broken alone, and no fault is planted for them:

    sem-8, an early alarm answers 503   is the same line of code as sem-2's early admit run
    sem-9, as many as are free          a run that leaves a head that fits asks for the next: slower, never wrong
    sem-9, a commit changes its record  whoever joins a closed line is seen by the run that opens it, changed or not
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations import outbox
from shared.core.operations.ports import SERVER_TIME, Change, Committed, Delete, Must, Ports, Snapshot, Write
from shared.core.rules import times
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.task_context import Lease
from shared.core.rules.times import EPOCH
from shared.semaphores.operations import (
    admission as semaphore_admission,
)
from shared.semaphores.operations import (
    changes as semaphore_changes,
)
from shared.semaphores.operations import (
    claims as semaphore_claims,
)
from shared.semaphores.operations import (
    endings as semaphore_endings,
)
from shared.semaphores.operations import (
    leases as semaphore_leases,
)
from shared.semaphores.operations import (
    semaphores,
)
from shared.semaphores.operations import (
    waits as semaphore_waits,
)
from shared.semaphores.operations.changes import Seen, Step
from shared.semaphores.rules import semaphores as rules
from shared.semaphores.rules import wait_queue as line
from shared.semaphores.rules.leases import Ended, Held
from shared.semaphores.rules.semaphores import Semaphore
from shared.semaphores.rules.wait_queue import Waiter
from tests.simulation import semaphores_world
from tests.simulation.faults import Fault


def _without(clause: str, without: str, *patches: tuple[Any, str, Any]) -> Fault:
    def plant() -> AbstractContextManager[Any]:
        return _Planted([mock.patch.object(module, name, instead) for module, name, instead in patches])

    return Fault(clause, without, plant, semaphores_world.run)


def _racing(fault: Fault, racing: bool) -> Fault:
    """Look for a fault only where there is a race, or only where there is none: fewer seeds find it."""
    return replace(fault, run=partial(semaphores_world.run, racing=racing))


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


def _open_at_once(_: rules.Mode, *, found: bool, left: bool) -> rules.Mode:
    return "closed" if left or found else "open"


def _confirm_blindly(ports: Ports, name: str, waiter: Waiter) -> dict[str, Any]:
    [snapshot] = ports.store.read(rules.path_of(name))
    semaphore_changes.nudge(ports, name, waiter.incarnation, snapshot.read_time)
    return semaphore_waits.WAITING


def _admit_and_rest(seen: Seen) -> Step[None]:
    return replace(admitted(seen), nudge=False)


admitted = semaphore_admission.admitted

# --- sem-2, sem-3 ---


def _slot_before_the_commit(moment: datetime) -> datetime:
    return slot_end(moment - timedelta(seconds=0.25))


slot_end = semaphore_changes.slot_end


def _admit_however_early(ports: Ports, name: str, _: datetime | None = None) -> None:
    admit(ports, name)


admit = semaphore_admission.admit


def _by_a_fast_clock(seen: Seen) -> datetime:
    return seen.snapshot.read_time + timedelta(seconds=3)


# --- sem-4 ---


def _run_unclaimed(_: Ports, given: Any) -> Lease:
    return Lease(given["semaphore"], given["id"], given["token"], datetime.fromisoformat(given["ends_at"]))


def _drop_what_was_lost(seen: Seen, _: Held | None, __: int) -> Step[Held | bool | None]:
    return Step(seen.semaphore, None)


def _back_to_the_end(snapshot: Snapshot, waiter: Waiter) -> Change:
    change = back(snapshot, waiter)
    return replace(change, fields={**change.fields, ("since",): SERVER_TIME})


back = semaphore_claims._back


def _under_the_same_token(semaphore: Semaphore, held: Held, now: datetime) -> tuple[Semaphore, Held]:
    return claim(semaphore, replace(held, claimed=False) if held in semaphore.leases else held, now)


def claim(semaphore: Semaphore, held: Held, now: datetime) -> tuple[Semaphore, Held]:
    claimed = replace(held, ends_at=now + timedelta(seconds=held.seconds), claimed=True)
    leases = tuple(claimed if (one.id, one.grant) == (held.id, held.grant) else one for one in semaphore.leases)
    return replace(semaphore, leases=leases), claimed


# --- sem-5, sem-6, sem-7 ---


def _delete_on_grant(snapshot: Snapshot, state: Any, now: datetime, **more: Any) -> Write:
    return Delete(snapshot.path, snapshot.guard) if state == "granted" else leave(snapshot, state, now, **more)


def _leave_blindly(snapshot: Snapshot, state: Any, now: datetime, **more: Any) -> Write:
    return replace(leave(snapshot, state, now, **more), guard=Must.EXIST)


leave = semaphore_waits.leave


def _no_receipt(name: str, waiter: Waiter, now: datetime, guard: Any) -> Write:
    put = put_waiter(name, waiter, now, guard)
    return put if waiter.state == "waiting" else Delete(put.path)


put_waiter = semaphore_waits.put_waiter


def _named_without_token(*parts: object) -> str:
    return name_of(*(parts[:3] + parts[4:] if parts[-1] == "continuation" else parts))


def _by_id_alone(semaphore: Semaphore, id_: str, _: int) -> Held | None:
    return next((lease for lease in semaphore.leases if lease.id == id_), None)


def _cancel_only_who_waits(_: Ports, __: str, ___: Waiter) -> bool:
    return True


# --- sem-8 ---


def _alarm_named_without_its_time(name: str, incarnation: int, at: datetime) -> Effect:
    return replace(alarm(name, incarnation, at), name=name_of(name, incarnation, "alarm"))


alarm = semaphore_changes.alarm


def _armed_once(semaphore: Semaphore, now: datetime) -> Semaphore:
    kept = semaphore.alarm_at is not None and now < semaphore.alarm_at and semaphore.mode != "open"
    return semaphore if kept else armed(semaphore, now)


armed = Semaphore.armed

# --- sem-9, sem-10 ---


def _tokens_by_counting(
    semaphore: Semaphore, id_: str, permits: int, seconds: float, now: datetime, *, claim_seconds: float | None
) -> tuple[Semaphore, Held]:
    return grant(semaphore, id_, permits, seconds, EPOCH, now, claim_seconds)


def grant(
    semaphore: Semaphore,
    id_: str,
    permits: int,
    seconds: float,
    past: datetime,
    now: datetime,
    claim_seconds: float | None,
) -> tuple[Semaphore, Held]:
    after, held = _grant(semaphore, id_, permits, seconds, now, claim_seconds=claim_seconds)
    token = max(semaphore.next_token, times.microseconds(past))
    counted = replace(held, grant=token, token=token)
    return replace(after, leases=(*after.leases[:-1], counted), next_token=token + 1), counted


_grant = Semaphore.grant


def _end_unsigned(semaphore: Semaphore, held: Held, _: str = "", **__: bool) -> Semaphore:
    return end(semaphore, held)


end = Semaphore.end


def _remember_nothing(semaphore: Semaphore, _: Sequence[Ended]) -> Semaphore:
    return semaphore


def _released_when_seen(ports: Ports, name: str, ending: Any, rounds: int) -> bool:
    done = semaphore_changes.change(
        ports,
        name,
        lambda seen: semaphore_endings._end(seen, ending),
        looks=lambda seen: semaphore_endings._line_for(seen, ending),
        rounds=rounds,
    )
    return done.answer is not None


def _without_outbox(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    ports.queue.create(effects)
    return committed


A, W, C = semaphore_admission, semaphore_waits, semaphore_changes
E, K, L = semaphore_endings, semaphore_claims, semaphore_leases

FAULTS = (
    _racing(
        _without("sem-1", "two steps to open", (A, "reopened", _open_at_once), (E, "reopened", _open_at_once)), True
    ),
    _without("sem-1", "reading again after creating a waiter", (W, "confirm", _confirm_blindly)),
    _without("sem-1", "the next slot after a run that leaves work", (A, "admitted", _admit_and_rest)),
    _without("sem-2", "the commit's time in a slot", (C, "slot_end", _slot_before_the_commit)),
    _without("sem-2", "503 to what comes early", (A, "admit", _admit_however_early)),
    _without("sem-3", "the server's time", (Seen, "now", property(_by_a_fast_clock))),
    _without("sem-4", "the claim", (semaphores, "claim", _run_unclaimed)),
    _without("sem-4", "the way back into the line", (K, "_lost", _drop_what_was_lost)),
    _without("sem-4", "the old place in the line", (K, "_back", _back_to_the_end)),
    _without("sem-4", "a new token for a second delivery", (Semaphore, "claim", _under_the_same_token)),
    _racing(_without("sem-4", "taking a release from the first delivery", (K, "_taken_over", lambda *_: ())), False),
    _without("sem-5", "the waiter's record after a grant", (E, "leave", _delete_on_grant)),
    _without("sem-5", "the receipt of a fast grant", (W, "put_waiter", _no_receipt)),
    _without("sem-5", "the token in a task's name", (line, "name_of", _named_without_token)),
    _without("sem-5", "remembering ended leases", (Semaphore, "remember", _remember_nothing)),
    _without("sem-6", "the token of a signal", (Semaphore, "lease", _by_id_alone)),
    _without("sem-7", "the guard of who leaves the line", *((each, "leave", _leave_blindly) for each in (E, K, L, W))),
    _without("sem-7", "signalling what a cancel finds granted", (L, "_cancel_granted", _cancel_only_who_waits)),
    _without("sem-8", "the alarm", (C, "_new_alarm", lambda *_: ())),
    _without("sem-8", "the end in an alarm's name", (C, "alarm", _alarm_named_without_its_time)),
    _without("sem-8", "arming for an earlier end", (Semaphore, "armed", _armed_once)),
    _without("sem-8", "the sweeper", (semaphores, "sweep", lambda _: 0)),
    _without("sem-9", "the time in tokens", (Semaphore, "grant", _tokens_by_counting)),
    _racing(_without("sem-9", "the incarnation", (C, "incarnation_of", lambda _: 0)), False),
    _without("sem-10", "the operation in what it ended", (Semaphore, "end", _end_unsigned)),
    _without("sem-10", "the commit's time in `released`", (E, "end", _released_when_seen)),
    _without("outbox", "the outbox", (outbox, "commit", _without_outbox)),
)
