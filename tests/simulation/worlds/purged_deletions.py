"""The end of a world of semaphores or rates, in some seeds: the queues are purged while its limiter is deleted.

A purge may take the task that deletes the records below. Another DELETE then finds what is left: no record stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from signalbox.core import outbox
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports, Query
from signalbox.core.problems import NotFound
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

SHARE = 0.15
"""The share of worlds that end in this way."""

STEPS_MAX, FAULTS_MAX = 8, 2
"""Round trips of the deletion before the purge, and faults meanwhile."""


def is_deleted(world: World, seed: int) -> bool:
    """Return whether a world ends in this way. The last release does not delete what is left."""
    return world.versions is None and Random(f"purged deletion {seed}").random() < SHARE


def delete_and_purge(
    world: World, seed: int, delete: Callable[[Ports], None], collections: Collection[str], queue: str
) -> None:
    """Delete a limiter at rest, and purge a queue meanwhile. Raises `Violation` if records stay in the collections."""
    own = Random(f"purge of a deletion {seed}")
    steps, world.fault_rates.left = own.randint(1, STEPS_MAX), own.randint(0, FAULTS_MAX)

    def purge() -> None:
        for _ in range(steps):
            world.step("does other work")
        world.queue.purge(lambda effect: effect.queue == queue)

    def act() -> None:
        with suppress(NotFound):
            delete(world.ports)

    def deleting() -> None:
        world.start("deletes", act, lambda done: None if done else deleting())

    world.run([deleting, lambda: world.start("purges", purge)])
    world.fault_rates.left = 0
    for _ in range(2):
        world.pass_time(LIMITS.outbox_patience_seconds + 1)
        world.start("sweep", lambda: _sweep(world))
        world.run()
    world.run([deleting])
    if left := [one.path for collection in collections for one in world.store.query(Query(collection))]:
        raise Violation(f"{left} are left of what was deleted")


def _sweep(world: World) -> None:
    outbox.sweep(world.ports)
