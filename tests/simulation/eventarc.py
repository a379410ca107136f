"""The Eventarc of a simulated world: each change of a document at least once, out of order, up to three days late.

An event that is delayed waits aside until its time; it may also have been delivered in time already, and the late one
is then a redelivery. Some events arrive without their data, as large ones do. In worlds that say so (`too_large`), half
of those that are too large never arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from signalbox.core.ports import DocumentEvent, Ports, Snapshot
from tests.simulation.reached_counts import EVENTS_LATE, EVENTS_LOST, REACHED

if TYPE_CHECKING:
    from tests.simulation.world import World

DELAYS_HOURS = (1.1, 5.0, 71.9)
"""Eventarc retries for three days: deploy/dead_letter_subscriptions.py."""

ALSO_IN_TIME = 0.5
"""Probability that a delayed event is a redelivery."""


LOST = 0.5
"""Probability that an event that is too large does not arrive."""


class Events:
    """Events that wait to be delivered. Without a handler (`on_event`) there are none."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.waiting: list[DocumentEvent] = []
        self.delayed: list[tuple[datetime, DocumentEvent]] = []
        self.handler: Callable[[Ports, DocumentEvent], None] | None = None
        self.least = 1  # how many must wait before one is delivered
        self.too_large: Callable[[DocumentEvent], bool] | None = None
        self._number = 0

    def add(self, path: str, before: Snapshot, after: Snapshot) -> None:
        """Add the event of a document's or a yoke's change."""
        if self.handler and path.startswith(("documents/", "yokes/")):
            self._number += 1
            collection, _, key = path.rpartition("/")
            times = (before.update_time, after.update_time, after.create_time)
            event = DocumentEvent(f"e{self._number}", collection, key, path, before.data, after.data, *times)
            if not self._is_lost(event):
                self.waiting.append(event)

    def _is_lost(self, event: DocumentEvent) -> bool:
        lost = bool(self.too_large and self.too_large(event)) and self._world.random.random() < LOST
        if lost:
            REACHED[EVENTS_LOST] += 1
            self._world.log(f"  FAULT: event {event.id} of {event.key} is too large, and is dropped")
        return lost

    def due(self) -> list[DocumentEvent]:
        """Return what may be delivered now."""
        now = self._world.now()
        if self.delayed and any(at <= now for at, _ in self.delayed):
            REACHED[EVENTS_LATE] += sum(at <= now for at, _ in self.delayed)
            self.waiting += [event for at, event in self.delayed if at <= now]
            self.delayed = [(at, event) for at, event in self.delayed if at > now]
        return self.waiting if len(self.waiting) >= self.least else []

    def deliver(self, due: list[DocumentEvent]) -> None:
        """Deliver one of the due events: now, later, or both."""
        random, rates = self._world.random, self._world.fault_rates
        event = due.pop(random.randrange(len(due)))
        if self._world.inject_fault(rates.delay_event):
            self._delay(event)
            if random.random() >= ALSO_IN_TIME:
                return
        if self._world.inject_fault(rates.duplicate):
            self._world.log(f"  FAULT: event {event.id} will be delivered again")
            self.waiting.append(event)
        self._start(event)

    def _delay(self, event: DocumentEvent) -> None:
        hours = self._world.random.choice(DELAYS_HOURS)
        self._world.log(f"  FAULT: event {event.id} of {event.key} will arrive {hours} h late")
        self.delayed.append((self._world.now() + timedelta(hours=hours), event))

    def _start(self, event: DocumentEvent) -> None:
        handler = self.handler
        assert handler, "events are kept only for a handler"
        if self._world.inject_fault(self._world.fault_rates.without_data):
            self._world.log(f"  FAULT: event {event.id} comes without its data")
            event = replace(event, before=None, after=None)
        self._world.start(
            f"event {event.id} of {event.key}",
            lambda: handler(self._world.ports, event),
            lambda done: None if done else self.waiting.append(event),
        )
