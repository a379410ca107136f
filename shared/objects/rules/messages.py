"""The messages of an object's mailbox: calls, deletions, and what follows on a call that was posted before.

A record holds one message through its life, so it is the call's placeholder, its receipt and its place in the queue:

    waiting            `since`                     it is applied in order; for a call for later `since` is its time
    held               neither                     a call on a result that is not there yet; then it waits again
    done               `outcome` or `forwarded`    kept as a receipt until `expires_at`
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any, Self

from shared.core.rules.calls import Call
from shared.objects.rules.addresses import ObjectAddress
from shared.objects.rules.outcomes import CallOutcome


class Kind(Enum):
    """What a message asks for."""

    CALL = "call"
    DELETE = "delete"
    THEN = "then"
    """Run a task with the outcome of `target`, once it is there."""
    ON_RESULT = "on_result"
    """Call a method of the object that is the result of `target`."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it is posted. `body` is what a repeat must have in common; `receipt`: a repeat is possible."""

    kind: Kind
    body: Mapping[str, Any] = field(default_factory=dict)
    then: tuple[Call, ...] = ()
    not_after: datetime | None = None
    receipt: bool = True

    @property
    def target(self) -> str:
        """Return the id of the call that this one follows on."""
        return str(self.body["target"])

    @property
    def continuation(self) -> Call:
        """Return the task that a `THEN` asks for."""
        return Call.from_record(self.body["continuation"])

    def to_record(self) -> dict[str, Any]:
        """Return the fields of a message's record, besides the time that it waits since."""
        return {
            "kind": self.kind.value,
            "body": json.dumps(self.body, sort_keys=True),
            "then": [call.to_record() for call in self.then],
            "not_after": self.not_after,
            "receipt": self.receipt,
        }

    @classmethod
    def from_record(cls, data: Mapping[str, Any]) -> Self:
        """Undo `to_record`."""
        then = tuple(Call.from_record(call) for call in data["then"])
        return cls(Kind(data["kind"]), json.loads(data["body"]), then, data["not_after"], data["receipt"])


def method_call(method: str, arguments: Mapping[str, Any], **others: Any) -> Message:
    """Return the message that calls a method."""
    return Message(Kind.CALL, {"method": method, "arguments": dict(arguments)}, **others)


def deletion(*, receipt: bool = True) -> Message:
    """Return the message that deletes an object."""
    return Message(Kind.DELETE, receipt=receipt)


def continuation_message(target: str, continuation: Call, *, receipt: bool = True) -> Message:
    """Return the message that runs a task with the outcome of the call `target`."""
    return Message(Kind.THEN, {"target": target, "continuation": continuation.to_record()}, receipt=receipt)


def call_on_result(target: str, method: str, arguments: Mapping[str, Any], **others: Any) -> Message:
    """Return the message that calls a method of the object that the call `target` results in."""
    return Message(Kind.ON_RESULT, {"target": target, "method": method, "arguments": dict(arguments)}, **others)


@dataclass(frozen=True, slots=True)
class Forwarded:
    """Where a call on a result went: to the call `id` of another object."""

    address: ObjectAddress
    id: str

    def to_record(self) -> dict[str, str]:
        """Return the place as a record holds it."""
        return {**self.address.to_json(), "id": self.id}

    @classmethod
    def from_record(cls, value: Mapping[str, str]) -> Self:
        """Undo `to_record`."""
        return cls(ObjectAddress.from_json(value), value["id"])


@dataclass(frozen=True, slots=True)
class CallRecord:
    """What is known of a call: its outcome, or where it went, or neither; and what is held until it has one."""

    message: Message
    outcome: CallOutcome | None = None
    forwarded: Forwarded | None = None
    held: tuple[str, ...] = ()

    @property
    def is_pending(self) -> bool:
        """Return whether the outcome is still to come, here."""
        return self.outcome is None and self.forwarded is None

    def following(self, call: Call) -> Self:
        """Return the call with one more continuation."""
        return replace(self, message=replace(self.message, then=(*self.message.then, call)))

    def holding(self, id_: str) -> Self:
        """Return the call with one more call on its result."""
        return replace(self, held=(*self.held, id_))

    @classmethod
    def from_record(cls, data: Mapping[str, Any]) -> Self:
        """Read the record of a message."""
        outcome, forwarded = data.get("outcome"), data.get("forwarded")
        return cls(
            Message.from_record(data),
            None if outcome is None else CallOutcome.from_text(outcome),
            None if forwarded is None else Forwarded.from_record(forwarded),
            tuple(data.get("held", ())),
        )


def targets_of(messages: Sequence[Message]) -> set[str]:
    """Return the ids of the calls that messages follow on."""
    return {each.target for each in messages if each.kind in (Kind.THEN, Kind.ON_RESULT)}
