"""Other semaphores beside the one of a world: each is due at every sweep, and no visit can change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.requests import SemaphoreSettings, WaitRequest

if TYPE_CHECKING:
    from tests.simulation.world import World

CROWD = 3
REFUSAL_RATE = 0.5
FUNCTION = "crowd"


class _LosingQueue:
    def create(self, effects: Sequence[Effect]) -> None:
        """Lose the tasks."""


def crowd(world: World) -> None:
    """Create semaphores with a free permit beside a head of the wait queue that wants two, and lose their alarms."""
    ports = replace(world.reliable_ports(), queue=_LosingQueue())
    world.task_handlers[FUNCTION] = lambda *_: None
    for number in range(CROWD):
        name = f"crowd-{number}"
        semaphores.put(ports, name, SemaphoreSettings(2, LIMITS.lease_seconds_max))
        semaphores.wait(ports, name, WaitRequest("holder"))
        semaphores.wait(ports, name, WaitRequest("head", Call(FUNCTION, "come", {}), permits=2))


def refusing_alarms(random: Random) -> Callable[[Effect], bool]:
    """Return a queue's refusals of admit runs, which the sweeper must make up for."""
    return lambda effect: effect.task == "admit" and random.random() < REFUSAL_RATE
