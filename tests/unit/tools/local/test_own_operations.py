"""The description of one's own functions, by independent readers: Schemathesis validates it as OpenAPI 3.1, and
jsonschema-rs holds bodies and answers to the schemas that it shows.
"""

import inspect
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
import schemathesis

from signalbox import Function, Hidden, ReadOnly, RefersTo, Request, add_resource
from signalbox.adapters.http.description import Schemas
from signalbox.adapters.http.routes import EXTENSION, Route
from signalbox.resources.http import ResourceRoutes, add_schemas
from signalbox.testing import Harness, simulated_cloud
from signalbox_tools.local.functions.own_operations import own_operations
from tests.yaml_files import read_yaml

KIT = read_yaml(Path(__file__).parents[4] / "openapi.yaml")

app = Function("works")


@dataclass
class Line:
    """A line of an order."""

    item: str
    count: int = 1
    """The number of items."""


class Part:
    """A part, with a field of each type."""

    name: str
    """The name that people see."""
    count: int = 0
    weight: float = 1.5
    spare: bool = False
    built: date | None = None
    checked: datetime | None = None
    level: Literal["low", "high"] = "low"
    tags: list[str]
    whole: Annotated[str, RefersTo("parts")] | None = None
    others: list[Annotated[str, RefersTo("parts")]]
    note: Annotated[str, Hidden] = ""
    views: Annotated[int, ReadOnly] = 0
    created: datetime
    modified: datetime


@app.http("POST", "/orders/{number}")
def order(_: Request, number: str, body: Line) -> list[Line]:
    """Order something."""
    return [body] if number else []


@app.http("POST", "/notes")
def note(request: Request) -> None:
    """Note any JSON."""
    request.json()


@app.flow
async def ship(lines: list[Line], express: bool = False) -> int:
    """Ship lines."""
    return len(lines) + express


@app.object
class Counter:
    """A counter."""

    key: str
    n: int = 0

    def add(self, by: int = 1) -> int:
        """Add a number."""
        self.n += by
        return self.n


add_resource(app, Part, at="/parts", ids_from_clients=True)

APP = simulated_cloud.application(app)
ROUTES = APP.extensions[EXTENSION]


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """The description of the kit and of the function."""
    whole: dict[str, Any] = deepcopy(KIT)
    [function] = own_operations({"works": ROUTES}, whole)
    whole["paths"] |= function.paths
    whole["components"]["schemas"] |= function.components
    return whole


def validator(schema: Any, components: Any) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**schema, "components": components})


def test_routes_flows_objects_and_resources_are_valid_openapi(described: dict[str, Any]) -> None:
    schemathesis.openapi.from_dict(described).validate()
    own = {path for path in described["paths"] if path.startswith("/works/")}
    assert own == {
        "/works/orders/{number}",
        "/works/notes",
        "/works/flows/ship",
        "/works/flows/ship/{id}",
        "/works/objects/Counter/{key}/add",
        "/works/parts",
        "/works/parts/meta",
        "/works/parts/openapi.json",
        "/works/parts/{id}",
    }


def test_a_route_shows_the_schema_of_its_body_and_the_refusals_of_bodies(described: dict[str, Any]) -> None:
    call = described["paths"]["/works/orders/{number}"]["post"]
    schema = call["requestBody"]["content"]["application/json"]["schema"]
    assert (call["requestBody"]["required"], call["responses"].keys()) == (True, {"200", "400", "413", "415"})
    assert schema == {"$ref": "#/components/schemas/works.Line.argument"}
    assert described["components"]["schemas"]["works.Line.argument"] == {
        "type": "object",
        "description": "A line of an order.",
        "required": ["item"],
        "properties": {
            "item": {"type": "string"},
            "count": {"type": "integer", "description": "The number of items."},
        },
        "additionalProperties": False,
    }
    assert [each["name"] for each in call["parameters"]] == ["number"]


def test_a_body_without_a_type_is_any_json(described: dict[str, Any]) -> None:
    call = described["paths"]["/works/notes"]["post"]
    assert call["requestBody"] == {"content": {"application/json": {"schema": {}}}}
    assert call["responses"].keys() == {"204"}


@pytest.mark.parametrize("body", [{"item": "a"}, {"item": "a", "count": 2}, {}, {"item": 1}, {"item": "a", "b": 1}, []])
def test_a_body_is_accepted_if_and_only_if_its_schema_accepts_it(described: dict[str, Any], body: Any) -> None:
    call = described["paths"]["/works/orders/{number}"]["post"]
    schema = call["requestBody"]["content"]["application/json"]["schema"]
    with Harness() as harness:
        harness.add(app)
        answer = harness.post("works/orders/7", json=body)
    components = described["components"]
    assert validator(schema, components).is_valid(body) == (answer.status == 200)
    if answer.status == 200:
        validator(call["responses"]["200"]["content"]["application/json"]["schema"], components).validate(answer.json)


def test_a_resource_has_the_sentences_of_its_model(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    assert schemas["works.Part"]["description"] == "A part, with a field of each type."
    assert schemas["works.Part"]["properties"]["name"]["description"] == "The name that people see."
    assert schemas["works.NewPart"]["required"] == ["name"]
    assert "views" not in schemas["works.ChangedPart"]["properties"]
    assert "note" not in schemas["works.Part"]["properties"]


@pytest.fixture
def items() -> Iterator[list[Any]]:
    """Every answer of the resource that contains an item: empty and full fields, references, and a link to nothing."""
    full = {
        "name": "b", "count": 2, "weight": 2, "spare": True, "built": "2026-01-31", "checked": "2026-01-31T12:00:00Z",
        "level": "high", "tags": ["x"], "whole": "a", "others": [{"id": "a"}], "note": "hidden", "views": 7,
    }  # fmt: skip
    with Harness() as harness:
        harness.add(app)
        answers = [
            harness.put("works/parts/a", json={"name": "a"}),
            harness.put("works/parts/b", json=full),
            harness.get("works/parts/b"),
            harness.patch("works/parts/b", json={"count": 3}),
            harness.post("works/parts", json={"name": "c"}),
        ]
        listed = harness.get("works/parts").json
        harness.delete("works/parts/a")
        harness.run()
        answers.append(harness.get("works/parts/b"))
        assert [answer.status for answer in answers] == [201, 201, 200, 200, 201, 200]
        yield [*(answer.json for answer in answers), *listed]


def test_each_answer_of_a_resource_has_the_members_of_its_schema_and_no_others(items: list[Any]) -> None:
    resource = next(each.resource for each in map(_instance, ROUTES) if isinstance(each, ResourceRoutes))
    closed = Schemas(closed_answers=True)
    add_schemas(closed, resource)
    shown = validator({"$ref": "#/components/schemas/Part"}, {"schemas": closed.components})
    for item in items:
        shown.validate(item)
        assert not shown.is_valid({**item, "another": 1})
        assert all(not shown.is_valid({name: item[name] for name in item if name != absent}) for absent in item)


def _instance(route: Route) -> object:
    return getattr(inspect.unwrap(route.handler), "__self__", None)


def test_what_a_resource_refuses_its_schema_refuses(described: dict[str, Any]) -> None:
    schema = described["paths"]["/works/parts"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    new = validator(schema, described["components"])
    problem = validator({"$ref": "#/components/schemas/works.Problem"}, described["components"])
    bodies: list[dict[str, Any]] = [{}, {"name": None}, {"name": "a", "count": "2"}, {"name": "a", "level": "no"}]
    bodies += [{"name": "a", "tags": None}, {"name": "a", "whole": ""}, {"name": "a", "count": 2**63}]
    bodies += [{"name": "a", "whole": {}}, {"name": "a", "others": "b"}, {"name": "a", "spare": 1}]
    with Harness() as harness:
        harness.add(app)
        for body in bodies:
            assert not new.is_valid(body), body
            refused = harness.post("works/parts", json=body)
            assert refused.status == 400, body
            problem.validate(refused.json)
        for body in ({"name": "a"}, {"name": "a", "built": None, "unknown": 1, "views": 2}):
            assert new.is_valid(body), body
            assert harness.post("works/parts", json=body).status == 201, body
