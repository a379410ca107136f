"""The line before a semaphore: waits with a continuation, in the order of the server's commit times.

A waiter's record has the field `since` for as long as it is in the line, and only then: a query ordered by it finds the
line and nothing else. The record stays afterwards as a receipt: a wait that is delivered again is answered what it was
answered before. `joined` keeps the place, for a grant that was lost to find it again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.semaphores.rules.leases import Held
from shared.semaphores.rules.semaphores import Semaphore, path_of

State = Literal["waiting", "granted", "lost", "cancelled", "timed_out"]


@dataclass(frozen=True, slots=True)
class Waiter:
    """A wait with its continuation. `grant` is the token of its last grant; `answer` what its caller was told.

    `incarnation` is the create time of the semaphore it waits for, in microseconds: a new semaphore of the same name
    owes it nothing.
    """

    id: str
    incarnation: int
    continuation: Call
    permits: int = 1
    lease_seconds: float | None = None
    release_on_return: bool = False
    on_timeout: Call | None = None
    deadline_at: datetime | None = None
    state: State = "waiting"
    grant: int | None = None
    answer: Mapping[str, Any] | None = None
    joined: datetime | None = None

    def record(self) -> dict[str, Any]:
        """Give the fields of its record, but for its times in the line."""
        names = ("incarnation", "permits", "lease_seconds", "release_on_return", "deadline_at", "state", "grant")
        calls = {name: None if (call := getattr(self, name)) is None else call.to_record() for name in _CALLS}
        return {name: getattr(self, name) for name in names} | calls | {"answer": self.answer}

    @classmethod
    def of(cls, id_: str, data: Mapping[str, Any]) -> Self:
        """Read a record."""
        fields = {name: value for name, value in data.items() if name not in ("since", "expires_at")}
        calls = {name: Call.from_record(data[name]) for name in _CALLS if data.get(name)}
        return cls(id=id_, **(fields | calls))

    def late(self, now: datetime) -> bool:
        """Tell whether its deadline is over."""
        return self.deadline_at is not None and now >= self.deadline_at


_CALLS = ("continuation", "on_timeout")


@dataclass(frozen=True, slots=True)
class Grant:
    """A waiter that got its permits."""

    waiter: Waiter
    held: Held


def grant(semaphore: Semaphore, waiter: Waiter, now: datetime) -> tuple[Semaphore, Grant]:
    """Give a waiter its permits, to be claimed by its continuation soon after that is due."""
    seconds = waiter.lease_seconds or semaphore.lease_seconds
    claim_seconds = LIMITS.claim_seconds + waiter.continuation.delay_seconds
    after, held = semaphore.grant(waiter.id, waiter.permits, seconds, now, claim_seconds=claim_seconds)
    return after, Grant(replace(waiter, state="granted", grant=held.grant), held)


def pass_on(semaphore: Semaphore, line: Sequence[Waiter], now: datetime) -> tuple[Semaphore, tuple[Grant, ...]]:
    """Grant from the head of the line for as long as the permits last; nobody passes a head that wants many."""
    grants: list[Grant] = []
    size_bytes = 0
    for waiter in line:
        size_bytes += len(waiter.continuation.to_record()["payload"])
        if waiter.permits > semaphore.free(now) or (grants and size_bytes > LIMITS.grant_bytes_max):
            break
        semaphore, granted = grant(semaphore, waiter, now)
        grants.append(granted)
    return semaphore, tuple(grants)


def continuation(name: str, granted: Grant, now: datetime) -> Effect:
    """Ask for the continuation of a grant, under a name of its own for each grant."""
    waiter, held = granted.waiter, granted.held
    task = name_of(path_of(name), waiter.incarnation, waiter.id, held.grant, "continuation")
    lease = {"semaphore": name} | held.shown()
    if waiter.release_on_return:
        lease["release_on_return"] = True
    return waiter.continuation.effect(task, now, lease=lease)


def timeout(name: str, waiter: Waiter, now: datetime) -> tuple[Effect, ...]:
    """Ask for what a waiter wants done when its deadline is over."""
    if waiter.on_timeout is None:
        return ()
    task = name_of(path_of(name), waiter.incarnation, waiter.id, waiter.grant, "timeout")
    return (waiter.on_timeout.effect(task, now),)


def deadline_after(now: datetime, seconds: float | None) -> datetime | None:
    """Say when a deadline is over; None: never."""
    return None if seconds is None else now + timedelta(seconds=seconds)
