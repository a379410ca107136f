"""The time-to-live policies of a simulated world: Firestore deletes the records that they name, a while after their
time.

A separate generator draws whether a due record is deleted in a long stretch of time, so that the world's other draws do
not depend on it.
"""

from __future__ import annotations

from datetime import datetime
from random import Random
from typing import TYPE_CHECKING

from signalbox.core.ports import Delete, Snapshot
from tests.expiry_policies import POLICIES
from tests.simulation.reached_counts import EXPIRED, REACHED

if TYPE_CHECKING:
    from tests.simulation.world import World

DELETION_RATE = 0.7
"""Probability that a record that is due is deleted by now."""

LONG_SECONDS = 3_600


class Expiry:
    """The records that a policy names, by path, each with the time from which it may be deleted."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._random = Random(f"expiry {seed}")
        self._due_at: dict[str, datetime] = {}

    def note(self, path: str, after: Snapshot) -> None:
        """Note a record's write."""
        policy = POLICIES.get(path.split("/")[-2])
        if policy is None:
            return
        self._due_at.pop(path, None)
        if isinstance(at := (after.data or {}).get(policy.field), datetime):
            self._due_at[path] = at + policy.offset

    def pass_time(self, seconds: float) -> None:
        """Delete some of the records that are due, after a long stretch of time."""
        if seconds < LONG_SECONDS or not self._due_at:
            return
        now = self._world.now()
        for path in sorted(path for path, at in self._due_at.items() if at <= now):
            if self._random.random() < DELETION_RATE:
                self._world.log(f"  {path} has expired")
                REACHED[EXPIRED] += 1
                self._world.store.commit([Delete(path)])
