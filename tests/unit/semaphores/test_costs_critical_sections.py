"""What critical sections cost, to the last round trip: these figures may only fall."""

from collections.abc import Callable

import pytest

from shared.adapters.meter import Cost, measure
from shared.core.rules.calls import Call
from shared.core.rules.task_context import SectionRun
from shared.semaphores.operations import critical_sections
from shared.semaphores.rules.section_requests import SectionRequest
from tests.unit.operations_platform import OperationsPlatform


class World(OperationsPlatform):
    """The platform with calls of one key."""

    def called(self, number: int, debounce_seconds: float = 0) -> None:
        call = Call("quilt", "paint", {"square": number})
        critical_sections.call(self.ports, "k", SectionRequest(call, debounce_seconds))

    def claimed(self) -> SectionRun:
        run = critical_sections.claim(self.ports, self.take("paint").context["section"])
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
    assert cost(lambda: world.called(1)) == Cost(round_trips=4, reads=1, writes=2, deletes=1, tasks=1)


def test_a_debounced_call_and_those_that_postpone_it(world: World) -> None:
    assert cost(lambda: world.called(1, 10)) == Cost(round_trips=4, reads=1, writes=2, deletes=1, tasks=1)
    world.pass_time(5)
    assert cost(lambda: world.called(2, 10)) == Cost(round_trips=2, reads=1, writes=1)


def test_calls_while_one_runs_and_the_same_again(world: World) -> None:
    world.called(1)
    assert cost(lambda: world.called(2)) == Cost(round_trips=2, reads=1, writes=1)
    assert cost(lambda: world.called(3)) == Cost(round_trips=2, reads=1, writes=1)
    assert cost(lambda: world.called(3)) == Cost(round_trips=1, reads=1)


def test_a_run_when_nothing_is_due_next(world: World) -> None:
    world.called(1)
    run = cost(lambda: critical_sections.end(world.ports, world.claimed()))
    assert run == Cost(round_trips=4, reads=2, writes=2)


def test_a_run_that_is_followed_by_the_next(world: World) -> None:
    world.called(1)
    world.called(2)
    run = cost(lambda: critical_sections.end(world.ports, world.claimed()))
    assert run == Cost(round_trips=6, reads=2, writes=3, deletes=1, tasks=1)


def test_showing_a_section(world: World) -> None:
    world.called(1)
    assert cost(lambda: critical_sections.get(world.ports, "k")) == Cost(round_trips=1, reads=1)
