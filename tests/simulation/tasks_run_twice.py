"""The one way in which a user's task may run twice under two creations, and the count of it.

A name is free again an hour or more after its task ran. If an outbox record still asks for the task then, the next
sweep creates it again: at least once, as the kit promises. A record asks for it that long only if a call failed or a
process died after the creation, so that nobody marked the task as enqueued, and no sweep came for an hour. Any other
second creation of a user's task is a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.ports import Query
from tests.simulation.cloud_tasks import NAME_KEPT_SECONDS
from tests.simulation.reached_counts import REACHED, RUN_AGAIN
from tests.simulation.world import Violation, World


def allow_from_an_old_outbox_record(world: World, effect: Effect) -> None:
    """Count a second creation. Raises `Violation` unless an outbox record older than an hour asks for it."""
    task = f"task {effect.task} {dict(effect.payload)}"
    if effect.name not in set(names_in_old_records(world)):
        raise Violation(f"{task} was created again, but by no old outbox record")
    if world.faults == world.queue.faults_before[effect.name]:
        raise Violation(f"{task} was created again, though nothing failed since the queue had taken it")
    REACHED[RUN_AGAIN] += 1


def names_in_old_records(world: World) -> Iterator[str]:
    """Iterate over the names of the tasks that outbox records of an hour ago or more ask for."""
    for record in world.store.query(Query(outbox.COLLECTION)):
        assert record.create_time is not None, "a query finds only records that exist"
        if record.read_time - record.create_time >= timedelta(seconds=min(NAME_KEPT_SECONDS)):
            yield from (task.name for task in outbox.from_record(record.data))
