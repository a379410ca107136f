"""Batches on Google's own emulator: the queries, field paths and increments are those that Firestore understands."""

import json
import uuid
from collections.abc import Iterator

import pytest

from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.batches.model.headers import Header
from signalbox.batches.model.units import failed, succeeded
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import population
from signalbox.batches.service.units import find_unit
from signalbox.batches.sweep import sweep, sweep_batch
from signalbox.core.ports import Query
from tests.unit.batches.batch_harness import ANNOUNCE, TASK, BatchHarness


@pytest.fixture
def harness(firestore_emulator: str) -> Iterator[BatchHarness]:
    store = FirestoreStore(f"batches-{uuid.uuid4().hex[:8]}", "(default)", firestore_emulator)
    yield BatchHarness(store)
    store.close()


@pytest.mark.slow
def test_a_batch_of_2100_units_runs_is_retried_and_removed(harness: BatchHarness) -> None:
    body = {"id": "b", "units": [{"n": n} for n in range(2_100)], "task": TASK, "on_complete": ANNOUNCE, "sealed": True}
    assert harness.request("POST", "/", body)[0] == 201
    harness.run_tasks(lambda effect: failed("x") if effect.payload["n"] == 2_050 else succeeded(effect.payload["n"]))
    assert harness.completions == [{"id": "b", "state": "completed", "size": 2_100, "succeeded": 2_099, "failed": 1}]
    assert harness.request("POST", "/b/retry", {})[0] == 202
    harness.run_tasks(lambda effect: succeeded(effect.payload["n"]))
    listed, token = [], ""
    while page := harness.request("GET", f"/b/units?page_token={token}")[1]:
        listed += page["units"]
        if not (token := page.get("next_page_token", "")):
            break
    assert sorted(unit["index"] for unit in listed) == list(range(2_100))
    assert [unit["index"] for unit in listed if unit["attempt"]] == [2_050]
    remove_batch(harness)
    assert harness.records() == {}


def test_units_completed_from_outside_are_found_by_their_index(harness: BatchHarness) -> None:
    harness.request("POST", "/", {"id": "b", "on_complete": ANNOUNCE})
    for page, size in enumerate((3, 1, 2)):
        assert harness.request("POST", "/b/units", {"page": page, "units": list(range(size))})[0] == 201
    assert harness.request("POST", "/b/seal", {"pages": 3})[1]["size"] == 6
    assert [harness.request("POST", f"/b/{n}", {"result": n}, "batch_complete")[0] for n in range(7)] == [200] * 6 + [
        404
    ]
    harness.run_tasks()
    assert [completion["succeeded"] for completion in harness.completions] == [6]
    assert sweep(harness.ports) == 0


def remove_batch(harness: BatchHarness) -> None:
    """Remove the batch as the sweeper does."""
    while found := harness.ports.store.query(Query("batches")):
        assert found[0].data
        assert Header.from_record(found[0].data).ended
        sweep_batch(harness.ports, found[0])


@pytest.mark.slow
def test_a_batch_with_a_limit_is_retried_in_ranges_of_ids(harness: BatchHarness) -> None:
    units = [{"n": n} for n in range(130)]
    body = {"id": "b", "units": units, "task": TASK, "on_complete": ANNOUNCE, "sealed": True, "concurrency": 4}
    harness.request("POST", "/", body)
    harness.run_tasks(lambda effect: failed("x") if effect.payload["n"] % 3 else succeeded(None))
    harness.ran.clear()
    assert harness.request("POST", "/b/retry", {"payload": {"color": "blue"}})[0] == 202
    harness.run_tasks()
    assert sorted(effect.payload["n"] for effect in harness.ran) == [n for n in range(130) if n % 3]
    assert {effect.payload["color"] for effect in harness.ran} == {"blue"}
    lines = harness.call("batches", "/b/results?state=succeeded").get_data().splitlines()
    assert sorted(json.loads(line)["index"] for line in lines) == list(range(130))


def test_cancelling_finds_sub_batches_and_what_follows_a_batch_has_its_id(harness: BatchHarness) -> None:
    then = {"units": [{"n": 1}], "task": TASK}
    _, shown = harness.request("POST", "/", {"id": "b", "sealed": True, "then": then})
    harness.run_tasks()
    assert harness.request("GET", f"/{shown['then']}")[1]["state"] == "completed"
    harness.request("POST", "/", {"id": "c", "units": [1], "sealed": True})
    unit = find_unit(harness.ports, "c", 0)
    population.populate(harness.ports, unit.sub_batch_id(), BatchSpec(units=[1], sealed=True), unit)
    harness.request("DELETE", "/c")
    harness.run_tasks()
    assert harness.request("GET", f"/{unit.sub_batch_id()}")[1]["reason"] == "parent"
