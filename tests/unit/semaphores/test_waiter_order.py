"""Permits go to waiters in the order in which their records were created, whatever their `since` says."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from signalbox.core.calls import Call
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports
from signalbox.core.queue_order import head_of
from signalbox.core.surface.settings_patch import SettingsPatch
from signalbox.semaphores import sweep, tasks
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.model.waiters import Waiter
from signalbox.semaphores.requests import SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, waits
from signalbox.testing.memory_store import MemoryStore
from signalbox.testing.replaced_limits import replaced
from tests.unit.operations_platform import OperationsPlatform

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CALL = Call("philosophers", "eat", {})


def waiter(id_: str, created_ms: int, since_ms: int) -> Waiter:
    created_at, since = (NOON + timedelta(milliseconds=each) for each in (created_ms, since_ms))
    return Waiter(WaitRequest(id_, CALL), 7, since=since, created_at=created_at, version=created_at)


def ids(waiters: tuple[Waiter, ...]) -> list[str]:
    return [one.id for one in waiters]


def test_the_order_is_that_of_the_create_times() -> None:
    page = [waiter("a", 4, 1), waiter("b", 2, 1), waiter("c", 3, 2)]
    assert ids(head_of(page, more=False)) == ["b", "c", "a"]


def test_waiters_close_to_the_end_of_a_full_page_are_left_out() -> None:
    page = [waiter("a", 5, 0), waiter("b", 49, 10), waiter("c", 51, 20), waiter("d", 100, 100)]
    assert LIMITS.since_ahead_seconds == 0.05
    assert ids(head_of(page, more=True)) == ["a", "b"]


class World(OperationsPlatform):
    """One semaphore whose only permit is held; waits of one moment, with `since` as their commits' `strays` say."""

    def __init__(self) -> None:
        super().__init__()
        self.strays: Iterator[int] = iter(())
        self.store = MemoryStore(lambda: self.clock.now, stray=lambda: timedelta(milliseconds=next(self.strays, 0)))
        self.ports = Ports(self.store, self, self, self)
        settings.put(self.ports, "s", SemaphoreSettings(1, 60))

    def hold(self) -> str:
        lease = waits.wait(self.ports, "s", WaitRequest("holder")).lease
        assert lease is not None
        return lease.id

    def wait(self, id_: str) -> None:
        assert waits.wait(self.ports, "s", WaitRequest(id_, CALL)).waiting

    def granted(self) -> list[str]:
        return [one.context["lease"]["id"].partition("~")[0] for one in self.tasks if one.task == "eat"]


@pytest.fixture
def world() -> World:
    return World()


def test_a_signal_grants_to_the_first_waiter_within_a_millisecond(world: World) -> None:
    lease = world.hold()
    for id_ in ("b", "a"):
        world.wait(id_)
    leases.signal(world.ports, "s", SignalRequest(lease))
    assert world.granted() == ["b"]


def test_a_signal_grants_to_the_first_waiter_by_commit_time(world: World) -> None:
    lease = world.hold()
    world.strays = iter([49, 40, 0])
    for id_ in ("a", "b", "c"):
        world.wait(id_)
    leases.signal(world.ports, "s", SignalRequest(lease))
    assert world.granted() == ["a"]


def test_an_admit_run_grants_in_order_over_a_full_page(world: World) -> None:
    lease = world.hold()
    world.strays = iter([20, 10, 0, 0])
    for id_ in "abcd":
        world.wait(id_)
    leases.signal(world.ports, "s", SignalRequest(lease))
    settings.patch(world.ports, "s", SettingsPatch({"permits": 4}))
    with replaced(grants_page_max=2):
        for _ in range(3):
            tasks.admit(world.ports, "s")
    assert world.granted() == ["a", "b", "c", "d"]


def test_a_wait_repeated_for_a_later_semaphore_of_the_name_has_no_early_place(world: World) -> None:
    world.hold()
    world.wait("a")
    sweep.delete(world.ports, "s")
    settings.put(world.ports, "s", SemaphoreSettings(1, 60))
    lease = world.hold()
    for id_ in ("b", "a"):
        world.wait(id_)
    leases.signal(world.ports, "s", SignalRequest(lease))
    assert world.granted() == ["b"]
