"""Where nothing fails and no clock jumps, the first of the wait queue is granted soon after its permits are free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from shared.core.operations.ports import Snapshot
from shared.semaphores.rules.semaphores import Semaphore
from tests.simulation.world import Violation

LATE_SECONDS = 2.2


class HeadWatch:
    """Since when the head of the wait queue could have been granted, looked at after every write.

    A lease that expires frees permits without a write: then the time is that of the next write, which is too late
    rather than too early.
    """

    def __init__(self) -> None:
        self._fits_since: dict[str, datetime] = {}

    def look(self, semaphore: Semaphore, waits: Sequence[Snapshot], at: datetime) -> None:
        """Note the head, if the permits that are free suffice for it. `waits` are those of this semaphore."""
        queue = [one for one in waits if one.data and "since" in one.data and one.create_time]
        queue.sort(key=lambda one: one.create_time or at)
        able = [one for one in queue if one.data and one.data["permits"] <= semaphore.permits]
        head = [one.id for one in able[:1] if one.data and one.data["permits"] <= semaphore.free(at)]
        self._fits_since = {id_: self._fits_since.get(id_, at) for id_ in head}

    def check(self, granted: Iterable[str], at: datetime) -> None:
        """Raise `Violation` if one of these waits could have been granted long before."""
        for id_ in granted:
            if (late := at - self._fits_since.get(id_, at)) > timedelta(seconds=LATE_SECONDS):
                raise Violation(f"{id_} got its permits {late} after they were free, and it the first")
