"""A quiet world in which one document embeds another, and what tests of links look at in it."""

from typing import Any

from shared.documents.rules.documents import RESERVED, path_of
from tests.unit.quiet_world import QuietWorld

MISSING = {"key": "t", "link_missing": True}


def linked(world: QuietWorld, key: str) -> Any:
    return world.record(path_of(key))[RESERVED]["linked"]


def works(world: QuietWorld) -> list[Any]:
    """List what the waiting tasks are to do."""
    return [task.payload["work"] for task in world.tasks]


def embedding_world() -> QuietWorld:
    """Return a world at rest in which `p` embeds `t`."""
    world = QuietWorld()
    world.put("t", n=1)
    world.put("p", a={"key": "t"})
    world.settle()
    return world
