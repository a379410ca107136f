"""Waits whose granted tasks are lost, because a queue was purged or dropped them. Their leases expire, and weeks pass.

No task claims these grants, so their leases stay in the semaphore's record until others evict them. The eviction is
noted in their receipts, which must still exist, however old they are.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from signalbox.core.calls import Call
from signalbox.core.ports import Ports
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import waits

if TYPE_CHECKING:
    from tests.simulation.world import World

ABANDONED_SHARE = 0.05
IDS = ("x0", "x1", "x2")
WEEKS = (1, 5, 9)


def abandon(world: World, name: str, sweep: Callable[[Ports], None], random: Random) -> None:
    """Grant some waits, lose their tasks, and let weeks pass after each. Nothing fails in this time."""
    left, world.fault_rates.left = world.fault_rates.left, 0
    handler, world.task_handlers["user"] = world.task_handlers["user"], lambda *_: None
    for id_ in IDS[: random.randint(1, len(IDS))]:
        waits.wait(world.reliable_ports(), name, WaitRequest(id_, Call("user", "continue", {"id": id_})))
        world.run()
        for _ in range(random.choice(WEEKS)):
            world.pass_time(7 * 24 * 3_600)
            world.start("sweep", lambda: sweep(world.ports))
            world.run()
    world.fault_rates.left, world.task_handlers["user"] = left, handler
