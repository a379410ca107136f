"""A wake-up: a task that runs a mailbox. It carries no message, since messages are records.

All posts of one time slot share one wake-up, and the slot must be that of the post's commit: a slot chosen before the
commit may be over when the message lands, its name taken by a task that has run already, and the message would sleep.
So a wake-up is committed without a name. Whoever hands it over completes it from the commit's time, which the outbox
record has as its create time: the sweeper gives it the same name.

A wake-up for later is named after its time. Where the queue cannot look so far ahead, it is due as late as possible and
wakes again: `until` says for when.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadTaskEnvelope
from shared.core.rules.times import microseconds, rfc3339, slot_end

TASK = "turn"
PATH = "/turns"


@dataclass(frozen=True, slots=True)
class WakeUp:
    """A wake-up as it arrives: the run of `mailbox` must read at `at` or later, and `until` is what it is armed for."""

    mailbox: str
    at: datetime
    until: datetime

    @classmethod
    def from_payload(cls, payload: Any) -> Self:
        """Parse the payload of a wake-up task. Raises `BadTaskEnvelope`."""
        try:
            times = datetime.fromisoformat(payload["at"]), datetime.fromisoformat(payload["until"])
            return cls(str(payload["mailbox"]), *times)
        except (KeyError, TypeError, ValueError) as error:
            raise BadTaskEnvelope("A wake-up has a mailbox and two times.") from error


def wake_up(mailbox: str, function: str, queue: str, until: datetime | None = None) -> Effect:
    """Return the wake-up of a mailbox, whose code `function` has: at `until`, or soon after its commit."""
    return Effect(f"wake {mailbox}", queue, function, TASK, {"mailbox": mailbox}, PATH, not_before=until, wakes=True)


def completed(effects: Iterable[Effect], committed_at: datetime) -> tuple[Effect, ...]:
    """Return the effects of a commit with the names and the times of the wake-ups among them."""
    return tuple(_completed(effect, committed_at) if effect.wakes else effect for effect in effects)


def _completed(effect: Effect, committed_at: datetime) -> Effect:
    furthest = committed_at + timedelta(seconds=LIMITS.delay_seconds_max)
    until = effect.not_before or slot_end(committed_at, LIMITS.wake_up_slot_seconds)
    at = min(until, furthest)
    payload = {**effect.payload, "at": rfc3339(at), "until": rfc3339(until)}
    due = at + timedelta(seconds=LIMITS.wake_up_margin_seconds)
    return replace(effect, name=name_of(effect.name, microseconds(at)), payload=payload, not_before=due, wakes=False)
