"""Calls that may end their process: their starts are counted, and they are given up after too many.

A careful run notes each start in the call's record before the method runs.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Self

from signalbox.core.calls import Call
from signalbox.core.effects import name_of
from signalbox.core.error_notes import ErrorText
from signalbox.core.kit_names import CALL_OBJECT
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import GaveUp, Unavailable
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import StoredMessage
from signalbox.objects.limits import LIMITS
from signalbox.objects.model import KEPT_WAKE_UP, Message
from signalbox.tasks.model.contexts import Plain
from signalbox.tasks.model.failures import Failure


@dataclass(frozen=True, slots=True)
class Mark:
    """The starts of a call that may end its process; `attempts` is their number.

    The run `run` made the last start; no other run starts the call before `until`. The mark is in the call's own
    record. If deliveries of the run were counted instead, an innocent call at the head of the mailbox would be given up
    for the deaths of another on its page. In the header, each mark would make the run before it lose its race.
    """

    attempts: int = 0
    run: str = ""
    until: datetime | None = None

    @classmethod
    def from_record(cls, data: Mapping[str, Any]) -> Self | None:
        """Return the mark in a message's record, or None."""
        mark = data.get("mark")
        return None if mark is None else cls(mark["attempts"], mark["run"], mark["until"])

    def to_record(self) -> dict[str, Any]:
        return {"attempts": self.attempts, "run": self.run, "until": self.until}

    @property
    def is_spent(self) -> bool:
        """Whether the call has been started as often as is allowed."""
        return self.attempts >= LIMITS.call_attempts_max

    def next(self, run: str, now: datetime) -> "Mark":
        """Return the mark of one more start. Raises `Unavailable` while another run may be applying the call.

        After the last start, even the run that made it is refused: another delivery of that run may still be applying
        the call.
        """
        if self.until is not None and (self.run != run or self.is_spent) and now < self.until:
            raise Unavailable("another delivery may still be applying this call")
        return Mark(self.attempts + 1, run, now + timedelta(seconds=LIMITS.call_mark_seconds))


def leads(waiting: Sequence[StoredMessage], kept_wake_up: str) -> bool:
    """Return whether the process that has kept this wake-up applies the waiting messages.

    It does if its wake-up is the first kept one in the mailbox. If a run has marked the first message, which may end
    its process, the messages are left to runs.
    """
    if not waiting or Mark.from_record(waiting[0].data):
        return False
    kept = (message.data.get(KEPT_WAKE_UP) for message in waiting)
    return kept_wake_up == next(filter(None, kept), None)


def failure_of(function: str, address: ObjectAddress, id_: str, message: Message, error: Mapping[str, Any]) -> Failure:
    """Return the failure record of a call that was given up. A retry of its task calls the method again."""
    call = Call(function, CALL_OBJECT, call_payload(address, message.body["method"], message.body["arguments"]))
    failure_id = name_of("call given up", address.base, id_)
    text = ErrorText("each start of the call ended its process or raised a transient error")
    return Failure(failure_id, call, Plain(), error["type"], error["detail"], text, LIMITS.call_attempts_max, "")


def call_payload(address: ObjectAddress, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of the kit's task that calls a method."""
    place = {"class_name": address.name, "key": address.key}
    return {**place, "method": method, "arguments": dict(arguments)}


def is_call_given_up(failure: Mapping[str, Any]) -> bool:
    """Return whether a failure record is about a call that was given up."""
    return bool(failure["call"]["task"] == CALL_OBJECT and failure["problem"] == GaveUp.slug())
