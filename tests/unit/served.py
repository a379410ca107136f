"""One function as people call it, in this process; and what a refusal looks like in full."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import flask
from werkzeug.test import TestResponse

from shared.testing.loading import FunctionTable
from tests.unit.quiet_world import QuietWorld


@contextmanager
def served(function: str) -> Iterator[flask.Flask]:
    """Load one of the kit's functions as the framework does."""
    yield FunctionTable().app(function)


@contextmanager
def bound_world() -> Iterator[QuietWorld]:
    """Use a world of its own in the functions of this process."""
    world = QuietWorld()
    with world.bound():
        yield world


def check_refusal(answer: TestResponse, status: int, slug: str, title: str, field: str | None) -> None:
    """Check that an answer is this problem, in full."""
    problem = json.loads(answer.data)
    assert (answer.status_code, answer.content_type) == (status, "application/problem+json")
    assert problem.pop("detail")
    assert problem == {
        "type": f"urn:signalbox:problem:{slug}",
        "title": title,
        "status": status,
        **({} if field is None else {"field": field}),
    }
    assert "ETag" not in answer.headers
