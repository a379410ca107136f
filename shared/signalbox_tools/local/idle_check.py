"""Find out whether a local stack is idle.

The queues and the event bridge count their tasks and events, and the outbox has the tasks that are not enqueued yet.
So the outbox is read between two reads of the counters. If it is empty and they are equal, nothing was pending. No
counter includes an event that the emulator has not sent yet, so a marker document is also written between them. A
SQLite store counts the events of a commit before it acknowledges the commit.
"""

import itertools
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core import outbox
from signalbox.core.ports import Query
from signalbox_tools.local.services.command_lines import stats
from signalbox_tools.local.services.ports_and_sockets import StackLayout
from signalbox_tools.local.store.emulator_triggers import EmulatorEvents

MARKER_SECONDS_MAX = 5.0  # a marker may be lost with the half that receives it; the next attempt writes another
MARKER_POLL_SECONDS = 0.005
FAR_AHEAD_SECONDS = 90  # beyond the pause before any retry: a task due later was scheduled so

NO_EVENTS: Mapping[str, Any] = {"waiting": 0, "running": 0}
"""The counters of the events of a catalogue without triggers."""

Activity = Mapping[str, Mapping[str, Any]]
"""The counters of the events, and of each queue by name."""


class IdleMonitor:
    """Watches one stack."""

    def __init__(self, layout: StackLayout) -> None:
        self._layout = layout
        self._markers = itertools.count(1)

    def idle(self) -> bool:
        """Return whether no task and no event was pending at any time during this call."""
        before = self.activity()
        if before is None or _busy(before):
            return False
        return self.outbox_is_empty() and self.events_all_sent() and self.activity() == before

    def pending(self) -> str:
        """Describe the pending work, for a message."""
        return f"{self.activity()}; the outbox {'is empty' if self.outbox_is_empty() else 'has tasks'}"

    def outbox_is_empty(self) -> bool:
        """Return whether all tasks of all commits are enqueued. Return False if that cannot be established."""
        if self._layout.emulator is None:
            with closing(SqliteStore(self._layout.store_file)) as store:
                return not store.query(Query(outbox.COLLECTION, limit=1))
        try:
            return self._emulator.is_empty(outbox.COLLECTION)
        except OSError:
            return False

    def activity(self) -> Activity | None:
        """Read the counters. Return None if a service does not respond."""
        has_events = bool(self._layout.catalogue.triggers)
        events = stats(self._layout.url("events-deliver")) if has_events else NO_EVENTS
        queues = stats(self._layout.url("keys"))
        return None if events is None or queues is None else {"events": events, **queues}

    def events_all_sent(self) -> bool:
        """Wait until the events of all commits so far are stored. Return False if that cannot be established."""
        if not self._layout.catalogue.triggers:
            return True
        if self._layout.emulator is None:
            return True
        marker, deadline = next(self._markers), time.monotonic() + MARKER_SECONDS_MAX
        try:
            self._emulator.mark(marker)
        except OSError:
            return False
        while time.monotonic() < deadline:
            if (stats(self._layout.url("events-receive")) or {}).get("marker", 0) >= marker:
                return True
            time.sleep(MARKER_POLL_SECONDS)
        return False

    @property
    def _emulator(self) -> EmulatorEvents:
        settings = self._layout.settings
        return EmulatorEvents(settings.firestore_emulator, settings.project, settings.database)


def _busy(activity: Activity) -> bool:
    soon = time.time() + FAR_AHEAD_SECONDS
    return any(each["running"] or (each["waiting"] and each.get("next_due_at", 0) < soon) for each in activity.values())
