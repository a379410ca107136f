"""Every response of a resource conforms to the resource's own description, and is never a 5xx.

Schemathesis, an independent client, reads `openapi.json` and generates requests from it, half of them wrong. Requests
for each bound and each type are left to a long run, because a list has dozens of parameters.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from typing import Annotated, Any, Literal

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.schemas import OpenApiSchema
from werkzeug.test import Client

from signalbox import Function, Hidden, ReadOnly, RefersTo, add_resource
from signalbox.adapters import runtime
from signalbox.testing import Harness, simulated_cloud
from signalbox.testing.indexed_store import IndexedStore

pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
REFUSALS = {"negative_data_rejection": {"expected-statuses": [400, 404, 405, 412, 413]}}


class Part:
    """A field of each type."""

    name: str
    count: int = 0
    weight: float = 1.5
    spare: bool = False
    built: date | None = None
    checked: datetime | None = None
    level: Literal["low", "high"] = "low"
    tags: list[str]
    numbers: list[int]
    whole: Annotated[str, RefersTo("parts", on_delete="cascade")] | None = None
    others: list[Annotated[str, RefersTo("parts")]]
    note: Annotated[str, Hidden] = ""
    views: Annotated[int, ReadOnly] = 0
    created: datetime
    modified: datetime


parts = Function("parts")
add_resource(parts, Part, ids_from_clients=True)
APP = simulated_cloud.application(parts)
TAKEN = ("a", "b")


@pytest.fixture(autouse=True)
def harness() -> Iterator[Harness]:
    """Serve the resource on a store without composite indexes, with two items that refer to each other."""
    created = Harness()
    ports = created.ports
    runtime.bind(replace(ports, store=IndexedStore(ports.store, ()), log=runtime.log()))
    client = Client(APP)
    for name in TAKEN:
        assert client.put(f"/{name}", json={"name": name, "tags": ["x"]}).status_code == 201
    assert client.put("/a", json={"whole": "b", "others": ["b"]}).status_code == 200
    yield created
    runtime.bind(None)


def described(**more: Any) -> OpenApiSchema:
    """Read the description that the resource answers, for requests to it in this process."""
    config = SchemathesisConfig.from_dict({"checks": REFUSALS, **more})
    description: Any = Client(APP).get("/openapi.json").json
    schema = schemathesis.openapi.from_dict(description, config=config)
    schema.app = APP
    return schema


schema = described()
by_chance_alone = described(phases={"coverage": {"enabled": False}})


def check(case: Any) -> None:
    """Send a request, half of them to an item that is there, and hold its answer to the description."""
    if case.meta.generation.mode.is_positive:
        taken = {name: somewhere(value) for name, value in (case.path_parameters or {}).items()}
        case.path_parameters = taken
        case.headers = {name: value for name, value in (case.headers or {}).items() if decidable(name, value)}
    checks = [each for each in CHECKS if each is not negative_data_rejection or shows(case)]
    answer = case.call_and_validate(base_url="http://localhost", checks=checks)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == ["application/problem+json"]
        assert answer.json()["status"] == answer.status_code


def shows(case: Any) -> bool:
    """Return whether the server can see the error: a list in a query is a parameter that comes several times."""
    return not any(isinstance(value, list) for value in (case.query or {}).values())


def somewhere(name: object) -> object:
    return TAKEN[len(name) % 2] if isinstance(name, str) and len(name) % 4 < 2 else name


def decidable(name: str, value: str) -> bool:
    """Return whether a header can be valid: a condition made up at random names no entity tag."""
    return not name.startswith("If-") or value == "*" or '"' in value


def test_the_description_is_valid_openapi() -> None:
    described().validate()


@by_chance_alone.parametrize()
@settings(max_examples=5, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_resource_answers_as_it_describes_itself(case: Any) -> None:
    check(case)


@pytest.mark.marathon
@schema.parametrize()
@settings(max_examples=5, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_resource_answers_each_bound_and_each_type_as_it_describes_itself(case: Any) -> None:
    check(case)


@pytest.mark.marathon
@pytest.mark.timeout(0)
@by_chance_alone.parametrize()
@settings(max_examples=300, deadline=None, database=None, print_blob=True, suppress_health_check=list(HealthCheck))
def test_a_resource_answers_as_it_describes_itself_with_any_seed(case: Any) -> None:
    check(case)
