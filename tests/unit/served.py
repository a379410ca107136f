"""One function as people call it, in this process over a quiet world; and what a refusal looks like in full."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import flask
import pytest
from functions_framework import create_app
from werkzeug.test import TestResponse

from shared.adapters import runtime
from tests.unit.quiet_world import QuietWorld

FUNCTIONS = Path(__file__).parents[2] / "functions"


@contextmanager
def served(function: str) -> Iterator[flask.Flask]:
    """Load one of the kit's functions as the framework does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUNCTION_TARGET", function)
        patch.setenv("FUNCTION_SIGNATURE_TYPE", "http")
        patch.delitem(sys.modules, "main", raising=False)
        yield create_app(function, str(FUNCTIONS / function / "main.py"), "http")  # type: ignore[no-untyped-call]


@contextmanager
def bound_world() -> Iterator[QuietWorld]:
    """Have the functions of this process use a world of its own."""
    world = QuietWorld()
    runtime.bind(world.ports)
    yield world
    runtime.bind(None)


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
