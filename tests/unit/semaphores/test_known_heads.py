"""A wait that joins behind others writes no other record, and an order that was found once is not read again."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.core.calls import Call
from signalbox.core.ports import Query, Snapshot
from signalbox.semaphores import tasks
from signalbox.semaphores.model.leases import Granted
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, waits
from tests.unit.operations_platform import OperationsPlatform

CALL = Call("philosophers", "eat", {})


class World(OperationsPlatform):
    """One semaphore of one permit, and waits ten milliseconds apart: too close for one query to tell their order."""

    def __init__(self, permits: int = 1) -> None:
        super().__init__()
        settings.put(self.ports, "s", SemaphoreSettings(permits, 60))

    def hold(self, permits: int = 1) -> str:
        lease = waits.wait(self.ports, "s", WaitRequest("holder", permits=permits)).lease
        assert lease is not None
        return lease.id

    def wait(self, *ids: str) -> None:
        for id_ in ids:
            assert waits.wait(self.ports, "s", WaitRequest(id_, CALL)).waiting
            self.pass_time(0.01)

    def grants(self) -> list[Granted]:
        return [Granted.from_context(one.context["lease"]) for one in self.tasks if one.task == "eat"]

    def granted(self) -> list[str]:
        return [lease.wait_id for lease in self.grants()]

    def signal_the_last(self) -> None:
        lease = leases.claim(self.ports, self.grants()[-1])
        assert lease is not None
        leases.signal(self.ports, "s", SignalRequest(lease.id))

    def admit(self) -> None:
        tasks.admit(self.ports, "s")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def passed_on(world: World) -> World:
    """Pass the permit on to the first of a queue."""
    held = world.hold()
    world.wait(*(f"w{number}" for number in range(10)))
    leases.signal(world.ports, "s", SignalRequest(held))
    assert world.granted() == ["w0"]
    return world


class Meanwhile:
    """A store in which something happens right after the first query."""

    def __init__(self, store: Any, act: Callable[[], object]) -> None:
        self._store, self._acts = store, [act]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        found: tuple[Snapshot, ...] = self._store.query(query)
        while self._acts:
            self._acts.pop()()
        return found


def test_a_wait_behind_others_does_not_write_the_semaphores_record(world: World) -> None:
    world.hold()
    world.wait("a")
    before = world.record("semaphores/s")
    world.wait("b", "c")
    assert world.record("semaphores/s") == before


def test_a_waiter_that_comes_after_a_signals_query_gets_a_permit_that_is_left_over() -> None:
    world = World(permits=2)
    held = world.hold(permits=2)
    world.wait("a")
    during = replace(world.ports, store=Meanwhile(world.ports.store, lambda: world.wait("b")))
    leases.signal(during, "s", SignalRequest(held))
    assert (world.granted(), [one.task for one in world.tasks].count("admit")) == (["a"], 3)  # two alarms and a nudge
    world.admit()
    assert world.granted() == ["a", "b"]


def test_the_order_that_was_found_is_followed_without_another_query(passed_on: World) -> None:
    leases.claim(passed_on.ports, passed_on.grants()[-1])
    lease = passed_on.record("semaphores/s")["leases"][0]
    signal = SignalRequest(f"{lease['id']}~{lease['token']}")
    cost = passed_on.cost_of(lambda: leases.signal(passed_on.ports, "s", signal))
    assert (cost.reads, passed_on.granted()) == (2, ["w0", "w1"])


def test_all_are_granted_in_their_order(passed_on: World) -> None:
    for _ in range(9):
        passed_on.signal_the_last()
    assert passed_on.granted() == [f"w{number}" for number in range(10)]


def test_a_known_waiter_that_left_is_passed_by(passed_on: World) -> None:
    assert waits.cancel(passed_on.ports, "s", "w1")
    passed_on.signal_the_last()
    assert passed_on.granted() == ["w0", "w2"]


def test_a_lost_grant_returns_before_all_known_waiters(passed_on: World) -> None:
    lost = passed_on.grants()[-1]
    passed_on.pass_time(31)
    passed_on.admit()
    assert leases.claim(passed_on.ports, lost) is None
    passed_on.signal_the_last()
    assert passed_on.granted() == ["w0", "w1", "w0"]


def test_an_admit_run_that_finds_all_permits_held_reads_no_waiter(world: World) -> None:
    world.hold()
    world.wait("a", "b", "c")
    assert world.cost_of(world.admit) == Cost(round_trips=2, reads=2)
