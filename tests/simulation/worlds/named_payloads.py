"""The checks that worlds of large values share: what records name is in the store, and at the end nothing is left.

A name is found in the text of a record, wherever it is, so a record that a world does not know is checked, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from signalbox.core import outbox
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports, Query, Snapshot
from signalbox.core.problems import Problem
from signalbox.payloads import sweep as payloads_sweep
from signalbox.payloads.limits import LIMITS as PAYLOADS_LIMITS
from signalbox.payloads.model import OF_TASKS, REMOVALS
from signalbox.testing.memory_payloads import MemoryPayloads
from tests.simulation.faulty_ports import SimulatedPayloads
from tests.simulation.reached_counts import ORPHANS, PAYLOADS, REACHED
from tests.simulation.world import Violation, World

SMALL = {"task_bytes_max": 450, "result_bytes_max": 300}
"""Limits with which a value of 500 letters is large. The name of a payload has about 220."""

LARGE = "v" * 500
DAY_SECONDS = 24 * 3600
WALK_SECONDS = 8 * DAY_SECONDS
KEY = re.compile(r"[a-z]+/[0-9a-f]{32}/[^\s\"\\]+/[0-9a-f]{64}|tasks/\d{4}-\d\d/[0-9a-f]{64}")


class ObservedPayloads(MemoryPayloads):
    """A store whose records are checked after each deletion."""

    def __init__(self, now: Callable[[], datetime], deleted: Callable[[], None]) -> None:
        super().__init__(now)
        self._deleted = deleted

    def delete(self, keys: Sequence[str]) -> None:
        super().delete(keys)
        self._deleted()


class NamedPayloads:
    """The payloads of a world. `collections` have the owners, and `subcollections` the records below an owner.

    `values` are all large values that were ever passed.
    """

    def __init__(self, world: World, sweeps: Sequence[Callable[[Ports], object]], *collections: str) -> None:
        self.world, self._sweeps, self._collections = world, (outbox.sweep, *sweeps, payloads_sweep.sweep), collections
        self.kept = ObservedPayloads(world.now, self._check_all)
        self.ports = world.ports = replace(world.ports, payloads=SimulatedPayloads(world, self.kept))
        world.observers.append(self._observe)
        self.values: set[str] = set()

    def value(self) -> str:
        """Return a new large value."""
        value = f"{LARGE}{len(self.values)}"
        self.values.add(value)
        return value

    def check_value(self, value: Any) -> None:
        """Raise `Violation` for a value that nobody has passed."""
        if value not in self.values:
            raise Violation(f"{value!r} is none of the values that were passed")

    # --- people and sweeps ---

    def begin(self, name: str, work: Callable[[], object], left: int = 12) -> None:
        """Let a person act, and repeat it until there is an answer, or the person has given up."""

        def answered() -> None:
            try:
                work()
            except Problem as problem:
                self.world.log(f"refused: {problem.detail}")

        self.world.start(name, answered, lambda done: None if done or not left else self.begin(name, work, left - 1))

    def beginning(self, name: str, work: Callable[[], object]) -> Callable[[], None]:
        """Return what lets a person begin to act."""
        return partial(self.begin, name, work)

    def sweep(self) -> None:
        for part in self._sweeps:
            part(self.ports)

    def rest(self, times: int = 2) -> None:
        """Let the tasks end that dead processes have left, without further faults."""
        before, self.world.fault_rates.left = self.world.fault_rates.left, 0
        for _ in range(times):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
            self.world.start("sweep", self.sweep)
            self.world.run()
        self.world.fault_rates.left = before

    def walk(self) -> None:
        """Let the collector walk, twice."""
        for _ in range(2):
            self.world.pass_time(WALK_SECONDS)
            self.rest(3)

    # --- checks ---

    def check_owners(self) -> None:
        """Check that each payload is named by its owner's record, after a walk. Raises `Violation`."""
        named = {key for record in self._records() for key in names_in(record)}
        for key, stored in self.kept.stored.items():
            if stored.owner and key not in named:
                raise Violation(f"{key} stays: {stored.owner} does not name it")
        REACHED[ORPHANS] += 1

    def check_nothing_left(self) -> None:
        """Let the payloads of tasks expire, and check that none is left. Raises `Violation`."""
        self.walk()
        self.world.pass_time(PAYLOADS_LIMITS.payload_task_seconds)
        self.walk()
        if self.kept.stored or self.world.store.query(Query(REMOVALS)):
            raise Violation(f"payloads are left: {sorted(self.kept.stored)}")

    def _records(self) -> Iterator[Snapshot]:
        for collection in self._collections:
            yield from self.world.store.query(Query(collection, group=True))

    def _observe(self, path: str, _: Snapshot, after: Snapshot) -> None:
        if path.split("/")[-2] in self._collections:
            self._check(after)

    def _check(self, record: Snapshot) -> None:
        """Check that what a record names is in the store, and at a place of the record's own."""
        for key in names_in(record):
            REACHED[PAYLOADS] += 1
            if key not in self.kept.contents:
                raise Violation(f"{record.path} names {key}, which is not in the store")
            owner = self.kept.stored[key].owner
            if not key.startswith(f"{OF_TASKS}/") and not self.owns(record.path, owner):
                raise Violation(f"{record.path} names {key} of {owner}")

    def owns(self, path: str, owner: str) -> bool:
        """Return whether a record may name the payloads of an owner."""
        return path == owner

    def _check_all(self) -> None:
        """Check all records, since payloads were deleted."""
        for record in self._records():
            self._check(record)


def names_in(record: Snapshot) -> set[str]:
    """Return the keys of payloads in the text of a record."""
    return set(KEY.findall(str(record.data or "")))
