"""Batches on Google's own emulator: the queries, field paths and increments are those that Firestore understands."""

import uuid
from collections.abc import Iterator

import pytest

from shared.adapters import runtime
from shared.adapters.firestore.store import FirestoreStore
from shared.batches.operations import batches
from shared.batches.operations import sweep as batch_sweep
from shared.batches.rules import units
from shared.batches.rules.batches import Life, decode
from shared.core.operations.ports import Query
from tests.unit.batches.batch_town import ANNOUNCE, TASK, Town


@pytest.fixture
def town(firestore_emulator: str) -> Iterator[Town]:
    store = FirestoreStore(f"batches-{uuid.uuid4().hex[:8]}", "(default)", firestore_emulator)
    yield Town(store)
    runtime.bind(None)
    store.close()


def test_a_batch_of_2100_units_runs_is_retried_and_removed(town: Town) -> None:
    body = {"id": "b", "units": [{"n": n} for n in range(2_100)], "task": TASK, "on_complete": ANNOUNCE, "sealed": True}
    assert town.ask("POST", "/", body)[0] == 201
    town.work(
        lambda effect: units.failed("x") if effect.payload["n"] == 2_050 else units.succeeded(effect.payload["n"])
    )
    assert town.announced == [{"id": "b", "state": "completed", "size": 2_100, "done": 2_100, "failed": 1}]
    assert town.ask("POST", "/b/retry", {})[0] == 202
    town.work(lambda effect: units.succeeded(effect.payload["n"]))
    page = town.ask("GET", "/b/units?page_token=2048")[1]["units"]
    assert [(unit["index"], unit["attempt"]) for unit in page[:3]] == [(2_049, 0), (2_050, 1), (2_051, 0)]
    remove(town)
    assert town.records() == {}


def test_units_completed_from_outside_are_found_by_their_index(town: Town) -> None:
    town.ask("POST", "/", {"id": "b", "on_complete": ANNOUNCE})
    for page, size in enumerate((3, 1, 2)):
        assert town.ask("POST", "/b/units", {"page": page, "units": list(range(size))})[0] == 201
    assert town.ask("POST", "/b/seal", {"pages": 3})[1]["size"] == 6
    assert [town.ask("POST", f"/b/{n}", {"result": n}, "batch_complete")[0] for n in range(7)] == [200] * 6 + [404]
    town.work()
    assert [said["done"] for said in town.announced] == [6]
    assert batches.sweep(town.ports) == 0


def remove(town: Town) -> None:
    """Remove the batch as the sweeper does when its time has come."""
    while found := town.store.query(Query("batches")):
        header = decode(found[0].data)
        assert header
        batch_sweep.remove(town.ports, Life("b", header.incarnation), header, found[0])
