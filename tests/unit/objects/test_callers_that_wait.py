"""Callers of one process that wait: their calls are applied together, or posted and applied by the first of them."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from signalbox.core import outbox
from signalbox.core.ports import Committed, Write, unlimited
from signalbox.core.problems import OtherBody, Unavailable
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import StoredMessage
from signalbox.objects import service
from signalbox.objects.machine.deadly_calls import leads
from signalbox.objects.model import KEPT_WAKE_UP, CallRecord, Message, method_call
from signalbox.objects.storage import kept_posts
from tests.unit.cost_table import row_cost
from tests.unit.objects.accounts import CODE, Objects, error_of, result_of
from tests.unit.operations_platform import OperationsPlatform

ADDRESS = ObjectAddress("Counter", "a")


class Sleeping(OperationsPlatform):
    """A platform on which others act during a sleep, or right before a commit."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Callable[[], object]] = []
        self.before_commit: list[Callable[[], object]] = []
        self.commit, store = self.store.commit, self.store
        store.commit = self._commit  # type: ignore[method-assign]  # one store of one test

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def _commit(self, writes: Sequence[Write]) -> Committed:
        if self.before_commit:
            self.before_commit.pop(0)()
        return self.commit(writes)


@pytest.fixture
def platform() -> Sleeping:
    return Sleeping()


@pytest.fixture
def world(platform: Sleeping) -> Objects:
    """Return objects of which `a` exists."""
    found = Objects(platform)
    found.call("a", "first", "add", who="x")
    return found


def add(who: str = "x") -> Message:
    return method_call("add", {"who": who})


def together(world: Objects, calls: Mapping[str, Message]) -> service.Called:
    return service.call_together(world.ports, CODE, ADDRESS, calls, unlimited)


def results(called: service.Called) -> dict[str, object]:
    return {id_: result_of(call) for id_, call in called.items() if isinstance(call, CallRecord)}


def records(platform: Sleeping) -> list[str]:
    return platform.ids(outbox.COLLECTION)


def test_calls_together_are_one_turn_of_two_round_trips(world: Objects, platform: Sleeping) -> None:
    called: service.Called = {}
    cost = platform.cost_of(lambda: called.update(together(world, {"c": add(), "d": add(), "e": add()})))
    assert results(called) == {"c": 2, "d": 3, "e": 4}
    assert cost == row_cost("objects", "call_together", k=3)


def test_one_error_among_calls_together_is_only_its_own(world: Objects) -> None:
    called = together(world, {"c": add(), "d": method_call("fail", {}), "e": add()})
    failed = called["d"]
    assert isinstance(failed, CallRecord)
    assert error_of(failed)["type"] == "method-failed"
    assert results({"c": called["c"], "e": called["e"]}) == {"c": 2, "e": 3}


def test_a_caller_behind_a_posted_call_applies_both_and_no_task_runs(world: Objects, platform: Sleeping) -> None:
    world.post("a", "p", add())
    called: service.Called = {}
    cost = platform.cost_of(lambda: called.update(together(world, {"c": add()})))
    assert results(called) == {"c": 3}
    assert result_of(world.get("a", "p")) == 2
    assert cost == row_cost("objects", "call_leads", k=2)
    assert not records(platform)


def test_a_caller_whose_call_another_turn_applied_has_read_it(world: Objects, platform: Sleeping) -> None:
    world.post("a", "p", add())
    [task] = world.wake_ups()

    def run() -> None:
        platform.pass_time(1)
        world.run(task)

    platform.meanwhile.append(run)
    called: service.Called = {}
    cost = platform.cost_of(lambda: called.update(together(world, {"c": add()})))
    turn = row_cost("objects", "run", k=2)
    behind = row_cost("objects", "call_behind_callers")
    assert results(called) == {"c": 3}
    assert (cost.round_trips, cost.reads) == (turn.round_trips + behind.round_trips, turn.reads + behind.reads)
    assert (cost.writes, cost.deletes) == (turn.writes + behind.writes, behind.deletes)
    assert not records(platform)


def test_a_lost_race_is_followed_by_a_post_and_a_turn_of_ones_own(world: Objects, platform: Sleeping) -> None:
    platform.before_commit.append(lambda: world.call("a", "faster", "add", who="y"))
    assert results(together(world, {"c": add(), "d": add()})) == {"c": 3, "d": 4}
    assert not records(platform)


def test_calls_of_a_process_that_dies_are_woken_by_the_sweeper(world: Objects, platform: Sleeping) -> None:
    world.post("a", "p", add())

    def die() -> None:
        raise KeyboardInterrupt

    platform.before_commit.append(world.run_all)
    platform.meanwhile.append(die)
    with pytest.raises(KeyboardInterrupt):
        together(world, {"c": add(), "d": add()})
    assert not world.wake_ups()
    assert len(records(platform)) == 1
    platform.pass_time(60)
    outbox.sweep(world.ports)
    world.run_all()
    assert [result_of(world.get("a", id_)) for id_ in ("p", "c", "d")] == [2, 3, 4]
    assert not records(platform)


def test_a_caller_that_is_not_the_first_leaves_its_wake_up_to_the_queue_in_the_end(
    world: Objects, platform: Sleeping
) -> None:
    world.post("a", "p", add())

    def die() -> None:
        raise KeyboardInterrupt

    platform.meanwhile.append(die)
    with pytest.raises(KeyboardInterrupt):
        together(world, {"dead": add()})
    platform.tasks.clear()
    platform.pass_time(1)
    [call] = together(world, {"c": add()}).values()
    assert isinstance(call, CallRecord)
    assert call.outcome is None
    assert len(world.wake_ups()) == 1
    world.run_all()
    assert result_of(world.get("a", "c")) == 4


def test_a_repeat_is_answered_and_another_call_under_its_id_is_refused(world: Objects) -> None:
    first = together(world, {"c": add()})
    assert together(world, {"c": add()}) == first
    called = together(world, {"c": add("someone else"), "d": add()})
    assert isinstance(called["c"], OtherBody)
    world.run_all()
    assert result_of(world.get("a", "d")) == 3


def test_a_call_that_is_not_posted_for_sure_is_unavailable(world: Objects, platform: Sleeping) -> None:
    world.post("a", "p", add())
    platform.before_commit.append(_raise_unavailable)
    assert isinstance(together(world, {"c": add()})["c"], Unavailable)


def _raise_unavailable() -> None:
    raise Unavailable("down")


def message(id_: str, **fields: object) -> StoredMessage:
    time = OperationsPlatform().now
    return StoredMessage(id_, fields, time, time, time)


def test_the_last_call_of_a_commit_names_the_kept_wake_up() -> None:
    *others, last = kept_posts(ADDRESS, {"c": add(), "d": add(), "e": add()}, "kept")
    assert last.data[KEPT_WAKE_UP] == "kept"
    assert not any(KEPT_WAKE_UP in put.data for put in others)


def test_the_first_process_that_waits_leads_unless_the_first_message_is_marked() -> None:
    posted, own, later = message("p"), message("c", **{KEPT_WAKE_UP: "own"}), message("d", **{KEPT_WAKE_UP: "later"})
    assert leads((posted, own, later), "own")
    assert not leads((posted, own, later), "later")
    assert not leads((posted,), "own")
    assert not leads((), "own")
    marked = message("m", mark={"attempts": 1, "run": "r", "until": posted.since})
    assert not leads((marked, own), "own")
