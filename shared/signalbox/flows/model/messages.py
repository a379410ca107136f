"""The messages in a run's mailbox, which become entries of its log, and their ids.

The ids of messages, of waits' records and of sub-flows are derived from the wait, so that a repeat has the same one.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from signalbox.core.effects import name_of
from signalbox.core.keys import IdSpace
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.flows.model.addresses import RUN_IDS, FlowAddress
from signalbox.flows.model.waits import Wait
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.payloads.model import Payload, payload_in

SUB_FLOW = "flow"
"""The kind of a command that runs another flow."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a command. `at` is the time of the turn that applied it, None in the mailbox.

    `delivery` is the delivery that has run the code of an inline step, and empty for other commands.
    """

    kind: ClassVar[str] = "done"
    wait: Wait
    outcome: CallOutcome
    at: datetime | None = None
    delivery: str = ""

    @property
    def lease(self) -> dict[str, Any] | None:
        """The lease that was granted, if the command is a lock."""
        result = self.outcome.result
        return dict(result["granted"]) if isinstance(result, dict) and "granted" in result else None

    def body(self) -> dict[str, Any]:
        delivery = {"delivery": self.delivery} if self.delivery else {}
        return {**self.wait.to_json(), "outcome": self.outcome.to_json(), **delivery}

    def entry(self) -> list[Any]:
        return [self.wait.path, self.wait.signature, {**self.outcome.to_json(), **self.wait.shown_attempts()}]

    def shown(self) -> dict[str, Any]:
        shown = {"path": self.wait.path, "command": self.wait.signature, **self.outcome.to_json()}
        return {**shown, **self.wait.shown_attempts()}

    def id_for(self, address: FlowAddress) -> str:
        """Return the id of the message: one per execution, path, attempt, and lease or delivery of an inline step."""
        granted = self.lease["id"] if self.lease else self.delivery
        return name_of("done", address.base, self.wait.execution_id, self.wait.path, self.wait.attempt, granted)


@dataclass(frozen=True, slots=True)
class Event:
    """An event that a caller sent. A run of another `incarnation` drops it.

    If `incarnation` is empty, any run takes it.
    """

    kind: ClassVar[str] = "event"
    name: str
    value: Any
    at: datetime | None = None
    incarnation: str = ""

    def body(self) -> dict[str, Any]:
        return self.shown() | ({"incarnation": self.incarnation} if self.incarnation else {})

    def entry(self) -> list[Any]:
        return [self.name, self.value]

    def shown(self) -> dict[str, Any]:
        """Return the entry as a log shows it."""
        return {"name": self.name, "value": self.value}


@dataclass(frozen=True, slots=True)
class Update:
    """A request that a caller sent, and that the code answers. `id` is the id that the caller chose.

    The receipt of the message contains the answer.
    """

    kind: ClassVar[str] = "update"
    name: str
    value: Any
    id: str
    at: datetime | None = None

    def body(self) -> dict[str, Any]:
        return self.shown()

    def entry(self) -> list[Any]:
        return [self.name, self.value, self.id]

    def shown(self) -> dict[str, Any]:
        """Return the entry as a log shows it."""
        return {"name": self.name, "value": self.value, "update": self.id}


@dataclass(frozen=True, slots=True)
class Cancel:
    """A request to cancel the flow.

    If the cancel has a `parent`, it comes from the flow that waits for this flow under that key.
    """

    kind: ClassVar[str] = "cancel"
    reason: str
    at: datetime | None = None
    parent: str = ""

    def body(self) -> dict[str, Any]:
        return self.shown() | ({"parent": self.parent} if self.parent else {})

    def entry(self) -> list[Any]:
        return [self.reason]

    def shown(self) -> dict[str, Any]:
        """Return the entry as a log shows it."""
        return {"reason": self.reason}


@dataclass(frozen=True, slots=True)
class Blank:
    """The place of a failed result that a retry has taken out of the log. The code is not resumed by it.

    `path` and `signature` are those of the command that failed. `at` is the time of the failure.
    """

    kind: ClassVar[str] = "blank"
    path: str
    signature: str
    at: datetime | None = None

    @classmethod
    def of(cls, failed: Result) -> "Blank":
        """Return the entry that takes the place of a failed result."""
        return cls(failed.wait.path, failed.wait.signature, failed.at)

    def body(self) -> dict[str, Any]:
        return self.shown()

    def entry(self) -> list[Any]:
        return [self.path, self.signature]

    def shown(self) -> dict[str, Any]:
        """Return the entry as a log shows it."""
        return {"path": self.path, "command": self.signature}


Incoming = Event | Update
"""A message with a name and a value, which is kept until the code waits for its name."""

Message = Result | Incoming | Cancel | Blank
"""A message in the mailbox, and an entry of the log once it has its time. Only a log has a `Blank`."""


def message_to_record(message: Message) -> dict[str, Any]:
    """Return the fields of a message's record, without those of the mailbox."""
    return {"kind": message.kind, "body": json.dumps(message.body(), sort_keys=True)}


def payload_of(message: Message) -> Payload | None:
    """Return the payload that a message names in place of its value."""
    match message:
        case Result():
            return payload_in(message.outcome.result)
        case Event() | Update():
            return payload_in(message.value)
    return None


def message_from_record(data: Mapping[str, Any]) -> Message:
    body = json.loads(data["body"])
    match data["kind"]:
        case Event.kind:
            return Event(body["name"], body["value"], incarnation=body.get("incarnation", ""))
        case Update.kind:
            return Update(body["name"], body["value"], body["update"])
        case Cancel.kind:
            return Cancel(body["reason"], parent=body.get("parent", ""))
    return Result(Wait.from_json(body), CallOutcome.from_json(body["outcome"]), delivery=body.get("delivery", ""))


MESSAGE_IDS = IdSpace("message")
"""The ids of events and updates. The ids of their records are hashes of these."""


def update_id(address: FlowAddress, id_: str) -> str:
    """Return the id of the message of an update, by the id that its caller chose."""
    return name_of("update", address.base, id_)


def timer_id(address: FlowAddress, wait: Wait) -> str:
    """Return the id of the message that ends a sleep."""
    return Result(wait, CallOutcome()).id_for(address)


def child_id(ids: IdSpace, address: FlowAddress, wait: Wait) -> str:
    """Return the id of a command's record, among `ids`: of a wait, a batch, a sub-flow or a call of an object.

    A refused wait is repeated under another id, since the record with the first id may have ended.
    """
    again = [wait.attempt] if wait.attempt > 1 else []
    return ids.derived(name_of("of a flow", address.base, wait.execution_id, wait.path, *again))


def sub_flow_address(address: FlowAddress, wait: Wait) -> FlowAddress | None:
    """Return the address of the sub-flow that a flow waits for, or None if the wait is not for one."""
    kind, _, name = wait.signature.partition(" ")
    return FlowAddress(name, wait.child or child_id(RUN_IDS, address, wait)) if kind == SUB_FLOW else None


def parent_key(base: str, wait: Wait) -> str:
    """Return the key of a flow's wait for a sub-flow, which identifies the wait in messages to the sub-flow."""
    return name_of("parent", base, wait.execution_id, wait.path)
