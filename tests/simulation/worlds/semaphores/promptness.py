"""If nothing fails and no clock jumps, the head of the wait queue is granted soon after its permits are free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from signalbox.core.ports import Snapshot
from signalbox.semaphores.model.semaphore import Semaphore
from tests.simulation.world import Violation
from tests.simulation.worlds.semaphores.lane_shares import is_queued, lane_of_record

LATE_SECONDS = 2.2


class HeadWatch:
    """The time since which the head of the wait queue could have been granted, updated after every write.

    A lease that expires frees permits without a write. The time is then that of the next write, which is never too
    early.
    """

    def __init__(self) -> None:
        self._fits_since: dict[str, datetime] = {}

    def look(self, semaphore: Semaphore, waits: Sequence[Snapshot], at: datetime) -> None:
        """Note the head, if enough permits are free for it. `waits` are those of this semaphore.

        Of several lanes, the heads are noted if enough are free for each: it may be the turn of any of them.
        """
        queue = [one for one in waits if is_queued(one.data) and one.create_time]
        queue.sort(key=lambda one: one.create_time or at)
        able = [one for one in queue if one.data and one.data["permits"] <= semaphore.settings.permits]
        heads: dict[str, Snapshot] = {}
        for one in able:
            heads.setdefault(lane_of_record(one.data or {}), one)
        fit = all(one.data and one.data["permits"] <= semaphore.free(at) for one in heads.values())
        self._fits_since = {one.id: self._fits_since.get(one.id, at) for one in heads.values() if fit}

    def check(self, granted: Iterable[str], at: datetime) -> None:
        """Raise `Violation` if one of these waits could have been granted much earlier."""
        for id_ in granted:
            if (late := at - self._fits_since.get(id_, at)) > timedelta(seconds=LATE_SECONDS):
                raise Violation(f"{id_} got its permits {late} after they were free, at the head of the wait queue")
