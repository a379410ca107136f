"""All old receipts of waits are deleted, but only once the record has no lease of their waits."""

from collections.abc import Sequence

import pytest

from signalbox.core.calls import Call
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Delete, Outcome, Query, Write
from signalbox.core.problems import Unavailable
from signalbox.semaphores import sweep
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import settings, waits
from signalbox.testing.replaced_limits import replaced
from tests.unit.operations_platform import OperationsPlatform

CALL = Call("philosophers", "eat", {})
PERMITS = 30


@pytest.fixture
def world() -> OperationsPlatform:
    world = OperationsPlatform()
    settings.put(world.ports, "s", SemaphoreSettings(PERMITS, 60))
    return world


def wait(world: OperationsPlatform, number: int) -> str:
    id_ = f"w{number:02}"
    assert waits.wait(world.ports, "s", WaitRequest(id_, CALL)).acquired
    return id_


def end(world: OperationsPlatform, id_: str) -> None:
    assert waits.cancel(world.ports, "s", id_)


def receipts(world: OperationsPlatform) -> list[str]:
    return [one.id for one in world.store.query(Query("semaphores/s/waiters", limit=1_000))]


def grow_old(world: OperationsPlatform) -> None:
    world.advance(LIMITS.receipt_seconds + 1)


def test_one_visit_deletes_more_receipts_than_a_commit_can(world: OperationsPlatform) -> None:
    for number in range(25):
        end(world, wait(world, number))
    grow_old(world)
    with replaced(receipts_page_max=10):
        sweep.sweep(world.ports)
    assert receipts(world) == []


def test_receipts_whose_leases_are_in_the_record_do_not_hide_those_behind_them(world: OperationsPlatform) -> None:
    held = [wait(world, number) for number in range(10)]
    world.advance(1)
    end(world, wait(world, 10))
    grow_old(world)
    with replaced(receipts_page_max=10):
        sweep.sweep(world.ports)
    assert receipts(world) == held


def test_lapsed_leases_can_be_evicted_however_old_their_receipts_are(world: OperationsPlatform) -> None:
    lapsed = [wait(world, number) for number in range(3)]
    grow_old(world)
    with replaced(silent_grants_max=0):  # more of them than one visit returns
        sweep.sweep(world.ports)
    with replaced(expired_leases_max=0):
        wait(world, 3)
    assert [world.record(f"semaphores/s/waiters/{id_}")["state"] for id_ in lapsed] == ["lost"] * 3


def test_a_record_that_a_deleted_semaphore_still_has_brings_its_clean_up_back(
    world: OperationsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait(world, 0)
    sweep.delete(world.ports, "s")
    [task] = [task for task in world.tasks if task.task == "clean"]

    def failing(writes: Sequence[Write]) -> tuple[Outcome, ...]:
        assert all(isinstance(write, Delete) for write in writes)
        return tuple(Unavailable("the store is away") for _ in writes)

    monkeypatch.setattr(world.store, "write_each", failing)
    with pytest.raises(Unavailable):
        sweep.clean_deleted(world.ports, "s", task.payload["incarnation"])
    monkeypatch.undo()
    sweep.clean_deleted(world.ports, "s", task.payload["incarnation"])
    assert receipts(world) == []
