"""Tell when nothing is under way in a local stack.

Tasks and events are counted by those who hold them. What nobody counts is an event that the emulator has yet to send,
so a marker is passed through it between two equal looks at the counters: then nothing happened from the first look on.
"""

import http.client
import itertools
import time
from collections.abc import Mapping
from typing import Any

from infra.local.services import Plan, stats
from infra.local.triggers import Events

MARKER_SECONDS_MAX = 5.0  # a marker may be lost with the half that receives it; the next one tells as much
MARKER_LOOK_SECONDS = 0.005
EMBEDDED_SETTLE_SECONDS = 0.25  # an embedded store posts its events in this time, or at least the next of them
FAR_AHEAD_SECONDS = 90  # beyond the pause before any retry: a task due later was scheduled so

Activity = Mapping[str, Mapping[str, Any]]
"""The numbers of the events, and of each queue by name."""


class IdleMonitor:
    """Watches one stack."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._markers = itertools.count(1)

    def idle(self) -> bool:
        """Tell whether no task and no event was under way at any time while this looked."""
        before = self.activity()
        return before is not None and not _busy(before) and self._events_all_sent() and self.activity() == before

    def activity(self) -> Activity | None:
        """Read the numbers; None when a part does not answer."""
        events, queues = stats(self._plan.url("events-deliver")), stats(self._plan.url("keys"))
        return None if events is None or queues is None else {"events": events, **queues}

    def _events_all_sent(self) -> bool:
        """See to it that the events of all commits so far are on file; False when that cannot be told."""
        if self._plan.emulator is None:
            time.sleep(EMBEDDED_SETTLE_SECONDS)
            return True
        settings = self._plan.settings
        marker, deadline = next(self._markers), time.monotonic() + MARKER_SECONDS_MAX
        try:
            Events(settings.firestore_emulator, settings.project, settings.database).mark(marker)
        except (OSError, http.client.HTTPException):
            return False
        while time.monotonic() < deadline:
            if (stats(self._plan.url("events-receive")) or {}).get("marker", 0) >= marker:
                return True
            time.sleep(MARKER_LOOK_SECONDS)
        return False


def _busy(activity: Activity) -> bool:
    soon = time.time() + FAR_AHEAD_SECONDS
    return any(each["running"] or (each["waiting"] and each.get("next_due_at", 0) < soon) for each in activity.values())
