"""What critical sections cost, to the last round trip: these figures may only fall."""

from collections.abc import Callable

import pytest

from signalbox.adapters.cost_meter import Cost, measure
from signalbox.core.calls import Call
from signalbox.critical_sections import service
from signalbox.critical_sections.model import Grant, SectionRun
from signalbox.critical_sections.requests import SectionRequest
from tests.unit.cost_table import row_cost
from tests.unit.operations_platform import OperationsPlatform


class World(OperationsPlatform):
    """The platform with calls of one key."""

    def called(self, number: int, debounce_seconds: float = 0) -> None:
        call = Call("quilt", "paint", {"square": number})
        service.call(self.ports, "k", SectionRequest(call, debounce_seconds))

    def claimed(self) -> SectionRun:
        run = service.claim(self.ports, Grant.from_context(self.take("paint").context["section"]))
        assert run is not None
        return run


@pytest.fixture
def world() -> World:
    return World()


def cost(act: Callable[[], object]) -> Cost:
    with measure() as counted:
        act()
    return counted


def test_a_call_when_nothing_runs(world: World) -> None:
    assert cost(lambda: world.called(1)) == row_cost("critical_sections", "call")


def test_a_debounced_call_and_those_that_postpone_it(world: World) -> None:
    assert cost(lambda: world.called(1, 10)) == row_cost("critical_sections", "call")
    world.pass_time(5)
    assert cost(lambda: world.called(2, 10)) == row_cost("critical_sections", "call_later")


def test_calls_while_one_runs_and_the_same_again(world: World) -> None:
    world.called(1)
    assert cost(lambda: world.called(2)) == row_cost("critical_sections", "call_later")
    assert cost(lambda: world.called(3)) == row_cost("critical_sections", "call_later")
    assert cost(lambda: world.called(3)) == row_cost("critical_sections", "repeat")


def test_a_run_when_nothing_is_due_next(world: World) -> None:
    world.called(1)
    run = cost(lambda: service.end(world.ports, world.claimed()))
    assert run == row_cost("critical_sections", "run")


def test_a_run_that_is_followed_by_the_next(world: World) -> None:
    world.called(1)
    world.called(2)
    run = cost(lambda: service.end(world.ports, world.claimed()))
    assert run == row_cost("critical_sections", "run_next")


def test_showing_a_section(world: World) -> None:
    world.called(1)
    assert cost(lambda: service.get(world.ports, "k")) == row_cost("critical_sections", "show")
