"""What batches of any size write: records, writes and tasks a unit, and the record that is written most.

Each task runs once, none fails, and the store keeps of a unit only that it has ended: so a million fit into memory. The
operations are the kit's own. 800,000 units are the largest batch; a million are a batch of sub-batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from signalbox.batches import tasks
from signalbox.batches.model.units import PlacedUnit, succeeded
from signalbox.batches.requests import BatchSpec, SealRequest
from signalbox.batches.service import lifecycle, pages, population, units
from signalbox.batches.service.sub_batches import populate_sub_batch
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.ports import AlreadyExists, Committed, Outcome, Ports, Query, Snapshot, Write, WriteResult
from signalbox.core.records.queries import Field
from signalbox.testing.manual_clock import ManualClock
from signalbox.testing.memory_store import MemoryStore
from signalbox.testing.recorded_log import RecordedLog

PAINT, ANNOUNCE = Call("painter", "paint", {}), Call("painter", "announce", {})
SUB_BATCH_UNITS = 10_000
WRITES_MAX = 120
"""Of one record: Firestore takes about one a second, and a unit is about one."""


@dataclass(frozen=True, slots=True)
class Size:
    """What a batch of so many units wrote; `hottest` is the most writes that one record had."""

    units: int
    records: int
    writes: int
    tasks: int
    hottest: int
    completions: int


class CountedStore:
    """The in-memory store, which counts the writes of each record, and of units only remembers which have ended."""

    def __init__(self, clock: ManualClock) -> None:
        self._memory = MemoryStore(lambda: clock.now)
        self._ended: dict[str, set[str]] = {}
        self.written: Counter[str] = Counter()

    @property
    def ended_units(self) -> int:
        return sum(map(len, self._ended.values()))

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        return self._memory.read(*paths, fields=fields)

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        return self._memory.read_some(needed, others, bytes_max)

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        return self._memory.query(query)

    def count(self, query: Query) -> int:
        [state] = [condition.value for condition in query.where]
        return len(self._ended.get(query.collection, ())) if state == "succeeded" else 0

    def commit(self, writes: Sequence[Write]) -> Committed:
        kept = [write for write in writes if not self._ends_a_unit(write)]
        committed = self._memory.commit(kept)
        self.written.update(write.path for write in kept)
        results = iter(committed.results)
        unit = WriteResult(committed.commit_time)
        return Committed(committed.commit_time, tuple(next(results) if one in kept else unit for one in writes))

    def _ends_a_unit(self, write: Write) -> bool:
        collection, _, id_ = write.path.rpartition("/")
        if not collection.endswith("/units"):
            return False
        ended = self._ended.setdefault(collection, set())
        if id_ in ended:
            raise AlreadyExists(write.path)
        ended.add(id_)
        return True

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        return self._memory.write_each(writes)

    def new_id(self) -> str:
        return self._memory.new_id()


class CountedQueue:
    """Tasks to run, the latest first: a page's units run before the next page is expanded."""

    def __init__(self) -> None:
        self.waiting: list[Effect] = []
        self._names: set[str] = set()

    @property
    def created(self) -> int:
        return len(self._names)

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        self.waiting += [effect for effect in effects if effect.name not in self._names]
        self._names.update(effect.name for effect in effects)
        return ()


class Run:
    """One batch from its creation to its end, in this process. `parts` and `levels` say what its units return."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.store, self.queue = CountedStore(clock), CountedQueue()
        self.ports = Ports(self.store, self.queue, clock, RecordedLog())
        self.completions = 0

    def flat(self, size: int, concurrency: int | None = None) -> Size:
        """Load a batch by pages and run it."""
        population.populate(self.ports, "b", BatchSpec(task=PAINT, on_complete=ANNOUNCE, concurrency=concurrency))
        added = pages.add_units(self.ports, "b", 0, ({} for _ in range(size)))
        lifecycle.seal(self.ports, "b", SealRequest(added.page))
        return self._to_the_end([])

    def of_sub_batches(self, *parts: int) -> Size:
        """Run a batch of `parts[0]` units, each of which returns a sub-batch of `parts[1]`, and so on."""
        spec = BatchSpec(units=[{}] * parts[0], task=PAINT, on_complete=ANNOUNCE, sealed=True)
        population.populate(self.ports, "b", spec)
        return self._to_the_end(parts[1:])

    def _to_the_end(self, parts: Sequence[int]) -> Size:
        levels = {"b": 0}
        while self.queue.waiting:
            effect = self.queue.waiting.pop()
            if effect.function == "batch_expand":
                tasks.run_batch_task(self.ports, effect.task, effect.payload)
            elif effect.task == ANNOUNCE.task:
                self.completions += 1
            else:
                self._paint(PlacedUnit.from_record(effect.context["unit"]), parts, levels)
        ended, written = self.store.ended_units, self.store.written
        hottest = max(written.values())
        writes = ended + written.total()
        return Size(ended, ended + len(written), writes, self.queue.created, hottest, self.completions)

    def _paint(self, unit: PlacedUnit, parts: Sequence[int], levels: dict[str, int]) -> None:
        level = levels[unit.batch]
        if level == len(parts):
            units.complete_unit(self.ports, unit, succeeded(None))
            return
        levels[unit.sub_batch_id()] = level + 1
        spec = BatchSpec(units=[{}] * parts[level], task=PAINT, sealed=True)
        populate_sub_batch(self.ports, unit, spec)


def of_size(size: int) -> Size:
    """Run so many units as one batch, or as sub-batches of 10,000 where they are too many for one."""
    if size <= 800_000:
        return Run().flat(size)
    return Run().of_sub_batches(size // SUB_BATCH_UNITS, SUB_BATCH_UNITS)


def of_depth(levels: int) -> Size:
    """Run a tree of units of so many levels below the first, each of which returns a sub-batch of two."""
    return Run().of_sub_batches(1, *[2] * levels)
