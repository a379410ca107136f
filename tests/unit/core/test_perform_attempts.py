"""What `perform` does beyond plain records: read plans, bounded attempts, and lost answers that are recognised."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from signalbox.core.effects import Decision, Effect, RecordedSpan
from signalbox.core.perform import Records, Writes, perform
from signalbox.core.ports import Committed, Conflict, Ports, Put, Query, Snapshot, Store, Write
from signalbox.core.problems import Contended, Unavailable
from signalbox.testing.memory_store import MemoryStore

PATH = "counters/a"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Decide = Callable[[tuple[Snapshot, ...]], Decision[Writes, int]]


class World:
    """A store in memory whose first commits may lose their answers, and a stopped clock."""

    def __init__(self, answers_lost: int = 0) -> None:
        self.store = MemoryStore(lambda: NOW)
        self.answers_lost = answers_lost
        self.sleeps: list[float] = []
        self.seconds = 0.0
        self.ports = Ports(self, self, self, self)  # type: ignore[arg-type]  # one object that counts the calls of all ports
        self.read, self.query, self.new_id = self.store.read, self.store.query, self.store.new_id

    def commit(self, writes: Sequence[Write]) -> Committed:
        committed = self.store.commit(writes)
        self.answers_lost -= 1
        if self.answers_lost >= 0:
            raise Unavailable("the answer was lost")
        return committed

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)

    @property
    def slept(self) -> int:
        return len([seconds for seconds in self.sleeps if seconds > 0])

    def jitter(self) -> float:
        return 0.5

    def steady(self) -> float:
        return self.seconds

    def create(self, effects: Sequence[Effect]) -> Collection[str]:  # noqa: ARG002  as the port names it
        return ()

    def note(self, **seconds: float) -> None: ...

    def span(self, recorded: RecordedSpan) -> None: ...

    def info(self, message: str, /, **values: object) -> None: ...

    error = info

    def count(self) -> int | None:
        [counter] = self.store.read(PATH)
        return None if counter.data is None else int(counter.data["n"])


def add_one(read: tuple[Snapshot, ...]) -> Decision[Writes, int]:
    count = 1 + (read[0].data["n"] if read[0].data is not None else 0)
    return Decision((Put(PATH, {"n": count}, read[0].guard),), count)


def overtaken(world: World, seconds: float = 0.0) -> Decide:
    """Count up, and let another process commit between load and commit each time. Each attempt takes `seconds`."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, int]:
        world.seconds += seconds
        world.store.commit([Put(PATH, {"n": 10 + (world.count() or 0)})])
        return add_one(read)

    return decide


@dataclass(frozen=True, slots=True)
class WithOthers:
    """A counter; then all counters, if it is there."""

    path: str = PATH

    def load(self, store: Store, attempt: int) -> tuple[int, Snapshot, tuple[Snapshot, ...]]:
        [counter] = store.read(self.path)
        return attempt, counter, () if counter.data is None else store.query(Query("counters"))


def test_a_read_plan_chooses_queries_from_what_each_attempt_read() -> None:
    world = World()
    seen: list[tuple[int, int]] = []

    def decide(loaded: tuple[int, Snapshot, tuple[Snapshot, ...]]) -> Decision[Writes, None]:
        attempt, counter, others = loaded
        seen.append((attempt, len(others)))
        if attempt == 0:
            world.store.commit([Put(PATH, {"n": 1}), Put("counters/b", {"n": 1})])
        return Decision((Put(PATH, {"n": 2}, counter.guard),), None)

    perform(world.ports, WithOthers(), decide)
    assert (seen, world.count()) == ([(0, 0), (1, 2)], 2)


@pytest.mark.parametrize("attempts_max", [0, 1, 3])
def test_attempts_are_bounded_and_each_lost_one_is_followed_by_a_pause(attempts_max: int) -> None:
    world = World()
    with pytest.raises(Contended, match=PATH):
        perform(world.ports, Records([PATH]), overtaken(world), attempts_max=attempts_max)
    assert (world.count() or 0, world.slept) == (10 * attempts_max, attempts_max)


@pytest.mark.parametrize(
    ("attempt_seconds", "pauses"),
    [
        (0.0, [0.001, 0.004, 0.2, 0.4, 0.8, 1.6]),
        (0.002, [0.002, 0.008, 0.2, 0.4, 0.8, 1.6]),
        (0.03, [0.03, 0.1, 0.2, 0.4, 0.8, 1.6]),
        (0.08, [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]),
    ],
)
def test_the_first_two_pauses_after_lost_races_are_about_as_long_as_the_attempts_and_never_longer_than_the_usual_ones(
    attempt_seconds: float, pauses: list[float]
) -> None:
    world = World()
    with pytest.raises(Contended):
        perform(world.ports, Records([PATH]), overtaken(world, attempt_seconds))
    assert world.sleeps == pytest.approx(pauses)


def test_the_pause_after_a_lost_answer_is_the_usual_one_however_soon_the_store_failed() -> None:
    world = World(answers_lost=1)
    perform(world.ports, Records([PATH]), add_one, retry_on=(Conflict, Unavailable))
    assert world.sleeps == [0.05]


def test_a_decision_that_recognises_its_own_commit_can_retry_a_lost_answer() -> None:
    world = World(answers_lost=1)

    def once(read: tuple[Snapshot, ...]) -> Decision[Writes, int]:
        return Decision((), read[0].data["n"]) if read[0].data is not None else add_one(read)

    assert perform(world.ports, Records([PATH]), once, retry_on=(Conflict, Unavailable)) == (1, None)
    assert (world.count(), world.slept) == (1, 1)


def test_a_lost_answer_is_not_retried_unless_that_is_asked_for() -> None:
    world = World(answers_lost=1)
    with pytest.raises(Unavailable):
        perform(world.ports, Records([PATH]), add_one)
    assert (world.count(), world.slept) == (1, 0)
