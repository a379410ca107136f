"""Which requests on batches and pages are refused, with which field, and that a refusal changes nothing."""

from typing import Any

import pytest

from signalbox.batches.limits import LIMITS as BATCHES_LIMITS
from tests.unit.batches.batch_harness import TASK, BatchHarness, batch


@pytest.fixture
def harness() -> BatchHarness:
    return BatchHarness()


def test_a_batch_has_at_most_as_many_pages_as_its_tree_can_hold(
    harness: BatchHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BATCHES_LIMITS, "node_children_max", 1)
    harness.request("POST", "/", batch(100, sealed=False))
    code, problem = harness.request("POST", "/b/units", {"page": 1, "units": [{}]})
    assert (code, problem["detail"]) == (413, "A batch has at most 1 pages.")


@pytest.mark.parametrize(
    ("path", "body", "code", "kind", "field"),
    [
        ("/b/units", {"page": 2, "units": [{}]}, 409, "page-out-of-order", "page"),
        ("/b/units", {"page": 0, "units": [{"other": 1}]}, 409, "other-body", "page"),
        ("/b/units", {"page": 1, "units": []}, 400, "bad-batch", "units"),
        ("/b/units", {"page": 1, "units": [{}] * 101}, 413, "too-large", "units"),
        ("/b/units", {"page": 1, "units": [{}, 7]}, 400, "bad-batch", "units[1]"),
        ("/b/units", {"page": 1, "units": [{"x": "x" * 102_400}]}, 413, "too-large", "units[0]"),
        ("/b/units", {"page": 1, "units": [{"x": "x" * 95_000}] * 10}, 413, "too-large", "units"),
        ("/b/units", {"page": -1, "units": [{}]}, 400, "bad-batch", "page"),
        ("/b/units", {"page": True, "units": [{}]}, 400, "bad-batch", "page"),
        ("/b/units", {"units": [{}]}, 400, "bad-batch", "page"),
        ("/b/units", {"page": 1, "units": [{}], "x": 1}, 400, "bad-batch", "x"),
        ("/b/units", {"page": 10**8, "units": [{}]}, 409, "page-out-of-order", "page"),
        ("/b/seal", {"pages": 0}, 409, "page-out-of-order", "pages"),
        ("/b/seal", {"pages": 3}, 409, "page-out-of-order", "page"),
        ("/b/seal", {}, 400, "bad-batch", "pages"),
        ("/b/retry", {"units": ["x"]}, 400, "bad-batch", "units"),
        ("/b/retry", {"units": [0] * 1_001}, 413, "too-large", "units"),
        ("/c/units", {"page": 0, "units": [{}]}, 404, "not-found", "id"),
        ("/c/seal", {"pages": 0}, 404, "not-found", "id"),
        ("/c/retry", {}, 404, "not-found", "id"),
        ("/", {"id": "b/c"}, 400, "bad-key", "id"),
        ("/", {"id": 7}, 400, "bad-key", "id"),
        ("/", {"id": "n", "units": [{}] * 10_001}, 413, "too-large", "units"),
        ("/", {"id": "n", "units": {}}, 400, "bad-batch", "units"),
        ("/", {"id": "n", "task": {"function": "x"}}, 400, "bad-call", "task.task"),
        ("/", {"id": "n", "sealed": 1}, 400, "bad-batch", "sealed"),
        ("/", {"id": "n", "deadline_seconds": 0}, 400, "bad-batch", "deadline_seconds"),
        ("/", {"id": "n", "failures_max": -1}, 400, "bad-batch", "failures_max"),
        ("/", {"id": "n", "colour": 1}, 400, "bad-batch", "colour"),
    ],
)
def test_an_invalid_request_is_refused_with_its_field_and_changes_nothing(
    harness: BatchHarness, path: str, body: Any, code: int, kind: str, field: str
) -> None:
    harness.request("POST", "/", batch(2, sealed=False))
    before, names = harness.records(), set(harness.queue.names)
    answered, problem = harness.request("POST", path, body)
    assert (answered, problem["type"], problem.get("field")) == (code, f"urn:signalbox:problem:{kind}", field)
    assert (harness.records(), harness.queue.names) == (before, names)


def test_a_call_over_8_mib_is_refused(harness: BatchHarness) -> None:
    code, problem = harness.request("POST", "/", {"units": [{"x": "x" * 90_000}] * 95, "id": "b"})
    assert (code, problem["type"]) == (413, "urn:signalbox:problem:too-large")
    assert harness.records() == {}


def test_large_units_are_cut_into_pages_that_fit(harness: BatchHarness) -> None:
    units_of_90_kb = [{"x": "x" * 90_000}] * 25
    assert harness.request("POST", "/", {"id": "b", "units": units_of_90_kb, "task": TASK})[1]["pages"] == 3


@pytest.mark.parametrize("path", ["/b/units", "/b/seal"])
def test_nothing_is_added_to_a_sealed_batch(harness: BatchHarness, path: str) -> None:
    harness.request("POST", "/", batch(2))
    before = harness.records()
    code, problem = harness.request(
        "POST", path, {"/b/units": {"page": 1, "units": [{}]}, "/b/seal": {"pages": 2}}[path]
    )
    assert (code, problem["type"]) == (409, "urn:signalbox:problem:batch-sealed")
    assert harness.records() == before


@pytest.mark.parametrize(("method", "path"), [("GET", "/c"), ("GET", "/c/units"), ("DELETE", "/c")])
def test_an_unknown_batch_is_not_found(harness: BatchHarness, method: str, path: str) -> None:
    assert harness.request(method, path)[0] == 404
