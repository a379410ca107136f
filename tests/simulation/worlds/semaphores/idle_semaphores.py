"""Additional semaphores of a world. Each is due at every sweep, and no visit can change it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import settings, waits

if TYPE_CHECKING:
    from tests.simulation.world import World

CROWD = 3
REFUSAL_RATE = 0.5
FUNCTION = "crowd"


class _LosingQueue:
    def create(self, effects: Sequence[Effect]) -> Collection[str]:  # noqa: ARG002  as the port names it
        """Lose the tasks."""
        return ()


def crowd(world: World) -> None:
    """Create semaphores with one free permit and a head of the wait queue that needs two, and lose their alarms."""
    ports = replace(world.reliable_ports(), queue=_LosingQueue())
    world.task_handlers[FUNCTION] = lambda *_: None
    for number in range(CROWD):
        name = f"crowd-{number}"
        settings.put(ports, name, SemaphoreSettings(2, LIMITS.lease_seconds_max))
        waits.wait(ports, name, WaitRequest("holder"))
        waits.wait(ports, name, WaitRequest("head", Call(FUNCTION, "come", {}), permits=2))


def refusing_alarms(random: Random) -> Callable[[Effect], bool]:
    """Return a queue's refusals of admit runs, which the sweeper must compensate."""
    return lambda effect: effect.task == "admit" and random.random() < REFUSAL_RATE
