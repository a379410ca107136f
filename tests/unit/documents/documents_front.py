"""The function `documents` as its callers reach it, on a separate platform."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from signalbox.adapters import runtime
from signalbox.core.ports import Ports
from tests.unit.operations_platform import OperationsPlatform
from tests.unit.served import served


@cache
def app() -> flask.Flask:
    """Load the function once."""
    with served("documents") as app:
        return app


@contextmanager
def front_of(ports: Ports) -> Iterator[FlaskClient]:
    """Return a client of the function on these ports."""
    runtime.bind(ports)
    try:
        yield app().test_client()
    finally:
        runtime.bind(None)


class Front:
    """A platform and a client of the function on it."""

    def __init__(self, world: OperationsPlatform, client: FlaskClient) -> None:
        self.world = world
        self.client = client

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> TestResponse:
        """Send JSON; `If_Match` is the header ``If-Match``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.open(path, method=method, data=data, headers={"Content-Type": "application/json"} | named)

    def seen(self, key: str) -> Any:
        """Return a document as a reader sees it; None: there is none."""
        answer = self.client.get(f"/{key}")
        return answer.json if answer.status_code == 200 else None


@contextmanager
def front() -> Iterator[Front]:
    """Return a new world with the function before it."""
    world = OperationsPlatform()
    with front_of(world.ports) as client:
        yield Front(world, client)


def problem(answer: TestResponse) -> tuple[int, str, str | None]:
    """Return status, slug and field of a refusal; each says what to do."""
    body = json.loads(answer.data)
    assert answer.content_type == "application/problem+json"
    assert body["detail"]
    assert body["status"] == answer.status_code
    return answer.status_code, body["type"].rpartition(":")[2], body.get("field")
