"""Batches over HTTP: which id a new batch gets, and which it is refused."""

from collections.abc import Iterator
from typing import Any

import flask
import pytest

from shared.adapters import runtime
from shared.core.operations.ports import Ports
from tests.unit.kit.kit_town import WEB, Town, entry_of


@pytest.fixture
def town() -> Iterator[Town]:
    created = Town()
    runtime.bind(Ports(created.store, created, created, runtime.log()))
    yield created
    runtime.bind(None)


def populated(body: Any, **headers: str) -> Any:
    """Create a batch; give the status and the id, or the field that is wrong."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with WEB.test_request_context("/", method="POST", json=body, headers=named):
        response = entry_of("batches")(flask.request._get_current_object())  # type: ignore[attr-defined]
    answer = response.get_json()
    return response.status_code, answer.get("id", answer.get("field"))


@pytest.mark.usefixtures("town")
def test_a_batch_gets_the_id_of_the_body_before_that_of_the_header() -> None:
    assert populated({"id": "b"}, Idempotency_Key="k") == (201, "b")
    assert populated({}, Idempotency_Key="k") == (201, "k")
    assert populated({}, Idempotency_Key="k") == (200, "k")


@pytest.mark.usefixtures("town")
def test_a_batch_that_nobody_names_gets_an_id_of_its_own() -> None:
    (first_status, first), (second_status, second) = populated({}), populated({}, Idempotency_Key="")
    assert (first_status, second_status) == (201, 201)
    assert first != second


@pytest.mark.usefixtures("town")
@pytest.mark.parametrize("id_", ["", None, 7, "a/b", ".", "x" * 1501])
def test_an_id_that_no_batch_can_have_is_refused_and_not_replaced(id_: Any) -> None:
    assert populated({"id": id_}) == (400, "id")
