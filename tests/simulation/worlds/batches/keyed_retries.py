"""Retries under an `Idempotency-Key`, in some worlds of batches whose units fail.

Each caller repeats its request under its key until it has an answer, and perhaps once more. Meanwhile others request
retries without a key, cancel the batch, or complete units. Units fail up to four times, so a retry may fail again.

Checked when a unit's code starts: the unit was retried no more often than retries were requested, where requests under
one key count as one, and had failed before the request. Checked at rest: each unit that had failed when a key was first
used has been retried under it, unless it has succeeded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from signalbox.batches.model.pages import digest
from signalbox.batches.model.tree import header_path
from signalbox.batches.model.units import PlacedUnit, Retries
from signalbox.batches.requests import RetryRequest
from signalbox.batches.service import retries
from signalbox.batches.service.units import AHEAD
from signalbox.core.times import microseconds
from tests.simulation.reached_counts import REACHED, RETRIED_BY_KEY
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.worlds.batches.world import BatchesWorld

KEYED_RATE = 0.3
"""The share of worlds with failing units in which retries have keys."""

CHAINED_RATE = 0.6
"""The share of those worlds whose batch limits how many units run at once."""

LATEST = 1 << 62
"""A time after every request, in microseconds."""

REPEATS_MAX = 2
FAILING_ATTEMPTS_MAX = 4
EARLY_RATE, SECOND_RATE, UNKEYED_RATE, NAMED_RATE = 0.5, 0.3, 0.3, 0.3
CANCELLED_RATE, COMPLETED_RATE, PAUSED_RATE = 0.15, 0.3, 0.5


def is_keyed(seed: int) -> bool:
    """Return whether retries have keys in a world with failing units."""
    return Random(f"keyed {seed}").random() < KEYED_RATE


class Keyed:
    """The callers of a world that request retries under keys."""

    def __init__(self, batches: BatchesWorld, seed: int) -> None:
        self._batches = batches
        self._random = Random(f"keyed retries {seed}")
        self._own = Random(f"pauses of rates {seed}")
        self._failing = [self._random.randint(1, FAILING_ATTEMPTS_MAX) for _ in range(batches.kind.units_max)]
        self._requested: set[str] = set()
        self._failed_before: dict[str, dict[int, int]] = {}
        self._answered: set[str] = set()
        self._calls: dict[str, str] = {}
        self._requested_at: dict[str, int] = {}
        if self._random.random() < CHAINED_RATE:
            batches.callers.concurrency = self._random.randint(1, 3)
        if self._random.random() < CANCELLED_RATE:
            batches.kind = replace(batches.kind, cancelled=True)

    def failing_attempts(self, index: int) -> int:
        """Return how many attempts of a unit fail."""
        return self._failing[index % len(self._failing)]  # a long world has more units

    def early_calls(self, size: int) -> list[Callable[[], None]]:
        """Return the calls to make while units run for the first time; in some worlds there are none."""
        return self.calls(size) if self._random.random() < EARLY_RATE else []

    def calls(self, size: int) -> list[Callable[[], None]]:
        """Return, in random order, retries under one or two keys, and in some worlds other calls.

        In some worlds the rate of the units is paused first, and the first key retries only some of the units.
        """
        random, calls = self._random, list[Callable[[], None]]()
        rated = self._batches.rated if self._own.random() < PAUSED_RATE else None
        for key in ("k", "l") if random.random() < SECOND_RATE or rated else ("k",):
            named = size and (random.random() < NAMED_RATE or (rated and key == "k"))
            units = random.sample(range(size), random.randint(1, size)) if named else None
            calls += [partial(self._retry, f"{key} {len(self._requested)}", units)] * random.randint(1, REPEATS_MAX)
        if random.random() < UNKEYED_RATE:
            calls.append(self._batches.callers.retry)
        if size and random.random() < COMPLETED_RATE:
            calls.append(partial(self._batches.callers.complete, random.randrange(size)))
        return [*([rated.pause_for_hours] if rated else []), *random.sample(calls, len(calls))]

    def _retry(self, key: str, units: list[int] | None) -> None:
        batches = self._batches
        self.note_request(key)

        def work() -> None:
            failed = self._failed_before.setdefault(key, self._failed(units))
            request = RetryRequest(units)
            indexes = None if units is None else sorted(units)
            call = self._calls[key] = digest(key, indexes, request.payload)
            self._requested_at[call] = LATEST  # until it is answered
            retries.retry(batches.world.ports, "b", request, key)
            self._requested_at[call] = microseconds(batches.world.store.read(header_path("b"))[0].read_time)
            self._answered.add(key)
            REACHED[RETRIED_BY_KEY] += len(failed)

        batches.callers.call(f"requests retries under {key}", work)

    def note_request(self, call: str) -> None:
        """Note a request. Requests of one call count as one."""
        self._requested.add(call)

    def _failed(self, units: list[int] | None = None) -> dict[int, int]:
        """Return the last attempt of each unit that has failed, by index."""
        records = self._batches.checks.records(f"{header_path('b')}/units")
        failed = {record["index"]: record["attempt"] for record in records if record["state"] == "failed"}
        return {index: attempt for index, attempt in failed.items() if units is None or index in units}

    def begin(self, unit: PlacedUnit) -> None:
        """Check a start of a unit's code. Raises `Violation` if the unit was retried more often than was requested."""
        if unit.batch == "b" and unit.attempt > len(self._requested):
            raise Violation(f"unit {unit.index} starts attempt {unit.attempt} after {len(self._requested)} requests")
        if unit.batch == "b" and unit.attempt == 1 and isinstance(unit.chain, Retries):
            self._check_failed_before(unit, self._requested_at.get(unit.chain.call, LATEST))

    def _check_failed_before(self, unit: PlacedUnit, requested_at: int) -> None:
        [record] = self._batches.world.store.read(unit.path)
        held = record.data or {}
        if held.get("attempt") != 0 or AHEAD in held or record.update_time is None:
            return  # the record was written again since, or by the chain that has reached the unit
        if microseconds(record.update_time) > requested_at:
            raise Violation(f"unit {unit.index} is retried by a request that was answered before it failed")

    def check_rest(self) -> None:
        """Check that each answered key has retried the units that had failed before."""
        header = self._batches.checks.header("b")
        if header is None or header.state == "cancelled":
            return
        failed = self._failed()
        for key in self._answered:
            before = self._failed_before[key]
            lost = [index for index in before if index in failed and not self._is_retried(index, key)]
            if lost:
                raise Violation(f"units {lost} had failed before the retry {key}, and it did not run them again")

    def _is_retried(self, index: int, key: str) -> bool:
        """Return whether a unit has been retried under a key."""
        records = self._batches.checks.records(f"{header_path('b')}/units")
        [record] = [record for record in records if record["index"] == index]
        return self._calls[key] in record.get("retried_by", ())
