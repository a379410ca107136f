"""Wake-ups: tasks that run a mailbox, whose names and times follow from the time of their commit.

A wake-up contains no message, since messages are records. All messages posted in one time slot share one wake-up, and
the slot must be that of the post's commit. A slot chosen before the commit may be over when the message lands. Its name
would belong to a task that has already run, so the message would not be read. So a wake-up is committed without a name.
The process that enqueues it derives name and time from the commit's time, which is the create time of the outbox
record, so the sweeper derives the same name.

A wake-up for a later time is named after that time. If the time is further ahead than the queue allows, the wake-up is
due as late as possible and enqueues another one: `until` is the time for which it was requested.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Self

from signalbox.core.effects import WAKE_UP_PATH, WAKE_UP_TASK, Effect, name_of
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS
from signalbox.core.problems import BadTaskEnvelope
from signalbox.core.times import microseconds, rfc3339, slot_end


@dataclass(frozen=True, slots=True)
class WakeUp:
    """A delivered wake-up.

    - `at`: the run of `mailbox` must read at this time or later.
    - `until`: the time that was requested.
    - `of_slot`: whether `at` is the end of a slot. The slot's messages were committed before that.
    - `repeats`: whether tasks that the mailbox's owner waits for may be lost, so that the owner schedules these tasks
      again.
    """

    mailbox: str
    at: datetime
    until: datetime
    of_slot: bool = False
    repeats: bool = False

    @classmethod
    def from_payload(cls, payload: Any) -> Self:
        """Parse the payload of a wake-up task. Raises `BadTaskEnvelope`."""
        try:
            times = datetime.fromisoformat(payload["at"]), datetime.fromisoformat(payload["until"])
            return cls(str(payload["mailbox"]), *times, bool(payload.get("of_slot")), bool(payload.get("repeats")))
        except (KeyError, TypeError, ValueError) as error:
            raise BadTaskEnvelope("A wake-up has a mailbox and two times.") from error


def wake_up(mailbox: str, function: str, queue: str, until: datetime | None = None) -> Effect:
    """Return the wake-up of a mailbox whose code is in `function`: at `until`, or soon after its commit."""
    return Effect(
        f"wake {mailbox}",
        queue,
        function,
        WAKE_UP_TASK,
        {"mailbox": mailbox},
        WAKE_UP_PATH,
        not_before=until,
        wakes=True,
    )


def complete_wake_ups(effects: Iterable[Effect], committed_at: datetime) -> tuple[Effect, ...]:
    """Return the effects of a commit, with names and times added to the wake-ups among them."""
    return tuple(complete_wake_up(effect, committed_at) if effect.wakes else effect for effect in effects)


def complete_wake_up(effect: Effect, committed_at: datetime) -> Effect:
    """Return a wake-up with its name and time, which depend on the time of the commit."""
    furthest = committed_at + timedelta(seconds=LIMITS.delay_seconds_max)
    until = effect.not_before or slot_end(committed_at, LIMITS.wake_up_slot_seconds)
    at = min(until, furthest)
    payload = {**effect.payload, "at": rfc3339(at), "until": rfc3339(until)}
    payload |= {} if effect.not_before else {"of_slot": True}
    due = at + timedelta(seconds=LIMITS.wake_up_margin_seconds)
    return replace(effect, name=name_of(effect.name, microseconds(at)), payload=payload, not_before=due, wakes=False)
