"""Many concurrent callers in virtual time: each call of a port takes as long as on Firestore, but no real time.

Every caller, event and task is a separate greenlet, which waits for the round trip of its call; the call takes effect
in the middle. So visits and fold runs overlap as they do in the cloud, and a minute of 500 yokes a second takes some
seconds. Not modelled: that Firestore slows down on a record or a range that is written too often. Therefore the rates
themselves are what tests look at (`WriteTimes`).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import TypeVar

from greenlet import greenlet

from signalbox.catalogue import reading
from signalbox.core import kit_names
from signalbox.core.effects import Effect
from signalbox.core.ports import Committed, Conflict, Outcome, Ports, Query, Snapshot, Write
from signalbox.core.problems import Unavailable
from signalbox.core.records.queries import Field
from signalbox.standings import tasks
from signalbox.standings.model.yokes import YOKES, YokeKey
from signalbox.testing.manual_clock import EPOCH
from signalbox.testing.memory_store import MemoryStore
from signalbox.testing.recorded_log import RecordedLog

READ_SECONDS, COMMIT_SECONDS, RECORD_SECONDS = 0.02, 0.06, 0.0003
"""Of a call, and more for each record that it returns or writes: 400 of them take 0.12 s more."""

ENQUEUE_SECONDS, DELIVERY_SECONDS, RETRY_SECONDS = 0.02, 0.05, 0.5
EVENT_SECONDS = 0.3
REPEATED_EVENTS = 0.02

Answer = TypeVar("Answer")


class WriteTimes:
    """When each record was written: seconds of virtual time by path."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def note(self, path: str, second: float) -> None:
        self.seconds.setdefault(path, []).append(second)

    def most(self, window_seconds: float) -> tuple[int, str]:
        """Return the most writes of one record within a window of so many seconds, and its path."""
        return max((_most(written, window_seconds), path) for path, written in self.seconds.items())


def _most(written: Sequence[float], window_seconds: float) -> int:
    return max(bisect_left(written, first + window_seconds) - index for index, first in enumerate(written))


class VirtualTime:
    """The store, the queue `standings`, events of yokes and the clock, with the time that they take."""

    def __init__(self, seed: int = 0) -> None:
        self.second = 0.0
        self.writes = WriteTimes()
        self.folds: Counter[str] = Counter()
        self.retries = 0
        self.conflicts = 0
        self.store = MemoryStore(self.now, self._observe)
        self.log = RecordedLog()
        self.ports = Ports(SlowStore(self), self, self, self.log)
        self.on_write: Callable[[str, Snapshot], None] = lambda *_: None
        self._random = Random(seed)
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._hub = greenlet.getcurrent()
        self._names: set[str] = set()
        self._folds_free = reading.load().queues[kit_names.STANDINGS_QUEUE].concurrent_max

    def reliable_ports(self) -> Ports:
        """Return ports whose calls take no time: for what comes after a run."""
        return Ports(self.store, self, self, self.log)

    # --- time ---

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.second)

    def at(self, second: float, work: Callable[[], object]) -> None:
        """Begin work at a time."""
        self._push(second, lambda: greenlet(work, self._hub).switch())

    def run(self) -> None:
        """Advance the time until nothing is left to do."""
        while self._agenda:
            self.second, _, step = heappop(self._agenda)
            step()

    def sleep(self, seconds: float) -> None:
        self._push(self.second + seconds, greenlet.getcurrent().switch)
        self._hub.switch()

    def jitter(self) -> float:
        return self._random.random()

    def steady(self) -> float:
        return self.second

    def call(self, seconds: float, call: Callable[[], Answer], records: Callable[[Answer], int]) -> Answer:
        """Make a call that takes `seconds`, and longer for many records; half of that passes before it takes effect."""
        seconds *= 0.5 + self._random.random()
        self.sleep(seconds / 2)
        answer = call()
        self.sleep(seconds / 2 + RECORD_SECONDS * records(answer))
        return answer

    def _push(self, second: float, step: Callable[[], object]) -> None:
        heappush(self._agenda, (second, next(self._numbers), step))

    # --- the queue ---

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        """Take tasks; a name that was taken before is a no-op."""
        self.call(ENQUEUE_SECONDS, lambda: all(map(self._take, effects)), lambda _: 0)
        return ()

    def _take(self, effect: Effect) -> bool:
        if effect.name not in self._names:
            self._names.add(effect.name)
            self.folds[str(effect.payload["standing"])] += 1
            due = (effect.not_before - EPOCH).total_seconds() if effect.not_before else 0.0
            self.at(max(self.second, due) + DELIVERY_SECONDS, lambda: self._run(effect))
        return True

    def _run(self, effect: Effect) -> None:
        """Run a task when a place is free, as many at a time as the catalogue's queue allows."""
        while not self._folds_free:
            self.sleep(DELIVERY_SECONDS)
        self._folds_free -= 1
        self._until_done(lambda: tasks.run_task(self.ports, effect.task, effect.payload))
        self._folds_free += 1

    # --- events ---

    def _observe(self, path: str, _: Snapshot, after: Snapshot) -> None:
        self.writes.note(path, self.second)
        self.on_write(path, after)
        if path.startswith(f"{YOKES}/") and (key := YokeKey.from_id(after.id)):
            for _delivery in range(1 + (self._random.random() < REPEATED_EVENTS)):
                arrives = self.second + EVENT_SECONDS * (0.5 + self._random.random())
                self.at(arrives, lambda: self._until_done(lambda: tasks.count(self.ports, [key])))

    def _until_done(self, work: Callable[[], object]) -> None:
        while True:
            try:
                work()
            except Unavailable:
                self.retries += 1
                self.sleep(RETRY_SECONDS)
            else:
                return


class SlowStore:
    """The in-memory store, as far away as Firestore."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        return self._time.call(READ_SECONDS, lambda: self._time.store.read(*paths, fields=fields), len)

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        return self._time.call(READ_SECONDS, lambda: self._time.store.read_some(needed, others, bytes_max), len)

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        return self._time.call(READ_SECONDS, lambda: self._time.store.query(query), len)

    def count(self, query: Query) -> int:
        return self._time.call(READ_SECONDS, lambda: self._time.store.count(query), lambda _: 0)

    def commit(self, writes: Sequence[Write]) -> Committed:
        try:
            return self._time.call(
                COMMIT_SECONDS, lambda: self._time.store.commit(writes), lambda done: len(done.results)
            )
        except Conflict:
            self._time.conflicts += 1
            raise

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        return self._time.call(COMMIT_SECONDS, lambda: self._time.store.write_each(writes), len)

    def new_id(self) -> str:
        return self._time.store.new_id()
