"""The id of a batch created over HTTP: from the body, from the Idempotency-Key, or a new one."""

from typing import Any

import pytest

from tests.unit.batches.batch_harness import BatchHarness


@pytest.fixture
def harness() -> BatchHarness:
    return BatchHarness()


def populated(harness: BatchHarness, body: Any, **headers: str) -> Any:
    """Create a batch; return the status and the id, or the field that is wrong."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    status, answer = harness.request("POST", "/", body, headers=named)
    return status, answer.get("id", answer.get("field"))


def test_the_id_in_the_body_goes_before_the_idempotency_key(harness: BatchHarness) -> None:
    assert populated(harness, {"id": "b"}, Idempotency_Key="k") == (201, "b")
    assert populated(harness, {}, Idempotency_Key="k") == (201, "k")
    assert populated(harness, {}, Idempotency_Key="k") == (200, "k")


def test_a_batch_without_an_id_gets_a_new_one(harness: BatchHarness) -> None:
    first_status, first = populated(harness, {})
    second_status, second = populated(harness, {}, Idempotency_Key="")
    assert (first_status, second_status) == (201, 201)
    assert first != second


@pytest.mark.parametrize("id_", ["", 7, "a/b", ".", "x" * 1501])
def test_an_invalid_id_is_refused_and_not_replaced(harness: BatchHarness, id_: Any) -> None:
    assert populated(harness, {"id": id_}) == (400, "id")
