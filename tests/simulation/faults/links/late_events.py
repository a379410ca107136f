"""Clauses that matter only hours later, when an event arrives up to a day late."""

from __future__ import annotations

from datetime import timedelta

from signalbox.core.ports import DocumentEvent, Ports
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds.links import world as links_world

HOUR = timedelta(hours=1)


def _acknowledge_old_events(ports: Ports, event: DocumentEvent) -> None:
    """Acknowledge an event of a write more than an hour ago without a look."""
    [now] = ports.store.read(event.path)
    if event.update_time is None or now.read_time - event.update_time < HOUR:
        fan_out(ports, event)


fan_out = original("links.fan_out")

FAULTS = (
    Fault(
        "link-5",
        "following an event however late it comes",
        always(("links.fan_out", _acknowledge_old_events)),
        links_world.run,
    ),
)
