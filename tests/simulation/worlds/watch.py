"""Watchers of a batch whose units end, fail and are retried. Each is disconnected and continues from its last event.

Checked at every event: no watcher receives an attempt's outcome twice, and a watcher that receives the end of a
completed batch has an outcome of every unit. Checked at rest: each watcher that continues to read has received every
recorded outcome.
"""

from __future__ import annotations

from collections.abc import Callable

from signalbox.batches import storage, tasks
from signalbox.batches.machine.watch import START, Cursor, Position
from signalbox.batches.model.headers import Header
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import PlacedUnit, UnitOutcome, failed, succeeded
from signalbox.batches.requests import BatchSpec, RetryRequest
from signalbox.batches.service import population, retries, units
from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import operations_max
from tests.simulation.worlds.batches.kinds import KINDS, PAINT, SMALL_LIMITS
from tests.simulation.worlds.batches.properties import Checks

UNITS_MAX = 8
WATCHERS_MAX = 3
READS_MAX = 12
"""Of one connection: then it ends, as a stream does after some minutes."""

CUT_RATE = 0.1
"""Probability, an event, that the connection breaks before it."""

LIMITS_HERE = SMALL_LIMITS | {"watch_page": 2}


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world to rest. Raises `Violation` when a property does not hold."""
    with replaced(**LIMITS_HERE):
        WatchWorld(seed, trace).run()


class Watcher:
    """A page in a browser: it keeps the id of the last event, and what it was sent."""

    def __init__(self, world: World, run: BatchRun, number: int) -> None:
        self._world, self._run = world, run
        self.name = f"watcher {number}"
        self.last_event_id = str(Cursor(run.incarnation, START))
        self.sent: set[tuple[int, int]] = set()
        self._connected = False

    def connect(self) -> None:
        """Start a connection that continues from the last event, if there is none."""
        if not self._connected:
            self._connected = True
            self._world.start(self.name, self._read, self._ended)

    def _ended(self, done: bool) -> None:
        self._connected = False
        if not done:
            self.connect()

    def _read(self) -> None:
        position = Cursor.parse(self.last_event_id).position
        for _ in range(READS_MAX):
            news = storage.read_news(self._world.ports, self._run, position)
            for one in news.outcomes:
                if self._world.random.random() < CUT_RATE:
                    return
                self._receive(one.record.unit, one.position)
            if news.complete:
                self._check_complete(news.header)
                return
            position = news.end
            self._remember(position)

    def _receive(self, unit: PlacedUnit, position: Position) -> None:
        if (unit.index, unit.attempt) in self.sent:
            raise Violation(f"{self.name} is sent attempt {unit.attempt} of unit {unit.index} twice")
        self.sent.add((unit.index, unit.attempt))
        self._remember(position)

    def _remember(self, position: Position) -> None:
        self.last_event_id = str(Cursor(self._run.incarnation, position))

    def _check_complete(self, header: Header) -> None:
        missing = set(range(header.size or 0)) - {index for index, _ in self.sent}
        if header.state == "completed" and missing:
            raise Violation(f"{self.name} is sent the end without units {sorted(missing)}")


class WatchWorld:
    """One batch `b`, its units, and its watchers."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        self.world = World(seed, FaultRates(kill=0.03, lose_answer=0.04, duplicate=0.08), trace)
        self.world.time_jumps, self.world.time_jumps_left = (0.02, 0.3, 2, 7), self.world.random.randint(0, 6)
        self.world.task_handlers["batch_expand"] = lambda ports, one: tasks.run_batch_task(ports, one.task, one.payload)
        self.world.task_handlers["painter"] = self._paint
        self.checks = Checks(self.world.store, KINDS[0])
        self.failing = self.world.random.random() < 0.4

    def run(self) -> None:
        run = self._populated()
        watchers = [Watcher(self.world, run, number) for number in range(self.world.random.randint(1, WATCHERS_MAX))]
        connections = [watcher.connect for watcher in watchers for _ in range(self.world.random.randint(1, 2))]
        self.world.run([watchers[0].connect])
        self._come_to_rest(connections)
        if self.failing:
            self._come_to_rest([self._retry, *connections])
        for watcher in watchers:
            self._check(watcher)

    def _populated(self) -> BatchRun:
        size = self.world.random.randint(1, operations_max(UNITS_MAX))
        spec = BatchSpec(units=[{"n": number} for number in range(size)], task=PAINT, sealed=True)
        population.populate(self.world.reliable_ports(), "b", spec)
        header = self.checks.header("b")
        assert header is not None
        return BatchRun("b", header.incarnation)

    def _paint(self, ports: Ports, effect: Effect) -> None:
        unit = PlacedUnit.from_record(effect.context["unit"])
        units.complete_unit(ports, unit, self._outcome(unit))

    def _outcome(self, unit: PlacedUnit) -> UnitOutcome:
        if self.failing and unit.index % 2 == 0 and unit.attempt < 1:
            return failed("dry brush")
        return succeeded(unit.index)

    def _retry(self) -> None:
        self.world.start("requests retries", lambda: retries.retry(self.world.ports, "b", RetryRequest()))

    def _come_to_rest(self, beginnings: list[Callable[[], None]]) -> None:
        self.world.run(beginnings)
        for _ in range(2):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
            self.world.start("sweep", self._sweep)
            self.world.run()

    def _sweep(self) -> None:
        outbox.sweep(self.world.ports)

    def _check(self, watcher: Watcher) -> None:
        """Check that a watcher that was not disconnected at the end has every final outcome."""
        self.world.fault_rates.left = 0
        stand = {(unit["index"], unit["attempt"]) for unit in self.checks.records("batches/b/units")}
        for _ in range(3 * len(stand) + 4):
            if stand <= watcher.sent:
                return
            watcher.connect()
            self.world.run()
        raise Violation(f"{watcher.name} is never sent {sorted(stand - watcher.sent)}")
