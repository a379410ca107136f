"""The one way in which a user's task may run twice under two creations, and the count of it.

A name is free again an hour or more after its task ran. If an outbox record still contains the task then, the next
sweep creates it again: at least once, as the kit promises. A record lasts that long only if a call failed or a process
died after the record was written, so that nobody deleted it, and the sweeper has not run for an hour. Any other second
creation of a user's task is a violation. The failed call may also be the first creation of the task: the task of a
batch's end is also created from its completion.
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
    records = [path for path, name in old_records(world) if name == effect.name]
    if not records:
        raise Violation(f"{task} was created again, but by no old outbox record")
    if all(world.faults == world.faults_before[path] for path in records):
        raise Violation(f"{task} was created again, though nothing failed since its record was written")
    REACHED[RUN_AGAIN] += 1


def names_in_old_records(world: World) -> set[str]:
    """Return the names of the tasks that old outbox records ask for."""
    return {name for _, name in old_records(world)}


def old_records(world: World) -> Iterator[tuple[str, str]]:
    """Iterate over outbox records of an hour ago or more: their paths, each with the name of a task it asks for."""
    for record in world.store.query(Query(outbox.COLLECTION)):
        assert record.create_time is not None, "a query finds only records that exist"
        if record.read_time - record.create_time >= timedelta(seconds=min(NAME_KEPT_SECONDS)):
            yield from ((record.path, task.name) for task in outbox.from_record(record.data))
