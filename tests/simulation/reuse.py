"""The one way in which a user's task may run twice under two creations, and the count of it.

A name is free again an hour or more after its task ran. If the outbox record that holds it still exists then, because
nobody managed to hand over all of it and delete it for that long, the next sweep creates the task again: at least
once, as the kit promises. Any other second creation of a user's task is a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from shared.core.operations import outbox
from shared.core.operations.ports import Query
from shared.core.rules.effects import Effect
from tests.simulation.reach import REACHED, RUN_AGAIN
from tests.simulation.tasks import NAME_KEPT_SECONDS
from tests.simulation.world import Violation, World


def allow_from_an_old_outbox_record(world: World, effect: Effect) -> None:
    """Count a second creation. Raises `Violation` unless an outbox record older than an hour holds the task."""
    if effect.name not in set(_names_in_old_records(world)):
        raise Violation(f"task {effect.task} {dict(effect.payload)} was created again, but by no old outbox record")
    REACHED[RUN_AGAIN] += 1


def _names_in_old_records(world: World) -> Iterator[str]:
    for record in world.store.query(Query(outbox.COLLECTION)):
        assert record.create_time is not None, "a query finds only records that exist"
        if record.read_time - record.create_time >= timedelta(seconds=min(NAME_KEPT_SECONDS)):
            yield from (task["name"] for task in (record.data or {})["tasks"])
