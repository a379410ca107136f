"""What calls of objects cost: round trips, reads, writes, deletes and tasks."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.core.calls import Call
from signalbox.mailboxes.limits import LIMITS
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.storage import message_put
from signalbox.objects import service, sweep
from signalbox.objects.limits import LIMITS as OBJECTS_LIMITS
from signalbox.objects.machine.classes import ObjectClass
from signalbox.objects.model import CallPlace, Message, call_on_result, continuation_message, method_call
from tests.unit.cost_table import row_cost
from tests.unit.objects import accounts
from tests.unit.objects.accounts import CODE, Objects, result_of
from tests.unit.operations_platform import OperationsPlatform

ADDRESS = ObjectAddress("Counter", "a")


@pytest.fixture
def world() -> Objects:
    """Return objects of which `a` exists: a first call also writes a listing record."""
    found = Objects(OperationsPlatform())
    found.call("a", "first", "add", who="x")
    return found


def cost_of(world: Objects, work: Callable[[], object]) -> Cost:
    return world.world.cost_of(work)


def add(who: str = "x") -> Message:
    return method_call("add", {"who": who})


def run_all_due(world: Objects) -> Cost:
    """Return the cost of the run of the waiting wake-up."""
    [task] = world.wake_ups()
    world.world.tasks.remove(task)
    world.world.pass_time(10)
    return cost_of(world, lambda: world.run(task))


def test_a_call_without_earlier_ones_costs_one_read_and_two_writes(world: Objects) -> None:
    assert cost_of(world, lambda: world.call("a", "c", "add", who="x")) == row_cost("objects", "call")


def test_the_first_call_of_an_object_writes_its_card_and_reads_its_time(world: Objects) -> None:
    assert cost_of(world, lambda: world.call("b", "c", "add", who="x")) == row_cost("objects", "call", "first_call")


def test_a_call_that_sends_a_message_wakes_its_receiver(world: Objects) -> None:
    cost = cost_of(world, lambda: world.call("a", "c", "tell_only", other="b"))
    assert cost == row_cost("objects", "sending")


def test_a_post_costs_a_record_and_a_wake_up_that_posts_of_its_slot_share(world: Objects) -> None:
    expected = row_cost("objects", "post")
    assert cost_of(world, lambda: world.post("a", "p", add())) == expected
    assert cost_of(world, lambda: world.post("a", "q", add())) == expected
    assert len(world.wake_ups()) == 1


def test_a_call_that_finds_others_waiting_is_posted(world: Objects) -> None:
    world.post("a", "p", add())
    cost = cost_of(world, lambda: world.call("a", "c", "add", who="x"))
    assert cost == row_cost("objects", "call_behind")


class QueuedPlatform(OperationsPlatform):
    """A platform that delivers wake-ups during sleeps, each when it is due."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        objects_here = Objects(self)
        for task in objects_here.wake_ups():
            if accounts.due_at(task) <= self.now:
                self.tasks.remove(task)
                objects_here.run(task)


RUN = Cost(round_trips=2, reads=2, writes=2)


@pytest.mark.parametrize(("ago", "slept"), [(0.15, [0.2]), (0.05, [0.2, 0.1]), (0, [0.2, 0.1])])
def test_a_posted_call_is_read_when_its_run_may_be_over_and_not_before(ago: float, slept: list[float]) -> None:
    world = Objects(QueuedPlatform())
    world.call("a", "first", "add", who="x")
    world.world.pass_time(0.2 + ago)
    posted = world.post("a", "p", add())
    place = CallPlace(ADDRESS, "p")
    cost = cost_of(world, lambda: result_of(service.wait_for_posted(world.ports, place, posted, 30)))
    assert world.world.slept_seconds == slept
    assert (cost.round_trips, cost.reads) == (RUN.round_trips + len(slept), RUN.reads + len(slept))


@pytest.mark.parametrize(("seconds", "reads"), [(0.1, 0), (0.2, 1), (1, 4), (3, 6)])
def test_a_posted_call_is_waited_for_as_long_as_asked(world: Objects, seconds: float, reads: int) -> None:
    posted, place = world.post("a", "p", add()), CallPlace(ADDRESS, "p")
    assert cost_of(world, lambda: service.wait_for_posted(world.ports, place, posted, seconds)) == Cost(
        round_trips=reads, reads=reads
    )
    assert sum(world.world.slept_seconds) <= seconds


@pytest.mark.parametrize("count", [1, 20, LIMITS.mailbox_page - 1])
def test_a_run_costs_one_commit_and_a_read_and_a_write_a_call(world: Objects, count: int) -> None:
    for number in range(count):
        world.post("a", f"p{number}", add())
    assert run_all_due(world) == row_cost("objects", "run", k=count)


def test_a_full_page_leaves_its_end_to_a_run_that_it_asks_for(world: Objects) -> None:
    for number in range(60):
        world.post("a", f"p{number:02}", add())
        world.world.pass_time(0.01)
    world.world.tasks[1:] = []
    cost = run_all_due(world)
    taken = cost.writes - 2
    assert 40 <= taken < LIMITS.mailbox_page
    assert cost == row_cost("objects", "run_more", k=taken)


def test_a_page_of_equal_times_is_read_again_with_the_next_one(world: Objects) -> None:
    for number in range(60):
        world.post("a", f"p{number:02}", add())
    assert run_all_due(world) == Cost(round_trips=3, reads=51 + 61, writes=61)


def test_a_message_without_a_receipt_is_deleted_as_it_is_applied(world: Objects) -> None:
    world.post("a", "p", method_call("add", {"who": "x"}, receipt=False))
    assert run_all_due(world) == row_cost("objects", "message")


def test_a_look_at_a_call_or_at_a_state_is_one_read(world: Objects) -> None:
    one = row_cost("objects", "look")
    assert cost_of(world, lambda: world.get("a", "first")) == one
    assert cost_of(world, lambda: service.get_call(world.ports, CallPlace(ADDRESS, "first"))) == one
    assert cost_of(world, lambda: service.read_state(world.ports.store, ADDRESS)) == one


def test_a_continuation_or_a_call_on_a_result_reads_the_call_that_it_follows_on(world: Objects) -> None:
    world.post("a", "t", continuation_message("first", Call("shop", "printed", {})))
    assert run_all_due(world) == row_cost("objects", "then")
    world.world.tasks.clear()
    world.call("a", "opened", "open", other="b")
    world.post("a", "on", call_on_result("opened", "add", {"who": "x"}))
    assert run_all_due(world) == row_cost("objects", "call_on_result")


def test_the_status_of_an_object_is_a_read_and_a_count(world: Objects) -> None:
    assert cost_of(world, lambda: service.get_object(world.ports, ADDRESS)).round_trips == 2


def test_a_second_delivery_of_a_wake_up_costs_a_look(world: Objects) -> None:
    world.post("a", "p", add())
    [task] = world.wake_ups()
    run_all_due(world)
    assert cost_of(world, lambda: world.run(task)) == row_cost("objects", "repeat")


def test_a_run_whose_time_another_turn_has_read_behind_costs_a_look_though_something_waits(world: Objects) -> None:
    """So the runs of a burst do not lose races to each other: all but the last end at once."""
    for number in range(5):
        world.post("a", f"p{number}", add())
        world.world.pass_time(0.25)
    first, *_, last = world.wake_ups()
    world.world.pass_time(10)
    world.run(last)
    world.post("a", "newer", add())
    assert cost_of(world, lambda: world.run(first)) == Cost(round_trips=1, reads=2)
    world.run_all()
    assert world.state("a")["total"] == 7


class InTurn:
    """Counts the calls whose number is theirs."""

    total: int = 0

    def take(self, number: int) -> int:
        self.total += number == self.total
        return self.total


@pytest.mark.parametrize("waiting", [400, pytest.param(10_000, marks=pytest.mark.marathon)])
def test_a_mailbox_in_which_many_calls_wait_is_drained_at_the_cost_of_full_pages(
    waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any number of waiting calls, a turn applies a page without its last 50 ms, and adds its header and a task."""
    monkeypatch.setattr(accounts, "CODE", replace(CODE, apply=ObjectClass.from_class(InTurn).apply))
    world = Objects(OperationsPlatform())
    world.call("a", "first", "take", number=0)
    for number in range(1, waiting):  # 200 calls a second; one wake-up suffices
        message = method_call("take", {"number": number}).to_record()
        world.ports.store.commit([message_put(ADDRESS.base, f"p{number:05}", message)])
        world.world.pass_time(0.005)
    world.post("a", "last", method_call("take", {"number": waiting}))
    cost = cost_of(world, world.run_all)
    assert result_of(world.get("a", "last")) == waiting + 1
    turns = cost.tasks + 1
    assert turns <= waiting / (LIMITS.mailbox_page - 11) + 2
    assert cost.reads <= turns * (LIMITS.mailbox_page + 1)
    assert cost.writes == waiting + turns + cost.tasks
    assert cost.round_trips <= 4 * turns


def test_a_call_whose_wake_up_is_lost_costs_a_look_of_the_sweeper_and_a_run(world: Objects) -> None:
    world.post("a", "lost", add())
    world.world.tasks.clear()
    world.world.pass_time(OBJECTS_LIMITS.call_silent_seconds + 1)
    row = row_cost("sweeper", "silent_call")
    found = replace(row, round_trips=row.round_trips + 1, reads=row.reads + 1)  # with the query that finds any
    assert cost_of(world, lambda: sweep.sweep(world.ports, {"Counter": "counters"})) == found
