"""Units that arrive as lines or from an iterator, and results as lines, with one page in memory at a time."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from signalbox import Call, Function, batch
from signalbox.adapters.cost_meter import measure
from signalbox.batches.limits import LIMITS
from signalbox.batches.problems import BadBatch, BatchSealed, PageOutOfOrder
from signalbox.batches.requests import BatchSpec, UnitsQuery
from signalbox.batches.service import lists, pages, population
from signalbox.batches.service.pages import Appended
from signalbox.core.ports import Query
from signalbox.core.problems import OtherBody
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as kit_harness
from signalbox.testing.replaced_limits import replaced
from tests.unit.batches.batch_harness import ANNOUNCE, TASK, BatchHarness, broken_at, squares
from tests.unit.cost_table import row_cost

__all__ = ["kit_harness"]
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def harness() -> BatchHarness:
    harness = BatchHarness()
    harness.request("POST", "/", {"id": "b", "task": TASK, "on_complete": ANNOUNCE})
    return harness


def post(harness: BatchHarness, body: bytes, query: str = "") -> tuple[int, Any]:
    response = harness.call("batches", f"/b/units{query}", method="POST", data=body, headers=LINES)
    return response.status_code, response.get_json(force=True)


def lines(*units_: Any) -> bytes:
    return b"\n".join(json.dumps(unit).encode() for unit in units_)


def results(harness: BatchHarness, query: str = "") -> list[Any]:
    response = harness.call("batches", f"/b/results{query}")
    assert response.headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.get_data().splitlines()]


def test_lines_become_pages(harness: BatchHarness) -> None:
    assert post(harness, lines(*squares(250)) + b"\n\n") == (201, {"id": "b", "page": 3, "units": 250})
    assert post(harness, lines(*squares(250))) == (200, {"id": "b", "page": 3, "units": 250})
    assert post(harness, lines({"square": 250}), "?page=3") == (201, {"id": "b", "page": 4, "units": 1})
    assert post(harness, b"", "?page=4") == (200, {"id": "b", "page": 4, "units": 0})
    harness.request("POST", "/b/seal", {"pages": 4})
    harness.run_tasks()
    assert sorted(effect.payload["square"] for effect in harness.ran) == list(range(251))
    assert len(harness.completions) == 1
    assert post(harness, lines(*squares(250))) == (200, {"id": "b", "page": 3, "units": 250})


def test_what_is_refused_names_its_line_and_what_came_before_is_loaded(harness: BatchHarness) -> None:
    status, problem = post(harness, lines(*squares(150)) + b"\n{")
    assert (status, problem["detail"].partition(":")[0]) == (400, "In line 151 alone")
    assert post(harness, lines(*squares(150))) == (201, {"id": "b", "page": 2, "units": 150})


@pytest.mark.parametrize(
    ("body", "query", "status"),
    [
        (lines(1), "", 400),
        (lines({"a": 1}), "?page=2", 409),
        (lines({"a": 1}), "?page=-1", 400),
        (b'{"a": "' + b"x" * 1_200_000 + b'"}', "", 413),
    ],
)
def test_lines_that_are_no_units_are_refused(harness: BatchHarness, body: bytes, query: str, status: int) -> None:
    assert post(harness, body, query)[0] == status


def test_a_page_in_the_address_is_for_lines_only(harness: BatchHarness) -> None:
    assert harness.request("POST", "/b/units?page=0", {"page": 0, "units": [{}]})[0] == 400


def test_units_are_loaded_as_they_come(harness: BatchHarness) -> None:
    held = []

    def units_() -> Iterator[dict[str, int]]:
        for number in range(450):
            held.append(number - 100 * len(harness.store.query(Query("batches/b/pages"))))
            yield {"square": number}

    assert pages.add_units(harness.ports, "b", 0, units_()) == Appended(5, 450, True)
    assert max(held) <= LIMITS.page_units_max


def test_other_lines_under_a_number_are_refused(harness: BatchHarness) -> None:
    pages.add_units(harness.ports, "b", 0, squares(101))
    with pytest.raises(OtherBody):
        pages.add_units(harness.ports, "b", 0, [{}])
    with pytest.raises(PageOutOfOrder):
        pages.add_units(harness.ports, "b", 5, [{}])
    harness.request("POST", "/b/seal", {"pages": 2})
    with pytest.raises(BatchSealed):
        pages.add_units(harness.ports, "b", 2, [{}])


def test_results_are_a_line_for_each_unit_that_has_ended(harness: BatchHarness) -> None:
    post(harness, lines(*squares(250)))
    assert results(harness) == []
    harness.run_tasks(broken_at(7, 240))
    assert sorted(unit["index"] for unit in results(harness)) == list(range(250))
    assert sorted(unit["index"] for unit in results(harness, "?state=failed")) == [7, 240]
    assert {unit["error"] for unit in results(harness, "?state=failed")} == {"dry brush"}
    some = results(harness)
    assert results(harness, f"?after={some[99]['index']}") == some[100:]
    assert harness.request("GET", "/b/results?state=none")[0] == 400
    assert harness.request("GET", "/other/results")[0] == 404


def test_a_download_costs_a_read_a_unit_and_a_round_trip_a_page(harness: BatchHarness) -> None:
    post(harness, lines(*squares(250)))
    harness.run_tasks()
    with measure() as cost:
        assert len(list(lists.outcomes_of(harness.ports, "b", UnitsQuery()))) == 250
    assert cost == row_cost("batches", "download", n=250)


def test_results_are_read_a_page_at_a_time_and_large_ones_in_smaller_pages(harness: BatchHarness) -> None:
    population.populate(harness.ports, "c", BatchSpec(units=[1, 2, 3], sealed=True))
    for index in range(3):
        harness.request("POST", f"/c/{index}", {"result": "x" * 10_000}, "batch_complete")
    with replaced(read_bytes_max=5_000):
        found = lists.outcomes_of(harness.ports, "c", UnitsQuery())
        assert [one.unit.index for one in found] == [0, 1, 2]


def test_of_an_iterator_only_the_first_calls_are_in_memory(kit_harness: Harness) -> None:
    app, yielded = Function("counter"), []

    @app.task
    def count(number: int) -> int:
        return number

    def calls() -> Iterator[Call[Any]]:
        for number in range(350):
            loaded = 100 * len(kit_harness.store.query(Query("batches/long/pages")))
            yielded.append(number - loaded)
            yield count.call(number=number)

    kit_harness.add(app)
    with replaced(call_units_max=120):
        batch("long").populate(calls())
    kit_harness.run()
    assert max(yielded) <= 120
    assert sorted(unit["result"] for unit in batch("long").results()) == list(range(350))


def test_a_call_of_another_task_is_refused_where_it_comes(kit_harness: Harness) -> None:
    app = Function("counter")

    @app.task
    def count(number: int) -> int:
        return number

    @app.task
    def other(number: int) -> int:
        return number

    kit_harness.add(app)
    with replaced(call_units_max=120), pytest.raises(BadBatch):
        batch("long").populate((other if number == 300 else count).call(number=number) for number in range(350))
    assert batch("long").status()["state"] == "open"
    with replaced(call_units_max=120):
        batch("long").populate(count.call(number=number) for number in range(350))
    kit_harness.run()
    assert batch("long").status()["state"] == "completed"
