"""The messages of a flow's mailbox: ends of what it waits for, events, cancels.

A message is told to the code in the turn that takes it out of the mailbox. An event stays as a receipt, since whoever
posts it may repeat that; all others are deleted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.core.rules.effects import name_of
from shared.flows.rules.addresses import FlowAddress
from shared.objects.rules.outcomes import CallOutcome


@dataclass(frozen=True, slots=True)
class Place:
    """What a flow waits for, as whoever ends it knows it: the life, the path, the attempt.

    The life is the flow's incarnation and generation: what comes from a former one is for nobody.
    """

    life: str
    path: str
    attempt: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return the place as messages and tasks carry it."""
        return {"life": self.life, "path": self.path, "attempt": self.attempt}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Place":
        """Undo `to_json`."""
        return cls(str(value["life"]), str(value["path"]), int(value["attempt"]))


@dataclass(frozen=True, slots=True)
class Result:
    """What a flow may wait for has ended."""

    place: Place
    outcome: CallOutcome
    kind: str = "done"

    @property
    def lease(self) -> dict[str, Any] | None:
        """Return the lease that was granted, if this is a lock's."""
        found = self.outcome.result
        return dict(found["granted"]) if isinstance(found, dict) and "granted" in found else None

    def body(self) -> dict[str, Any]:
        """Return the message as its record holds it."""
        return {**self.place.to_json(), "outcome": self.outcome.to_json()}

    def id_for(self, address: FlowAddress) -> str:
        """Return the id of its message: one for each life, path and attempt."""
        place = self.place
        granted = self.lease["id"] if self.lease else ""
        return name_of("done", address.base, place.life, place.path, place.attempt, granted)


@dataclass(frozen=True, slots=True)
class Event:
    """Somebody posted an event."""

    name: str
    value: Any
    kind: str = "event"

    def body(self) -> dict[str, Any]:
        """Return the message as its record holds it."""
        return {"name": self.name, "value": self.value}


@dataclass(frozen=True, slots=True)
class Cancel:
    """Somebody cancelled the flow."""

    reason: str
    kind: str = "cancel"

    def body(self) -> dict[str, Any]:
        """Return the message as its record holds it."""
        return {"reason": self.reason}


FlowMessage = Result | Event | Cancel


def to_record(message: FlowMessage) -> dict[str, Any]:
    """Return the fields of a message's record, besides the time that it waits since."""
    return {"kind": message.kind, "body": json.dumps(message.body(), sort_keys=True)}


def from_record(data: Mapping[str, Any]) -> FlowMessage:
    """Undo `to_record`."""
    body = json.loads(data["body"])
    if data["kind"] == "event":
        return Event(body["name"], body["value"])
    if data["kind"] == "cancel":
        return Cancel(body["reason"])
    return Result(Place.from_json(body), CallOutcome.from_json(body["outcome"]))


def timer_id(address: FlowAddress, place: Place) -> str:
    """Return the id of the message that ends a sleep."""
    return Result(place, CallOutcome()).id_for(address)
