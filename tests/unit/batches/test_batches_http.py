"""Batches over HTTP: which id a new batch gets, and which it is refused."""

from typing import Any

import pytest

from shared.testing import Harness
from shared.testing.fixtures import harness as harness


@pytest.fixture
def populated(harness: Harness) -> Any:
    """Create a batch; return the status and the id, or the field that is wrong."""

    def populate(body: Any, **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = harness.post("batches", json=body, headers=named)
        return answer.status, answer.json.get("id", answer.json.get("field"))

    return populate


def test_a_batch_gets_the_id_of_the_body_before_that_of_the_header(populated: Any) -> None:
    assert populated({"id": "b"}, Idempotency_Key="k") == (201, "b")
    assert populated({}, Idempotency_Key="k") == (201, "k")
    assert populated({}, Idempotency_Key="k") == (200, "k")


def test_a_batch_that_nobody_names_gets_an_id_of_its_own(populated: Any) -> None:
    (first_status, first), (second_status, second) = populated({}), populated({}, Idempotency_Key="")
    assert (first_status, second_status) == (201, 201)
    assert first != second


@pytest.mark.parametrize("id_", ["", None, 7, "a/b", ".", "x" * 1501])
def test_an_id_that_no_batch_can_have_is_refused_and_not_replaced(populated: Any, id_: Any) -> None:
    assert populated({"id": id_}) == (400, "id")
