"""A DELETE deletes the semaphore that it has found, and no later one of the name."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from shared.core.operations.ports import Committed, Delete, Write
from shared.core.rules.calls import Call
from shared.core.rules.problems import NoSemaphore
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.requests import SemaphoreSettings, WaitRequest
from tests.unit.operations_platform import OperationsPlatform

CALL = Call("philosophers", "eat", {})
SETTINGS = SemaphoreSettings(1, 60)


class Meanwhile:
    """A store in which something happens right before the first commit that deletes."""

    def __init__(self, world: OperationsPlatform, happens: Callable[[], None]) -> None:
        self._store, self._happens = world.store, [happens]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, writes: Sequence[Write]) -> Committed:
        if self._happens and isinstance(writes[0], Delete):
            self._happens.pop()()
        return self._store.commit(writes)


@pytest.fixture
def world() -> OperationsPlatform:
    world = OperationsPlatform()
    semaphores.put(world.ports, "s", SETTINGS)
    return world


def test_a_semaphore_that_was_created_anew_meanwhile_stays(world: OperationsPlatform) -> None:
    def recreate() -> None:
        semaphores.delete(world.ports, "s")
        semaphores.put(world.ports, "s", SETTINGS)
        semaphores.wait(world.ports, "s", WaitRequest("w", CALL))

    with pytest.raises(NoSemaphore):
        semaphores.delete(replace(world.ports, store=Meanwhile(world, recreate)), "s")
    assert semaphores.get(world.ports, "s")["leases"]


def test_a_semaphore_that_was_changed_meanwhile_is_deleted(world: OperationsPlatform) -> None:
    def acquire() -> None:
        assert semaphores.wait(world.ports, "s", WaitRequest("w")).acquired

    semaphores.delete(replace(world.ports, store=Meanwhile(world, acquire)), "s")
    assert world.record("semaphores/s") is None
