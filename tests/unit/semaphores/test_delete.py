"""A DELETE deletes the semaphore that it found first, and no later one of the name."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from signalbox.core.calls import Call
from signalbox.core.ports import Committed, Delete, Write
from signalbox.semaphores import sweep, tasks
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import settings, views, waits
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
    settings.put(world.ports, "s", SETTINGS)
    return world


def test_a_semaphore_that_was_created_again_in_the_meantime_stays(world: OperationsPlatform) -> None:
    def recreate() -> None:
        sweep.delete(world.ports, "s")
        settings.put(world.ports, "s", SETTINGS)
        waits.wait(world.ports, "s", WaitRequest("w", CALL))

    with pytest.raises(NoSemaphore):
        sweep.delete(replace(world.ports, store=Meanwhile(world, recreate)), "s")
    assert views.get(world.ports, "s").leases


def test_a_semaphore_that_was_changed_in_the_meantime_is_deleted(world: OperationsPlatform) -> None:
    def acquire() -> None:
        assert waits.wait(world.ports, "s", WaitRequest("w")).acquired

    sweep.delete(replace(world.ports, store=Meanwhile(world, acquire)), "s")
    assert world.record("semaphores/s") is None


def test_another_delete_enqueues_a_clean_up_that_was_lost(world: OperationsPlatform) -> None:
    waits.wait(world.ports, "s", WaitRequest("w", CALL))
    sweep.delete(world.ports, "s")
    world.tasks.clear()
    world.pass_time(1)
    with pytest.raises(NoSemaphore):
        sweep.delete(world.ports, "s")
    [clean] = world.tasks
    settings.put(world.ports, "s", SETTINGS)
    waits.wait(world.ports, "s", WaitRequest("later", CALL))
    tasks.TASKS[clean.task](world.ports, clean.payload)
    assert world.ids("semaphores/s/waiters") == ["later"]


def test_another_delete_of_a_semaphore_without_records_enqueues_nothing(world: OperationsPlatform) -> None:
    sweep.delete(world.ports, "s")
    world.tasks.clear()
    with pytest.raises(NoSemaphore):
        sweep.delete(world.ports, "s")
    assert world.tasks == []
