"""Who leaves the wait queue, and kept free permits from others, wakes those behind at once."""

import pytest

from shared.adapters.meter import Cost
from shared.core.rules.calls import Call
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.requests import SemaphoreSettings, WaitRequest
from tests.unit.operations_platform import OperationsPlatform

CALL = Call("philosophers", "eat", {})
DEADLINE_SECONDS = 5


@pytest.fixture
def world() -> OperationsPlatform:
    """Two permits, one of them held; the head wants both, and the next one of them."""
    world = OperationsPlatform()
    semaphores.put(world.ports, "s", SemaphoreSettings(2, 3_600))
    semaphores.wait(world.ports, "s", WaitRequest("holder"))
    head = WaitRequest("head", CALL, permits=2, deadline_seconds=DEADLINE_SECONDS)
    for request in (head, WaitRequest("next", CALL), WaitRequest("last", CALL)):
        assert semaphores.wait(world.ports, "s", request).waiting
    run_due_admit_runs(world)
    assert granted(world) == []
    return world


def run_due_admit_runs(world: OperationsPlatform) -> None:
    """Run the admit runs that are due within a second."""
    world.advance(1)
    due = [one for one in world.tasks if one.task == "admit" and one.not_before and one.not_before <= world.now]
    for task in due:
        world.tasks.remove(task)
        semaphores.run(world.ports, task.task, task.payload)


def granted(world: OperationsPlatform) -> list[str]:
    return [one.context["lease"]["id"].partition("~")[0] for one in world.tasks if one.task == "eat"]


def test_the_cancel_of_a_head_that_wants_several_permits_wakes_the_next(world: OperationsPlatform) -> None:
    assert semaphores.cancel(world.ports, "s", "head")
    run_due_admit_runs(world)
    assert granted(world) == ["next"]


def test_the_time_out_of_a_head_that_wants_several_permits_wakes_the_next(world: OperationsPlatform) -> None:
    world.advance(DEADLINE_SECONDS)
    semaphores.run(world.ports, "deadline", {"semaphore": "s", "id": "head"})
    run_due_admit_runs(world)
    assert granted(world) == ["next"]


def test_the_cancel_of_a_head_costs_a_read_and_a_task_more(world: OperationsPlatform) -> None:
    cost = world.cost_of(lambda: semaphores.cancel(world.ports, "s", "head"))
    assert cost == Cost(round_trips=4, reads=3, writes=1, tasks=1)


def test_the_cancel_of_a_wait_for_one_permit_costs_nothing_more(world: OperationsPlatform) -> None:
    cost = world.cost_of(lambda: semaphores.cancel(world.ports, "s", "next"))
    assert cost == Cost(round_trips=2, reads=2, writes=1)
