"""A wait whose granted task is lost returns to the wait queue, an hour after its grant expired."""

import pytest

from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.ports import Delete
from signalbox.semaphores import sweep, tasks
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.model.leases import Granted
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import leases, settings, views, waits
from signalbox.testing.replaced_limits import replaced
from tests.unit.operations_platform import OperationsPlatform

SILENT = LIMITS.claim_seconds + LIMITS.grant_silent_seconds + 1


@pytest.fixture
def world() -> OperationsPlatform:
    world = OperationsPlatform()
    settings.put(world.ports, "s", SemaphoreSettings(1, 60))
    for id_ in ("first", "second"):
        waits.wait(world.ports, "s", WaitRequest(id_, Call("philosophers", "eat", {"who": id_})))
    return world


def taken(world: OperationsPlatform) -> list[Effect]:
    """Run the admit runs that are due within a second, and take the continuations. All other tasks are lost."""
    world.advance(1)
    while admit := [task for task in world.tasks if task.task == "admit" and is_due(world, task)]:
        world.tasks.remove(admit[0])
        tasks.TASKS["admit"](world.ports, admit[0].payload)
        world.advance(1)
    found = [task for task in world.tasks if task.task == "eat"]
    world.tasks.clear()
    return found


def is_due(world: OperationsPlatform, task: Effect) -> bool:
    return task.not_before is None or task.not_before <= world.now


def run(world: OperationsPlatform, task: Effect) -> bool:
    """Run a continuation, and return whether it has claimed its lease."""
    lease = leases.claim(world.ports, Granted.from_context(task.context["lease"]))
    return lease is not None and leases.release(world.ports, lease)


def sweep_after(world: OperationsPlatform, seconds: float) -> None:
    world.advance(seconds)
    sweep.sweep(world.ports)


def test_a_wait_whose_task_is_lost_keeps_its_place_and_runs(world: OperationsPlatform) -> None:
    [lost] = taken(world)
    sweep_after(world, LIMITS.claim_seconds + 1)
    [second] = taken(world)  # the permit is free again, and the next waiter has it
    assert run(world, second)
    sweep_after(world, SILENT)
    [again] = taken(world)
    assert (again.payload, again.name == lost.name) == ({"who": "first"}, False)
    assert run(world, again)
    assert not run(world, lost), "a task that was only late runs under no grant"


def test_a_grant_that_was_claimed_is_not_returned(world: OperationsPlatform) -> None:
    [first] = taken(world)
    assert leases.claim(world.ports, Granted.from_context(first.context["lease"]))
    for _ in range(3):
        sweep_after(world, 2 * SILENT)
        assert first.payload not in [task.payload for task in taken(world)]


@pytest.mark.parametrize("evicted", [False, True])
def test_a_wait_that_was_started_in_time_does_not_time_out(evicted: bool) -> None:
    world = OperationsPlatform()
    settings.put(world.ports, "s", SemaphoreSettings(1, 60))
    late = Call("philosophers", "late", {})
    request = WaitRequest("first", Call("philosophers", "eat", {}), deadline_seconds=5, on_timeout=late)
    waits.wait(world.ports, "s", request)
    [first] = taken(world)
    assert leases.claim(
        world.ports, Granted.from_context(first.context["lease"])
    )  # it raises, and its retry comes after the lease
    world.advance(61)
    with replaced(expired_leases_max=0 if evicted else 100):
        assert waits.wait(world.ports, "s", WaitRequest("second")).acquired
        assert leases.claim(world.ports, Granted.from_context(first.context["lease"])) is None
    assert [task.task for task in world.tasks if task.task == "late"] == []
    waiters = views.get(world.ports, "s").waiters
    assert waiters is not None
    assert [(one.id, one.deadline_at) for one in waiters] == [("first", None)]


def test_an_unclaimed_grant_makes_its_semaphore_due_and_is_dropped_if_its_wait_is_gone(
    world: OperationsPlatform,
) -> None:
    [first] = taken(world)
    waits.cancel(world.ports, "s", "second")
    taken(world)
    world.store.commit([Delete("semaphores/s/waiters/first")])
    for _ in range(3):
        sweep_after(world, SILENT)
    record = world.record("semaphores/s")
    assert record is not None
    assert record["leases"] == []
    assert not run(world, first)


def test_a_semaphore_is_not_deleted_as_unused_before_a_silent_grant_returned(world: OperationsPlatform) -> None:
    settings.put(world.ports, "s", SemaphoreSettings(2, 60, delete_after_seconds=60))
    assert len(taken(world)) == 2  # both are lost, and none waits
    for _ in range(int(SILENT // 300) + 1):
        sweep_after(world, 300)
    assert sorted(task.payload["who"] for task in taken(world)) == ["first", "second"]
