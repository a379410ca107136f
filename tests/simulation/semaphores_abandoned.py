"""Waits whose granted tasks are lost: a queue was purged, or gave them up. Their leases lapse, and weeks pass.

Nobody claims these grants, so their leases stay in the semaphore's record until others evict them, which is noted at
their receipts: those must still be there, however old they are.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from shared.core.operations.ports import Ports
from shared.core.rules.calls import Call
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.requests import WaitRequest

if TYPE_CHECKING:
    from tests.simulation.world import World

ABANDONED_SHARE = 0.05
IDS = ("x0", "x1", "x2")
WEEKS = (1, 5, 9)


def abandon(world: World, name: str, sweep: Callable[[Ports], None], random: Random) -> None:
    """Grant some waits, lose their tasks, and pass weeks after each. Nothing fails meanwhile."""
    left, world.fault_rates.left = world.fault_rates.left, 0
    handler, world.task_handlers["user"] = world.task_handlers["user"], lambda *_: None
    for id_ in IDS[: random.randint(1, len(IDS))]:
        semaphores.wait(world.reliable_ports(), name, WaitRequest(id_, Call("user", "continue", {"id": id_})))
        world.run()
        for _ in range(random.choice(WEEKS)):
            world.pass_time(7 * 24 * 3_600)
            world.start("sweep", lambda: sweep(world.ports))
            world.run()
    world.fault_rates.left, world.task_handlers["user"] = left, handler
