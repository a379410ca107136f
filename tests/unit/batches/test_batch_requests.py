"""The requests on batches check themselves, built by HTTP or by a user's function."""

from collections.abc import Callable
from typing import Any

import pytest

from signalbox.batches.limits import LIMITS
from signalbox.batches.requests import BatchSpec, PageRequest, RetryRequest, SealRequest, UnitsQuery
from signalbox.core.calls import Call
from signalbox.core.problems import Problem

TASK = Call("quilt", "paint", {})


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: BatchSpec(failures_max=-1), "failures_max"),
        (lambda: BatchSpec(deadline_seconds=0), "deadline_seconds"),
        (lambda: BatchSpec(deadline_seconds=LIMITS.batch_deadline_seconds_max + 1), "deadline_seconds"),
        (lambda: BatchSpec(units=[1], task=TASK), "units[0]"),
        (lambda: BatchSpec(units=[{}] * 10_001), "units"),
        (lambda: PageRequest(-1, [1]), "page"),
        (lambda: PageRequest(0, []), "units"),
        (lambda: SealRequest(-1), "pages"),
        (lambda: RetryRequest([-1]), "units"),
        (lambda: RetryRequest([0] * 1_001), "units"),
    ],
)
def test_an_invalid_request_cannot_be_built(build: Callable[[], Any], field: str) -> None:
    with pytest.raises(Problem) as refused:
        build()
    assert refused.value.field == field


def test_absent_and_null_fields_take_their_defaults() -> None:
    nulls = dict.fromkeys(("units", "task", "on_complete", "sealed", "failures_max", "deadline_seconds"))
    assert BatchSpec.from_request(nulls) == BatchSpec.from_request({}) == BatchSpec()
    assert RetryRequest.from_request({}) == RetryRequest()


def test_http_and_a_function_build_the_same_spec() -> None:
    task = {"function": "quilt", "task": "paint", "payload": {}}
    body = {"id": "b", "units": [{}], "task": task, "sealed": True, "failures_max": 2}
    spec = BatchSpec(units=[{}], task=TASK, sealed=True, failures_max=2)
    assert BatchSpec.from_request(body) == spec
    assert BatchSpec.from_request(body).digest() == spec.digest()


def test_units_are_queried_by_state_and_token() -> None:
    assert UnitsQuery.from_request({"state": "failed", "page_token": "41"}) == UnitsQuery("failed", 41)
    assert UnitsQuery.from_request({}) == UnitsQuery()
