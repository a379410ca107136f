"""What calls of objects cost: round trips, reads, writes, deletes and tasks."""

from collections.abc import Callable

import pytest

from shared.adapters.meter import Cost
from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.objects.operations import calls, objects
from shared.objects.operations.calls import Placeholder
from shared.objects.rules.addresses import ObjectAddress
from shared.objects.rules.messages import Message, call_on_result, continuation_message, method_call
from tests.unit.objects.accounts import Objects
from tests.unit.operations_platform import OperationsPlatform

ADDRESS = ObjectAddress("Counter", "a")


@pytest.fixture
def world() -> Objects:
    """Return objects of which `a` exists, since its first call writes a card, too."""
    found = Objects(OperationsPlatform())
    found.call("a", "first", "add", who="x")
    return found


def cost_of(world: Objects, work: Callable[[], object]) -> Cost:
    return world.world.cost_of(work)


def add(who: str = "x") -> Message:
    return method_call("add", {"who": who})


def run_all_due(world: Objects) -> Cost:
    """Return what the run of the wake-up that waits costs."""
    [task] = world.wake_ups()
    world.world.tasks.remove(task)
    world.world.pass_time(10)
    return cost_of(world, lambda: world.run(task))


def test_a_call_that_nobody_waits_before_costs_one_read_and_two_writes(world: Objects) -> None:
    assert cost_of(world, lambda: world.call("a", "c", "add", who="x")) == Cost(round_trips=2, reads=1, writes=2)


def test_the_first_call_of_an_object_writes_its_card_and_reads_its_time(world: Objects) -> None:
    assert cost_of(world, lambda: world.call("b", "c", "add", who="x")) == Cost(round_trips=3, reads=2, writes=3)


def test_a_call_that_sends_a_message_wakes_whom_it_sends_to(world: Objects) -> None:
    cost = cost_of(world, lambda: world.call("a", "c", "tell_only", other="b"))
    assert cost == Cost(round_trips=4, reads=1, writes=4, deletes=1, tasks=1)


def test_a_post_costs_a_record_and_a_wake_up_that_posts_of_its_slot_share(world: Objects) -> None:
    expected = Cost(round_trips=3, writes=2, deletes=1, tasks=1)
    assert cost_of(world, lambda: world.post("a", "p", add())) == expected
    assert cost_of(world, lambda: world.post("a", "q", add())) == expected
    assert len(world.wake_ups()) == 1


def test_a_call_that_finds_others_waiting_is_posted(world: Objects) -> None:
    world.post("a", "p", add())
    cost = cost_of(world, lambda: world.call("a", "c", "add", who="x"))
    assert cost == Cost(round_trips=4, reads=2, writes=2, deletes=1, tasks=1)


@pytest.mark.parametrize("count", [1, 20, LIMITS.mailbox_page - 1])
def test_a_run_costs_one_commit_and_a_read_and_a_write_a_call(world: Objects, count: int) -> None:
    for number in range(count):
        world.post("a", f"p{number}", add())
    assert run_all_due(world) == Cost(round_trips=2, reads=count + 1, writes=count + 1)


def test_a_full_page_leaves_its_end_to_a_run_that_it_asks_for(world: Objects) -> None:
    for number in range(60):
        world.post("a", f"p{number:02}", add())
        world.world.pass_time(0.01)
    world.world.tasks[1:] = []
    cost = run_all_due(world)
    taken = cost.writes - 2
    assert 40 <= taken < LIMITS.mailbox_page
    assert cost == Cost(round_trips=4, reads=LIMITS.mailbox_page + 1, writes=taken + 2, deletes=1, tasks=1)


def test_a_page_that_came_all_at_once_is_read_again_with_what_follows(world: Objects) -> None:
    for number in range(60):
        world.post("a", f"p{number:02}", add())
    assert run_all_due(world) == Cost(round_trips=3, reads=51 + 61, writes=61)


def test_a_message_without_a_receipt_is_deleted_as_it_is_applied(world: Objects) -> None:
    world.post("a", "p", method_call("add", {"who": "x"}, receipt=False))
    assert run_all_due(world) == Cost(round_trips=2, reads=2, writes=1, deletes=1)


def test_a_look_at_a_call_or_at_a_state_is_one_read(world: Objects) -> None:
    one = Cost(round_trips=1, reads=1)
    assert cost_of(world, lambda: world.get("a", "first")) == one
    assert cost_of(world, lambda: calls.get_call(world.ports, Placeholder(ADDRESS, "first"))) == one
    assert cost_of(world, lambda: objects.read_state(world.ports.store, ADDRESS)) == one


def test_a_continuation_or_a_call_on_a_result_reads_the_call_that_it_follows_on(world: Objects) -> None:
    world.post("a", "t", continuation_message("first", Call("shop", "printed", {})))
    assert run_all_due(world) == Cost(round_trips=5, reads=3, writes=3, deletes=1, tasks=1)
    world.world.tasks.clear()
    world.call("a", "opened", "open", other="b")
    world.post("a", "on", call_on_result("opened", "add", {"who": "x"}))
    assert run_all_due(world) == Cost(round_trips=5, reads=3, writes=4, deletes=1, tasks=1)


def test_the_status_of_an_object_is_a_read_and_a_count(world: Objects) -> None:
    assert cost_of(world, lambda: objects.get_object(world.ports, ADDRESS)).round_trips == 2


def test_a_second_delivery_of_a_wake_up_costs_a_look(world: Objects) -> None:
    world.post("a", "p", add())
    [task] = world.wake_ups()
    run_all_due(world)
    assert cost_of(world, lambda: world.run(task)) == Cost(round_trips=1, reads=1)
