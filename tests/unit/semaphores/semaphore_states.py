"""States of a semaphore with one permit, as its decisions load them.

A state is written ``MODE LEASE [b]``: the mode, the lease of the wait `a`, and `b` if this waiter is in the wait queue.
The lease is ``free`` (none), ``held`` (acquired without a continuation), ``granted`` (a continuation's, not claimed
yet) or ``claimed``; ``-late`` means that it has expired.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from signalbox.core.calls import Call
from signalbox.semaphores.machine.decision_types import Loaded, QueueReads, WaiterTransition
from signalbox.semaphores.model.leases import LeaseRecord
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.model.waiters import State, Waiter
from signalbox.semaphores.requests import WaitRequest

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOON, PAST = NOW + timedelta(seconds=10), NOW - timedelta(seconds=1)
INCARNATION = 7
TOKEN = 100
CALL = Call("philosophers", "eat", {"seat": 1})

LEASES = ("free", "held", "held-late", "granted", "granted-late", "claimed", "claimed-late")
MODES = ("open", "opening", "closed")
STATES = tuple(
    f"{mode} {lease}{waiters}"
    for mode in MODES
    for lease in LEASES
    for waiters in ("", " b")
    if not (mode == "open" and waiters)
)

Reads = Callable[[Loaded], QueueReads]


def lease_of_a(kind: str) -> tuple[LeaseRecord, ...]:
    if kind == "free":
        return ()
    kind, _, late = kind.partition("-")
    ends_at = PAST if late else SOON
    return (LeaseRecord("a", TOKEN, TOKEN, ends_at, 1, 60, continued=kind != "held", claimed=kind != "granted"),)


def waiter(id_: str, state: State = "waiting", **more: Any) -> Waiter:
    joined = NOW - timedelta(minutes=1)
    known: dict[str, Any] = {"incarnation": INCARNATION, "joined": joined, "since": joined, "version": joined} | more
    names = {each.name for each in fields(WaitRequest)}
    request = WaitRequest(id_, CALL, **{name: known.pop(name) for name in names & known.keys()})
    return Waiter(request, state=state, **known)


def loaded(state: str, reads: Reads | None = None, **more: Any) -> Loaded:
    """Return the loaded values of a state; of the wait queue, only the waiters that the command reads."""
    mode, lease, *waiting = state.split()
    semaphore = Semaphore(SemaphoreSettings(1, 60), leases=lease_of_a(lease), mode=mode, next_token=TOKEN + 1)  # type: ignore[arg-type]  # a mode from MODES
    before = Loaded("s", semaphore, INCARNATION, NOW, update_time=PAST, **more)
    wanted = reads(before) if reads else QueueReads()
    return replace(before, reads=wanted, waiters=tuple(waiter(id_) for id_ in waiting)[: wanted.waiters])


def with_settings(semaphore: Semaphore, **changes: Any) -> Semaphore:
    """Return a semaphore with some other settings."""
    return replace(semaphore, settings=replace(semaphore.settings, **changes))


def change_of(transition: WaiterTransition) -> str:
    """Return a waiter's transition in the words of the tables."""
    return transition.waiter.state if transition.kind == "left" else transition.kind
