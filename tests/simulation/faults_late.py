"""Clauses that matter only hours later, when an event arrives up to a day late."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from unittest import mock

from shared.core.operations.ports import DocumentEvent, Ports
from shared.links.operations import fan_out as operations
from tests.simulation import links_world
from tests.simulation.faults import Fault

HOUR = timedelta(hours=1)


def _acknowledge_old_events(ports: Ports, event: DocumentEvent) -> None:
    """Acknowledge an event of a write more than an hour ago without a look."""
    [now] = ports.store.read(event.path)
    if event.update_time is None or now.read_time - event.update_time < HOUR:
        fan_out(ports, event)


fan_out = operations.fan_out

FAULTS = (
    Fault(
        "link-5",
        "following an event however late it comes",
        partial(mock.patch.object, operations, "fan_out", _acknowledge_old_events),
        links_world.run,
    ),
)
