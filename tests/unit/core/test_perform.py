"""Load, decide, commit under a guard, enqueue: and what happens to an operation that loses its race."""

from collections.abc import Callable, Sequence

import pytest

from signalbox.core import outbox
from signalbox.core.effects import Decision, Effect
from signalbox.core.limits import LIMITS
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Committed, Ports, Put, Snapshot, Write
from signalbox.core.problems import NotFound, Unavailable
from tests.unit.operations_platform import OperationsPlatform

PATH = "counters/a"


def add_one(read: tuple[Snapshot, ...]) -> Decision[Writes, int]:
    """Count up, and ask for a task named after the count."""
    count = 1 + (read[0].data["n"] if read[0].data is not None else 0)
    task = Effect(f"count-{count}", "q", "f", "t", {"n": count})
    return Decision((Put(PATH, {"n": count}, read[0].guard),), count, (task,))


def overtaken(world: OperationsPlatform, times: int) -> Callable[[tuple[Snapshot, ...]], Decision[Writes, int]]:
    """Count up, and let another process commit between load and commit, `times` times."""
    left = [times]

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, int]:
        if left[0]:
            left[0] -= 1
            held = world.record(PATH)
            world.store.commit([Put(PATH, {"n": 10 + (held["n"] if held else 0)})])
        return add_one(read)

    return decide


class Lossy:
    """The store over a network that loses the answer of one commit, which took effect."""

    def __init__(self, world: OperationsPlatform) -> None:
        self._store = world.store
        self.read, self.read_some = self._store.read, self._store.read_some
        self.query, self.count = self._store.query, self._store.count
        self.write_each, self.new_id = self._store.write_each, self._store.new_id
        self.losing = True

    def commit(self, writes: Sequence[Write]) -> Committed:
        committed = self._store.commit(writes)
        if self.losing:
            self.losing = False
            raise Unavailable("the answer was lost")
        return committed


def test_a_decision_is_committed_answered_and_its_effects_are_enqueued() -> None:
    world = OperationsPlatform()
    answer, committed = perform(world.ports, [PATH], add_one)
    assert (answer, world.record(PATH)) == (1, {"n": 1})
    assert committed is not None
    assert committed.results[0].update_time == world.store.read(PATH)[0].update_time
    assert ([task.name for task in world.tasks], world.ids("outbox")) == (["count-1"], [])


def test_all_paths_are_loaded_at_one_instant_in_their_order() -> None:
    world = OperationsPlatform()
    world.store.commit([Put("counters/b", {"n": 2})])
    seen: list[Snapshot] = []

    def look(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        seen.extend(read)
        return Decision((), None)

    perform(world.ports, ["counters/b", PATH], look)
    assert [(one.path, one.data) for one in seen] == [("counters/b", {"n": 2}), (PATH, None)]
    assert len({one.read_time for one in seen}) == 1


def test_a_decision_without_writes_commits_nothing() -> None:
    world = OperationsPlatform()

    def do_nothing(_: tuple[Snapshot, ...]) -> Decision[Writes, str]:
        return Decision((), "nothing to do", (Effect("never", "q", "f", "t", {}),))

    assert perform(world.ports, [PATH], do_nothing) == ("nothing to do", None)
    assert (world.record(PATH), world.ids("outbox"), world.tasks) == (None, [], [])


def test_an_operation_that_loses_its_guard_reads_and_decides_again() -> None:
    world = OperationsPlatform()
    answer, _ = perform(world.ports, [PATH], overtaken(world, 2))
    assert (answer, world.record(PATH)) == (21, {"n": 21})
    assert [task.name for task in world.tasks] == ["count-21"]


def test_the_pause_before_deciding_again_doubles_if_each_attempt_takes_long() -> None:
    world = OperationsPlatform()
    decide = overtaken(world, 3)

    def slowly(read: tuple[Snapshot, ...]) -> Decision[Writes, int]:
        world.advance(1)
        return decide(read)

    perform(world.ports, [PATH], slowly)
    assert world.slept_seconds == [0.05, 0.1, 0.2]


def test_an_operation_that_always_loses_its_guard_gives_up_and_writes_nothing() -> None:
    world = OperationsPlatform()
    with pytest.raises(Unavailable):
        perform(world.ports, [PATH], overtaken(world, 1_000))
    assert world.record(PATH) == {"n": 10 * LIMITS.rounds_max}
    assert (world.tasks, world.ids("outbox")) == ([], [])


def test_a_problem_of_the_decision_goes_to_the_caller_and_nothing_is_committed() -> None:
    world = OperationsPlatform()

    def refuse(_: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        raise NotFound("no such counter")

    with pytest.raises(NotFound):
        perform(world.ports, [PATH], refuse)
    assert (world.record(PATH), world.slept_seconds) == (None, [])


def test_a_lost_response_is_unavailable_and_not_decided_again() -> None:
    world = OperationsPlatform()
    ports = Ports(Lossy(world), world, world, world)
    with pytest.raises(Unavailable):
        perform(ports, [PATH], add_one)
    assert (world.record(PATH), world.slept_seconds) == ({"n": 1}, [])


def test_the_effects_of_a_commit_whose_answer_was_lost_survive() -> None:
    world = OperationsPlatform()
    with pytest.raises(Unavailable):
        perform(Ports(Lossy(world), world, world, world), [PATH], add_one)
    assert world.tasks == []
    world.pass_time(LIMITS.outbox_patience_seconds + 1)
    assert outbox.sweep(world.ports) == 1
    assert [(task.name, task.payload) for task in world.tasks] == [("count-1", {"n": 1})]


def test_the_effects_of_a_commit_survive_a_queue_that_is_away() -> None:
    world = OperationsPlatform()
    world.refusal = Unavailable("away")
    assert perform(world.ports, [PATH], add_one)[0] == 1
    world.refusal = None
    world.pass_time(LIMITS.outbox_patience_seconds + 1)
    outbox.sweep(world.ports)
    assert [task.name for task in world.tasks] == ["count-1"]
