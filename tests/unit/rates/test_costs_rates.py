"""What rates cost, to the last round trip: these figures may only fall."""

from collections.abc import Callable
from datetime import datetime

import pytest

from signalbox.adapters.cost_meter import Cost, measure
from signalbox.core.calls import Call
from signalbox.rates import service
from signalbox.rates.model import RateSettings
from signalbox.rates.requests import AcquireRequest, RateWaitRequest
from tests.unit.cost_table import row_cost
from tests.unit.operations_platform import OperationsPlatform


class World(OperationsPlatform):
    """The platform with one rate: a permit a minute, three at once."""

    def __init__(self) -> None:
        super().__init__()
        service.put(self.ports, "r", RateSettings(1, 3))

    def acquire(self) -> None:
        service.acquire(self.ports, "r", AcquireRequest())

    def wait(self, number: int) -> None:
        service.wait(self.ports, "r", RateWaitRequest(f"w{number}", Call("quilt", "paint", {"n": number})))

    def admit(self) -> None:
        """Run the first admit run."""
        self.pass_time(1)
        [run, *_] = [task for task in self.tasks if task.task == "rate_admit"]
        self.tasks.remove(run)
        service.admit(self.ports, "r", datetime.fromisoformat(run.payload["at"]))


@pytest.fixture
def world() -> World:
    return World()


def cost(act: Callable[[], object]) -> Cost:
    with measure() as counted:
        act()
    return counted


def test_acquires(world: World) -> None:
    assert cost(world.acquire) == row_cost("rates", "acquire")
    for _ in range(2):
        world.acquire()
    assert cost(world.acquire) == row_cost("rates", "refused")


@pytest.mark.parametrize("count", [1, 3])
def test_waits_and_their_grants(world: World, count: int) -> None:
    assert cost(lambda: world.wait(0)) == row_cost("rates", "wait")
    for number in range(1, count):
        world.wait(number)
    assert cost(world.admit) == row_cost("rates", "grant", n=count)


def test_a_run_while_the_next_one_is_due(world: World) -> None:
    for number in range(4):
        world.wait(number)
    world.admit()
    world.tasks.clear()
    world.wait(4)
    assert cost(world.admit) == row_cost("rates", "asleep")


def test_showing_a_rate(world: World) -> None:
    world.wait(0)
    assert cost(lambda: service.get(world.ports, "r")) == row_cost("rates", "show")


def test_a_pause_and_a_resume(world: World) -> None:
    assert cost(lambda: service.pause(world.ports, "r")) == row_cost("rates", "pause")
    assert cost(lambda: service.resume(world.ports, "r")) == row_cost("rates", "resume")
