"""A platform on which one document embeds another, and what tests of links look at."""

from typing import Any

from signalbox.documents.model.stamped_contents import RESERVED, path_of
from tests.unit.operations_platform import OperationsPlatform

MISSING = {"key": "t", "link_missing": True}


def linked(world: OperationsPlatform, key: str) -> Any:
    return world.record(path_of(key))[RESERVED]["linked"]


def works(world: OperationsPlatform) -> list[Any]:
    """List what the waiting tasks are to do."""
    return [task.payload["work"] for task in world.tasks]


def embedding_world() -> OperationsPlatform:
    """Return a world at rest in which `p` embeds `t`."""
    world = OperationsPlatform()
    world.put("t", n=1)
    world.put("p", a={"key": "t"})
    world.settle()
    return world
