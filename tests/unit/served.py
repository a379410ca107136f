"""One function as people call it, in this process; and what a refusal looks like in full."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import flask
import pytest
from werkzeug.test import TestResponse

from signalbox.core.given import given
from signalbox.testing.simulated_cloud import FunctionTable
from tests.unit.operations_platform import OperationsPlatform

TITLES = {
    "not-json": "Invalid JSON",
    "not-an-object": "JSON object required",
    "bad-key": "Invalid key",
    "key-mismatch": "Key in body differs from key in URL",
    "reserved-field": "Reserved field name",
    "bad-value": "Invalid value",
    "too-deep": "Nested too deep",
    "too-large": "Request too large",
    "bad-query": "Invalid query",
    "not-found": "Not found",
    "method-not-allowed": "Method not allowed",
    "bad-transform": "Invalid transform",
}
"""Of the problems by slug, as the pages list them."""


@contextmanager
def served(function: str) -> Iterator[flask.Flask]:
    """Load one of the kit's functions as the framework does."""
    yield FunctionTable().app(function)


@pytest.fixture
def world() -> Iterator[OperationsPlatform]:
    """Return a platform of the test's own, bound to the functions of this process."""
    platform = OperationsPlatform()
    with platform.bound():
        yield platform


def refused(answer: TestResponse, status: int, slug: str, field: str | None) -> None:
    """Check that an answer is this problem, in full."""
    problem = json.loads(answer.data)
    assert (answer.status_code, answer.content_type) == (status, "application/problem+json")
    assert problem.pop("detail")
    assert problem == {
        "type": f"urn:signalbox:problem:{slug}",
        "title": TITLES[slug],
        "status": status,
        **given(field=field),
    }
    assert "ETag" not in answer.headers
