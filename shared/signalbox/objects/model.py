"""The messages of an object's mailbox, the effects of a method's run, and the records of both.

A record holds one message through its whole life, so it is the call's placeholder, its receipt and its place in the
queue:

    waiting    it has `since`                       it is applied in order; for a delayed call `since` is its time
    held       it has no `since` and no outcome     it follows a call that has not ended; later it waits again
    done       it has `outcome` or `forwarded`      kept as a receipt until `expires_at`

The effects of a method are committed together or not at all: the state after it, its outcome and its sends. If a
method raises, the state is unchanged and nothing is sent; its error is the outcome. `Unavailable` is not an outcome:
the call is applied again.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import Enum
from typing import Any, Self

from signalbox.core.calls import Call
from signalbox.core.keys import IdSpace, check_key, valid_key
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import BadKey
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.objects.limits import LIMITS
from signalbox.objects.problems import BadObjectCall
from signalbox.payloads.model import Outgoing

CALL_ID_BYTES_MAX = 128
CALL_IDS = IdSpace("call")
KEPT_WAKE_UP = "kept_wake_up"
CLASS_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


# --- places ---


def object_address(class_name: Any, key: Any) -> ObjectAddress:
    """Return the address of an object. Raises `BadObjectCall` or `BadKey`."""
    if not isinstance(class_name, str) or not CLASS_NAME.fullmatch(class_name):
        raise BadObjectCall(f"The name of a class of objects must match {CLASS_NAME.pattern}.", field="class")
    if len(check_key(key).encode()) > LIMITS.object_key_bytes_max:
        raise BadKey(f"An object's key has at most {LIMITS.object_key_bytes_max:,} bytes.", field="key")
    return ObjectAddress(class_name, key)


def check_call_id(id_: Any) -> str:
    """Return the id of a call. Raises `BadKey`."""
    if not valid_key(id_) or len(id_.encode()) > CALL_ID_BYTES_MAX or id_.startswith("!"):
        raise BadKey(
            f"A call's id has 1 to {CALL_ID_BYTES_MAX} bytes, without '/', and does not begin with '!'.", field="id"
        )
    return str(id_)


def check_chosen_id(id_: Any) -> str:
    """Return the id that a caller chooses for a call. Raises `BadKey`, also for an id that only the kit makes."""
    return CALL_IDS.check_chosen(check_call_id(id_))


@dataclass(frozen=True, slots=True)
class CallPlace:
    """The call `id` of the object at `address`. It can be read while its receipt is kept."""

    address: ObjectAddress
    id: str

    def to_record(self) -> dict[str, str]:
        return {**self.address.to_json(), "id": self.id}

    @classmethod
    def from_record(cls, value: Mapping[str, str]) -> Self:
        return cls(ObjectAddress.from_json(value), value["id"])


@dataclass(frozen=True, slots=True)
class Timing:
    """The time at which a call may run, in seconds from now: after a delay, and not later than a limit."""

    delay_seconds: float = 0
    not_after_seconds: float | None = None


AT_ONCE = Timing()


# --- messages ---


class Kind(Enum):
    """The kinds of messages."""

    CALL = "call"
    DELETE = "delete"
    THEN = "then"
    """Run a task with the outcome of `target`, once it exists."""
    ON_RESULT = "on_result"
    """Call a method of the object that is the result of `target`."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message before it is stored. Repeats must have the same `body`.

    `receipt` is whether the sender may repeat the message.
    """

    kind: Kind
    body: Mapping[str, Any] = field(default_factory=dict)
    then: tuple[Call, ...] = ()
    not_after: datetime | None = None
    receipt: bool = True

    @property
    def target(self) -> str:
        """The id of the call that this message follows."""
        return str(self.body["target"])

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the method that this message calls. In a record, large ones are names of payloads."""
        arguments: Mapping[str, Any] = self.body.get("arguments", {})
        return arguments

    def with_arguments(self, arguments: Mapping[str, Any]) -> Self:
        """Return the message with other arguments. A message that calls no method has none."""
        return replace(self, body={**self.body, "arguments": dict(arguments)}) if "arguments" in self.body else self

    @property
    def continuation(self) -> Call:
        """The task of a `THEN` message."""
        return Call.from_record(self.body["continuation"])

    @property
    def size_bytes(self) -> int:
        """The bytes of the body and of the continuations, as a record contains them."""
        return len(json.dumps(self.body)) + sum(map(call_bytes, self.then))

    def to_record(self) -> dict[str, Any]:
        """Return the record's fields, except for `since`."""
        return {
            "kind": self.kind.value,
            "body": json.dumps(self.body, sort_keys=True),
            "then": [call.to_record() for call in self.then],
            "not_after": self.not_after,
            "receipt": self.receipt,
        }

    @classmethod
    def from_record(cls, data: Mapping[str, Any]) -> Self:
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
    """Return the message that calls a method of the object that is the result of the call `target`."""
    return Message(Kind.ON_RESULT, {"target": target, "method": method, "arguments": dict(arguments)}, **others)


def targets_of(messages: Sequence[Message]) -> set[str]:
    """Return the ids of the calls that messages follow."""
    return {message.target for message in messages if message.kind in (Kind.THEN, Kind.ON_RESULT)}


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call as its record shows it: with its outcome, or with the place that it was forwarded to, or with neither yet.

    `held` are the ids of the messages that wait for its outcome. `kept_wake_up` is the outbox record that is
    unnecessary once this call has ended, or an empty text.
    """

    message: Message
    outcome: CallOutcome | None = None
    forwarded: CallPlace | None = None
    held: tuple[str, ...] = ()
    kept_wake_up: str = ""

    @property
    def is_pending(self) -> bool:
        """Whether the call has not ended here."""
        return self.outcome is None and self.forwarded is None

    def holding(self, id_: str) -> Self:
        """Return the call with one more message that waits for its outcome."""
        return replace(self, held=(*self.held, id_))

    @classmethod
    def from_record(cls, data: Mapping[str, Any]) -> Self:
        outcome, forwarded = data.get("outcome"), data.get("forwarded")
        return cls(
            Message.from_record(data),
            None if outcome is None else CallOutcome.from_text(outcome),
            None if forwarded is None else CallPlace.from_record(forwarded),
            tuple(data.get("held", ())),
            data.get(KEPT_WAKE_UP, ""),
        )


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """The status of an object: its state as text, its revision, and the number of its waiting messages.

    The state is None if the object does not exist. Messages for later also count as waiting.
    """

    address: ObjectAddress
    state: str | None
    revision: int
    waiting: int


# --- the effects of a method ---


@dataclass(frozen=True, slots=True)
class Post:
    """A message that a method sends to an object, perhaps to its own, `delay_seconds` after the turn.

    `id` is empty until the turn has chosen it.
    """

    address: ObjectAddress
    message: Message
    delay_seconds: float = 0
    id: str = ""


@dataclass(slots=True)
class Sent:
    """The messages and tasks that a method has sent so far, in order."""

    posts: list[Post] = field(default_factory=list)
    tasks: list[Call] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Applied:
    """The effects of a call. `state` is text, or None if the object is deleted.

    `outgoing` are the payloads that its outcome and its messages name.
    """

    state: str | None
    outcome: CallOutcome
    sent: Sent = field(default_factory=Sent)
    outgoing: Outgoing = field(default_factory=Outgoing)


Apply = Callable[[ObjectAddress, str | None, Message, datetime], Applied]
"""Run a method on a state, at the server's time. It is a pure function of its arguments. Raises `Unavailable`."""


def call_bytes(call: Call) -> int:
    """Return the bytes of a call's arguments, as a record contains them."""
    return len(json.dumps(call.payload))
