"""A waiter that blocked others from free permits wakes them at once when it leaves the wait queue."""

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.core.calls import Call
from signalbox.semaphores import tasks
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, waits
from tests.unit.operations_platform import OperationsPlatform

CALL = Call("philosophers", "eat", {})
DEADLINE_SECONDS = 5


@pytest.fixture
def world() -> OperationsPlatform:
    """Two permits, one of them held; the head needs both, and the next waiter one of them."""
    world = OperationsPlatform()
    settings.put(world.ports, "s", SemaphoreSettings(2, 3_600))
    waits.wait(world.ports, "s", WaitRequest("holder"))
    head = WaitRequest("head", CALL, permits=2, deadline_seconds=DEADLINE_SECONDS)
    for request in (head, WaitRequest("next", CALL), WaitRequest("last", CALL)):
        assert waits.wait(world.ports, "s", request).waiting
    run_due_admit_runs(world)
    assert granted(world) == []
    return world


def run_due_admit_runs(world: OperationsPlatform) -> None:
    """Run the admit runs that are due within a second."""
    world.advance(1)
    due = [one for one in world.tasks if one.task == "admit" and one.not_before and one.not_before <= world.now]
    for task in due:
        world.tasks.remove(task)
        tasks.TASKS[task.task](world.ports, task.payload)


def granted(world: OperationsPlatform) -> list[str]:
    return [one.context["lease"]["id"].partition("~")[0] for one in world.tasks if one.task == "eat"]


def test_the_cancel_of_a_head_that_wants_several_permits_wakes_the_next(world: OperationsPlatform) -> None:
    assert waits.cancel(world.ports, "s", "head")
    run_due_admit_runs(world)
    assert granted(world) == ["next"]


def test_the_time_out_of_a_head_that_wants_several_permits_wakes_the_next(world: OperationsPlatform) -> None:
    world.advance(DEADLINE_SECONDS)
    tasks.TASKS["deadline"](world.ports, {"semaphore": "s", "id": "head"})
    run_due_admit_runs(world)
    assert granted(world) == ["next"]


def test_the_cancel_of_a_head_costs_an_outbox_record_and_a_task_more(world: OperationsPlatform) -> None:
    cost = world.cost_of(lambda: waits.cancel(world.ports, "s", "head"))
    assert cost == Cost(round_trips=4, reads=2, writes=2, deletes=1, tasks=1)


def test_the_cancel_of_a_wait_for_one_permit_costs_nothing_more(world: OperationsPlatform) -> None:
    cost = world.cost_of(lambda: waits.cancel(world.ports, "s", "next"))
    assert cost == Cost(round_trips=2, reads=2, writes=1)


def test_waits_that_did_not_fit_into_the_commit_of_a_run_are_granted_by_the_next_run() -> None:
    world = OperationsPlatform()
    settings.put(world.ports, "s", SemaphoreSettings(40, 3_600))
    lease = waits.wait(world.ports, "s", WaitRequest("holder", permits=40)).lease
    assert lease
    large = Call("philosophers", "eat", {"text": "x" * 90_000})
    for number in range(20):
        waits.wait(world.ports, "s", WaitRequest(f"w{number:02}", large))
    leases.signal(world.ports, "s", SignalRequest(lease.id))
    for _ in range(10):
        run_due_admit_runs(world)
    assert sorted(granted(world)) == [f"w{number:02}" for number in range(20)]
