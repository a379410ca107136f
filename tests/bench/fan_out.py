"""How long a fan-out takes, compared with bare calls of the store, and how the time grows with the number of copies."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench import bare_fan_out
from tests.bench.bench_stack import TARGET, Stage, country


@dataclass(frozen=True, slots=True)
class FanOut:
    """One fan-out. Times are from the put's start; reads, writes and tasks are those of events and pages together.

    ``idle_seconds``: until also the events of all refreshed copies were handled.
    """

    copies: int
    shown_seconds: float
    idle_seconds: float
    bare_seconds: float
    reads: int
    writes: int
    tasks: int

    @property
    def ratio(self) -> float:
        """How many times longer this took than bare calls of the store."""
        return self.shown_seconds / self.bare_seconds

    @property
    def reads_a_copy(self) -> float:
        return self.reads / self.copies

    @property
    def writes_a_copy(self) -> float:
        return self.writes / self.copies


def fan_out(stage: Stage, copies: int) -> FanOut:
    """Seed a target with so many copies, change it, and watch the copies follow; then the same by bare calls."""
    with stage.events_held():
        stage.clear()
        stage.seed(country(1), copies)
    before = stage.followers.sums()
    began = time.perf_counter()
    stage.put(TARGET, country(2))
    stage.wait_until_shown(country(2), copies)
    shown = time.perf_counter() - began
    stage.wait_until_idle()
    idle = time.perf_counter() - began
    after = stage.followers.sums()
    reads, writes, tasks = (after[name] - before[name] for name in ("reads", "writes", "tasks"))
    return FanOut(copies, shown, idle, bare_seconds(stage, copies), reads, writes, tasks)


def bare_seconds(stage: Stage, copies: int) -> float:
    """Time the same fan-out by bare calls of the store, in another collection.

    The writes cost what those of documents cost: they cause events, which are not delivered, and change an index of the
    copied field.
    """
    with stage.events_held():
        stage.clear()
        stage.seed(country(1), copies, bare_fan_out.COLLECTION)
        assert stage.count_showing(country(1), bare_fan_out.COLLECTION) == copies, "and so the index exists"
        with stage.store_with_events_of(bare_fan_out.COLLECTION) as store:
            began = time.perf_counter()
            refreshed = bare_fan_out.fan_out(store)
            seconds = time.perf_counter() - began
        assert refreshed == copies, "bare calls refresh what the kit does"
    return seconds


def exponent(runs: Sequence[FanOut]) -> float:
    """Return the exponent by which time grows with the copies, from the smallest run to the largest; 1 is linear."""
    first, last = min(runs, key=lambda run: run.copies), max(runs, key=lambda run: run.copies)
    return math.log(last.shown_seconds / first.shown_seconds) / math.log(last.copies / first.copies)
