"""The triggers of a simulated world: Eventarc delivers each event to each handler whose trigger selects it.

Events are delivered at least once, out of order, hours late, without one or both sides of their data, and sometimes to
a handler whose trigger does not select them, as a trigger of an earlier deployment might. While the receiver is down,
events become dead letters; a person has them delivered again. This module selects the handlers of an event by its own
code, not by the kit's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from google.events.cloud.firestore import DocumentEventData

from signalbox.core.document_patterns import InOrder, Kind
from signalbox.core.ports import Data, Snapshot
from signalbox.testing.deliveries import DATABASE, fill_record
from tests.simulation.eventarc import ALSO_IN_TIME, DELAYS_HOURS
from tests.simulation.reached_counts import DEAD_LETTERS, EVENTS_LATE, REACHED, SIDES_MISSING

if TYPE_CHECKING:
    from tests.simulation.world import World

STRAY = 0.04
"""Probability that an event is also delivered to a handler that it is not for."""

UNKNOWN_FIELD = b"\xf8\x07\x01"
"""A field that this release does not know: an event's second deliveries may be encoded otherwise."""

MISSING = (("before",), ("after",), ("before", "after"))


@dataclass(frozen=True, slots=True)
class Trigger:
    """The trigger of a handler, by the handler's name."""

    name: str
    pattern: str
    on: Kind = "written"
    in_order: InOrder = False

    def parts(self, path: str) -> dict[str, str] | None:
        """Return the parts of a path that match, or None."""
        expression = re.sub(r"\{(\w+)=\*\*\}", r"(?P<\1>.+)", self.pattern)
        expression = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", expression)
        found = re.fullmatch(expression, path)
        return found.groupdict() if found else None

    def selects(self, event: Event) -> bool:
        """Return whether Eventarc delivers the event to the handler."""
        return self.parts(event.path) is not None and self.on in ("written", event.kind)


@dataclass(frozen=True, slots=True)
class Event:
    """One change of a document: `number` orders all changes of the world, `missing` names the sides left out."""

    id: str
    number: int
    path: str
    before: Snapshot
    after: Snapshot
    missing: tuple[str, ...]

    @property
    def kind(self) -> Kind:
        if self.before.data is None:
            return "created"
        return "deleted" if self.after.data is None else "updated"

    def headers(self, event_type: str) -> dict[str, str]:
        """Return the headers of a delivery by a trigger of that type."""
        kind = f"google.cloud.firestore.document.v1.{event_type}"
        return {"ce-id": self.id, "ce-type": kind, "ce-document": self.path}

    def body(self) -> bytes:
        """Return the body of a delivery."""
        data: Any = DocumentEventData.pb()()
        name = f"{DATABASE}/documents/{self.path}"
        times = {"update_time": self.after.update_time, "create_time": self.after.create_time}
        fill_record(data, "old_value", name, self._side("before", self.before), update_time=self.before.update_time)
        fill_record(data, "value", name, self._side("after", self.after), **times)
        if self.kind == "updated":
            data.update_mask.field_paths.append("n")
        return bytes(data.SerializeToString())

    @property
    def has_times(self) -> bool:
        """Return whether its body has the time of a version."""
        sides = {"before": self.before, "after": self.after}
        return any(held.data is not None and name not in self.missing for name, held in sides.items())

    def _side(self, name: str, held: Snapshot) -> Data | None:
        return None if name in self.missing else held.data


Delivery = tuple[Trigger, Event]


class Triggers:
    """The deliveries that wait: what a world has as `events`, for the documents of users."""

    def __init__(self, world: World, triggers: tuple[Trigger, ...], receive: Callable[..., None]) -> None:
        self._world = world
        self._triggers = triggers
        self._receive = receive
        self.is_down = False
        self.is_encoded_otherwise = False
        self.events: dict[str, Event] = {}
        self.waiting: list[Delivery] = []
        self.delayed: list[tuple[Any, Delivery]] = []
        self.dead: list[Delivery] = []

    def add(self, path: str, before: Snapshot, after: Snapshot) -> None:
        """Add the event of a change of a user's document, for each trigger that selects it."""
        if not path.startswith(("orders/", "others/")) or before.update_time == after.update_time:
            return
        number = len(self.events) + 1
        random, missing = self._world.random, tuple[str, ...]()
        if self._world.inject_fault(self._world.fault_rates.without_data):
            missing = random.choice(MISSING)
            REACHED[SIDES_MISSING] += 1
            self._world.log(f"  FAULT: event e{number} comes without {' and '.join(missing)}")
        event = self.events[f"e{number}"] = Event(f"e{number}", number, path, before, after, missing)
        self.waiting += self.expected(event)
        others = [(trigger, event) for trigger in self._triggers if not trigger.selects(event)]
        if not missing and others and self._world.inject_fault(STRAY):
            self.waiting.append(random.choice(others))

    def expected(self, event: Event) -> list[Delivery]:
        """Return the deliveries of an event."""
        return [(trigger, event) for trigger in self._triggers if trigger.selects(event)]

    def due(self) -> list[Delivery]:
        """Return what may be delivered now."""
        now = self._world.now()
        if late := [delivery for at, delivery in self.delayed if at <= now]:
            REACHED[EVENTS_LATE] += len(late)
            self.waiting += late
            self.delayed = [(at, delivery) for at, delivery in self.delayed if at > now]
        return self.waiting

    def deliver(self, due: list[Delivery]) -> None:
        """Deliver one of the due events: now, later, or both."""
        random, rates = self._world.random, self._world.fault_rates
        trigger, event = delivery = due.pop(random.randrange(len(due)))
        if self.is_down:
            self._world.log(f"  event {event.id} for {trigger.name} is a dead letter")
            self.dead.append(delivery)
            REACHED[DEAD_LETTERS] += 1
            return
        if self._world.inject_fault(rates.delay_event):
            self._delay(delivery)
            if random.random() >= ALSO_IN_TIME:
                return
        if self._world.inject_fault(rates.duplicate):
            self._world.log(f"  FAULT: event {event.id} for {trigger.name} will be delivered again")
            self.waiting.append(delivery)
        self._start(trigger, event)

    def _delay(self, delivery: Delivery) -> None:
        trigger, event = delivery
        hours = self._world.random.choice(DELAYS_HOURS)
        self._world.log(f"  FAULT: event {event.id} for {trigger.name} will arrive {hours} h late")
        self.delayed.append((self._world.now() + timedelta(hours=hours), delivery))

    def _start(self, trigger: Trigger, event: Event) -> None:
        event_type = trigger.on if trigger.selects(event) else "written"
        unknown = UNKNOWN_FIELD if self.is_encoded_otherwise else b""
        headers, body = event.headers(event_type), event.body() + unknown
        self._world.start(
            f"event {event.id} for {trigger.name}",
            lambda: self._receive(trigger, headers, body),
            lambda done: None if done else self.waiting.append((trigger, event)),
        )

    def deliver_dead_letters(self) -> None:
        """Have the dead letters delivered again, as a person does with a command."""
        self.is_down = False
        self.waiting += self.dead
        self.dead = []

    def deliver_all_again(self) -> None:
        """Have every event delivered once more."""
        self.waiting += [delivery for event in self.events.values() for delivery in self.expected(event)]
