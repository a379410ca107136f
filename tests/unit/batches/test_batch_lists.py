"""Lists of batches: by id and by state, page by page, from the headers alone."""

from typing import Any

import pytest

from signalbox.adapters.cost_meter import measure
from signalbox.batches.requests import BatchesQuery
from signalbox.batches.service import lists
from signalbox.core.ports import Change
from tests.unit.batches.batch_harness import TASK, BatchHarness
from tests.unit.cost_table import row_cost

PAINT = {"function": "painter", "task": "paint"}


@pytest.fixture
def harness() -> BatchHarness:
    """Return a platform with a batch in each state, named after it."""
    harness = BatchHarness()
    harness.request("POST", "/", {"id": "completed", "units": [{}, {}], "task": TASK, "sealed": True})
    harness.run_tasks()
    harness.request("POST", "/", {"id": "open", "units": [1]})
    harness.request("POST", "/", {"id": "sealed", "units": [{}] * 150, "task": TASK, "sealed": True})
    harness.request("POST", "/", {"id": "cancelled", "units": [1, 2]})
    harness.request("DELETE", "/cancelled")
    return harness


def listed(harness: BatchHarness, query: str = "") -> Any:
    status, page = harness.request("GET", f"/?{query}")
    assert status == 200
    return page


def test_batches_are_listed_by_id_with_what_their_headers_say(harness: BatchHarness) -> None:
    page = listed(harness)
    deadlines = [one.pop("deadline_at") for one in page["batches"]]
    assert page == {
        "batches": [
            {"id": "cancelled", "state": "cancelled", "pages": None, "succeeded": 0, "failed": 0}
            | {"size": 2, "remaining": 2, "reason": "cancelled"},
            {"id": "completed", "state": "completed", "pages": 1, "succeeded": 2, "failed": 0}
            | {"size": 2, "remaining": 0, "task": PAINT},
            {"id": "open", "state": "open", "pages": None},
            {"id": "sealed", "state": "sealed", "pages": 2, "size": 150, "task": PAINT},
        ]
    }
    assert all(deadline.endswith("Z") for deadline in deadlines)


@pytest.mark.parametrize("state", ["open", "sealed", "completed", "cancelled"])
def test_a_state_chooses_among_batches(harness: BatchHarness, state: str) -> None:
    assert [one["id"] for one in listed(harness, f"state={state}")["batches"]] == [state]


@pytest.mark.parametrize("state", ["", "open"])
def test_pages_show_each_batch_once(harness: BatchHarness, state: str) -> None:
    harness.request("POST", "/", {"id": "another", "units": [1]})
    seen, more = [], ""
    while True:
        page = listed(harness, f"state={state}&limit=1&page_token={more}")
        seen += [one["id"] for one in page["batches"]]
        if not (more := page.get("next_page_token", "")):
            break
    assert seen == (["another", "open"] if state else ["another", "cancelled", "completed", "open", "sealed"])


def test_a_batch_that_is_being_removed_is_not_listed(harness: BatchHarness) -> None:
    harness.ports.store.commit([Change("batches/completed", {("state",): "removed"})])
    assert [one["id"] for one in listed(harness)["batches"]] == ["cancelled", "open", "sealed"]


@pytest.mark.parametrize(
    ("query", "field"), [("state=removed", "state"), ("limit=0", "limit"), ("page_token=x", "page_token"), ("a=1", "a")]
)
def test_a_list_of_batches_names_the_parameter_that_is_wrong(harness: BatchHarness, query: str, field: str) -> None:
    status, problem = harness.request("GET", f"/?{query}")
    assert (status, problem["field"]) == (400, field)


def test_a_list_of_batches_costs_one_query(harness: BatchHarness) -> None:
    with measure() as cost:
        lists.find(harness.ports, BatchesQuery.from_request({}))
    assert cost == row_cost("batches", "list", n=4)
