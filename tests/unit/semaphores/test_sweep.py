"""The sweeper visits every semaphore that is due, and none again at once that a visit did not change."""

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.core.calls import Call
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Put
from signalbox.core.times import EPOCH
from signalbox.semaphores import sweep
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import settings, waits
from tests.sweeper_budgets import budget_of
from tests.unit.operations_platform import OperationsPlatform

CALL = Call("philosophers", "eat", {})
HOURS = 3 * 3_600.0
MINUTE = 60


@pytest.fixture
def world() -> OperationsPlatform:
    return OperationsPlatform()


def hold(world: OperationsPlatform, name: str, seconds: float) -> None:
    assert waits.wait(world.ports, name, WaitRequest("holder", lease_seconds=seconds)).lease is not None


def blocked(world: OperationsPlatform, name: str) -> None:
    """Leave one permit free, and a head of the wait queue that needs two."""
    settings.put(world.ports, name, SemaphoreSettings(2, HOURS))
    hold(world, name, HOURS)
    assert waits.wait(world.ports, name, WaitRequest("head", CALL, permits=2)).waiting


def lose_alarm(world: OperationsPlatform, name: str) -> None:
    """Leave a waiter behind a lease that ends, with its alarm lost."""
    settings.put(world.ports, name, SemaphoreSettings(1, 10))
    hold(world, name, 10)
    assert waits.wait(world.ports, name, WaitRequest("waiter", CALL)).waiting
    world.tasks.clear()


def sweeps_until_granted(world: OperationsPlatform, records: int) -> int:
    """Count the minutes until the waiter's continuation is enqueued."""
    for minutes in range(1, 20):
        world.advance(MINUTE)
        sweep.sweep(world.ports, budget_of(records))
        if any(task.task == "eat" for task in world.tasks):
            return minutes
    raise AssertionError("the lost alarm is never repaired")


def test_semaphores_whose_head_wants_more_than_is_free_do_not_hide_a_lost_alarm(world: OperationsPlatform) -> None:
    for number in range(50):
        blocked(world, f"blocked-{number}")
    world.advance(MINUTE)
    lose_alarm(world, "lost")
    assert sweeps_until_granted(world, 50) == 2


def test_visits_that_fail_do_not_hide_a_lost_alarm(world: OperationsPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        blocked(world, f"blocked-{number}")
    world.advance(MINUTE)
    lose_alarm(world, "lost")
    monkeypatch.setattr(CORE_LIMITS, "rounds_max", 0)  # each guarded commit loses every race
    world.advance(MINUTE)
    sweep.sweep(world.ports, budget_of(50))
    monkeypatch.undo()
    assert sweeps_until_granted(world, 50) == 1


def test_a_semaphore_that_a_visit_leaves_as_it_was_is_due_again_later_each_time(world: OperationsPlatform) -> None:
    blocked(world, "s")
    pauses = []
    for _ in range(6):
        due_at = world.record("semaphores/s")["sweep_at"]
        world.clock.advance_to(due_at)
        assert sweep.sweep(world.ports) == 1
        assert sweep.sweep(world.ports) == 0
        pauses.append(round((world.record("semaphores/s")["sweep_at"] - world.now).total_seconds()))
    assert pauses == [20, 40, 80, 120, 120, 120]


def test_a_visit_that_changes_nothing_writes_once(world: OperationsPlatform) -> None:
    blocked(world, "s")
    world.advance(MINUTE)
    assert world.cost_of(lambda: sweep.sweep(world.ports)) == Cost(round_trips=6, reads=5, writes=1)


def test_a_postponed_semaphore_is_due_when_a_lease_ends(world: OperationsPlatform) -> None:
    settings.put(world.ports, "s", SemaphoreSettings(2, 70))
    hold(world, "s", 70)
    assert waits.wait(world.ports, "s", WaitRequest("head", CALL, permits=2)).waiting
    [lease] = world.record("semaphores/s")["leases"]
    world.advance(MINUTE)
    sweep.sweep(world.ports)
    assert world.record("semaphores/s")["sweep_at"] == lease["ends_at"]


def test_a_held_semaphore_with_an_end_of_use_is_due_once_after_its_lease(world: OperationsPlatform) -> None:
    settings.put(world.ports, "s", SemaphoreSettings(1, HOURS, delete_after_seconds=30))
    hold(world, "s", HOURS)
    world.advance(MINUTE)
    assert [sweep.sweep(world.ports) for _ in range(2)] == [1, 0]
    world.advance(HOURS - MINUTE + LIMITS.sweep_pause_seconds + 1)
    assert sweep.sweep(world.ports) == 1
    assert world.record("semaphores/s") is None


def test_a_record_that_cannot_be_read_does_not_keep_the_sweeper_from_the_others(world: OperationsPlatform) -> None:
    lose_alarm(world, "door")
    world.ports.store.commit([Put("semaphores/bad", {"sweep_at": None}), Put("semaphores/worse", {"sweep_at": EPOCH})])
    world.pass_time(HOURS)
    assert sweep.sweep(world.ports) == 3
    assert "eat" in [task.task for task in world.tasks]
    assert sweep.sweep(world.ports) == 0
