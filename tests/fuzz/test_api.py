"""Every response to any request conforms to openapi.yaml and is never a 5xx.

Schemathesis makes requests out of the description, half of them wrong in one way; the functions run in this process, as
the framework serves them, on the in-memory store. The short run has a fixed seed: what fails there fails again. It also
makes the requests that stand for each bound and each type; the long one leaves them to it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

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
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from signalbox import Function, flow, objects
from signalbox.adapters import runtime
from signalbox.adapters import settings as kit_settings
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import population
from signalbox.catalogue.reading import load
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.problems import BadArgument
from signalbox.documents.requests import PutRequest
from signalbox.documents.service import single_documents
from signalbox.history.model import HISTORY, HistoryRule
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import waits
from signalbox.semaphores.service.settings import put as put_semaphore
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import Plain
from signalbox.tasks.service import failures
from signalbox.testing import Harness, simulated_cloud
from signalbox.testing.replaced_limits import replaced
from signalbox.transforms import service as transforms_service
from signalbox.transforms.requests import PutTransformRequest
from signalbox_tools.local.functions.server import mounted
from signalbox_tools.setup.api_description import description
from tests.unit.test_openapi import allows, optional_fields, parameters_of, resolve
from tests.unit.test_openapi import described as described_calls

pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
REFUSALS = {"negative_data_rejection": {"expected-statuses": [400, 404, 405, 409, 410, 412, 413, 415]}}
TAKEN = ("a", "b")
LISTS = ("where", "order_by")
METHODS = {"get", "put", "post", "delete", "patch", "options"}
PARAMETER = re.compile(r"\{\w+\}")


@schemathesis.serializer("application/x-ndjson")
def lines(_: Any, value: Any) -> bytes:
    """Write a list as newline-delimited JSON; anything else is one line."""
    return "\n".join(json.dumps(each) for each in (value if isinstance(value, list) else [value])).encode()


counters = Function("counters")
counters.callbacks()


@counters.object
class Counter:
    """A class of objects: the description has the routes of any function that has some."""

    total: int = 0

    def add(self, amount: int = 1) -> int:
        self.total += amount
        return self.total


@counters.flow
async def count(amount: int = 1) -> Any:
    """A flow with its routes."""
    return await flow.event("a") or amount


def application() -> DispatcherMiddleware:
    """Return the functions of the catalogue, and one with objects and flows."""
    return DispatcherMiddleware(mounted(load()), {"/counters": simulated_cloud.application(counters)})


APP = application()
NAMED = {"function": "counters", "class_name": "Counter", "method": "add", "flow": "count"}
"""Path parameters of which only one value leads anywhere."""


def described(**more: Any) -> OpenApiSchema:
    """Return the description, for requests to the functions in this process. No answer may have other members."""
    config = SchemathesisConfig.from_dict({"checks": REFUSALS, **more})
    schema = schemathesis.openapi.from_dict(description(closed_answers=True), config=config)
    schema.app = APP
    return schema


schema = described()
by_chance_alone = described(phases={"coverage": {"enabled": False}})


@pytest.fixture(autouse=True)
def harness() -> Iterator[Harness]:
    """Serve the functions on a store that holds something, with streams that end soon."""
    created = Harness()
    runtime.bind(replace(created.ports, log=runtime.log()))
    classes, flows = {"Counter": counters.name}, {"count": counters.name}
    chosen = replace(kit_settings.settings(), object_classes=classes, flow_functions=flows)
    before = kit_settings.bind(replace(chosen, callback_keys=simulated_cloud.CALLBACK_KEY))
    kept = HISTORY.replaced([HistoryRule(keys=frozenset(TAKEN))])
    with (
        kept,
        replaced(watch_stream_seconds=0.05, watch_pause_seconds=0.01),
    ):  # batches that do not end are watched
        yield filled(created)
    kit_settings.bind(before)
    runtime.bind(None)


def filled(created: Harness) -> Harness:
    """Put something under the names that half of the requests go to."""
    ports = runtime.ports()
    for name in TAKEN:
        single_documents.put(ports, PutRequest.from_request(name, {"to": {"key": "a"}}))
        put_semaphore(ports, name, SemaphoreSettings(2, 60))
        transforms_service.put(ports, PutTransformRequest.from_request(name, {"n": "#.n"}))
    paint = Call("quilt", "paint", {})
    population.populate(ports, "a", BatchSpec(units=[1, 2, 3]))
    population.populate(ports, "b", BatchSpec(units=[{}], task=paint, sealed=True))
    for name in TAKEN:
        delivered = Delivered(name, Plain(), function="quilt", task="paint", payload={"square": 1})
        failures.keep(ports, delivered, Start(1), BadArgument("no"))
    for name in TAKEN:
        objects("Counter", name).with_(id=name).add()
        count.start(name)
    for name in TAKEN:  # the second one waits for the first
        waits.wait(ports, "a", WaitRequest(name, paint, permits=2))
    return created


def check(case: Any) -> None:
    """Send a request and hold its answer to the description."""
    if case.meta.generation.mode.is_positive:
        case.path_parameters = {name: existing(name, value) for name, value in case.path_parameters.items()}
        case.headers = {name: value for name, value in case.headers.items() if decidable(name, value)}
    checks = [check for check in CHECKS if check is not negative_data_rejection or shows(case)]
    answer = case.call_and_validate(base_url="http://localhost", checks=checks)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == ["application/problem+json"]
        assert answer.json()["status"] == answer.status_code


def existing(parameter: str, value: object) -> object:
    """Return a value of a path's parameter under which there is something, mostly."""
    return NAMED.get(parameter) or somewhere(value)


def somewhere(name: object) -> object:
    """Replace every other name by one that exists."""
    return TAKEN[len(name) % 2] if isinstance(name, str) and len(name) % 4 < 2 and "~" not in name else name


def decidable(name: str, value: str) -> bool:
    """Return whether a header can be valid: a condition made up at random names no entity tag."""
    return not name.startswith("If-") or value == "*" or '"' in value


def shows(case: Any) -> bool:
    """Return whether the server can see the error: an address holds texts only, of whatever type they were written.

    In a query, one value instead of a list is a list with one text, and an empty text is as if absent; in a path, a
    list is its text.
    """
    given = [(case.query or {}).get(name, []) for name in LISTS]
    lists = all(isinstance(each, list) and "" not in each for each in given)
    return lists and not any(unquote(str(value))[:1] in "[{" for value in (case.path_parameters or {}).values())


@schema.parametrize()
@settings(max_examples=12, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_an_answer_is_as_described(case: Any) -> None:
    check(case)


def is_of(address: str, path: str) -> bool:
    """Return whether an address is one of a path, of the kit's functions or of the user's function of these tests."""
    return re.fullmatch(PARAMETER.sub("[^/]+", path.replace("{function}", "counters")), address) is not None


@pytest.mark.parametrize("path", sorted(schema.raw_schema["paths"]))
def test_a_method_that_an_address_does_not_have_is_405_as_described(path: str) -> None:
    address = PARAMETER.sub("0", path.replace("{function}", "counters"))
    calls = {
        method.upper(): call
        for other, described in schema.raw_schema["paths"].items()
        if other == path or is_of(address, other)  # /documents/:query is also the address of a document
        for method, call in described.items()
        if method in METHODS
    }
    allowed = {*calls, *({"HEAD"} if "GET" in calls else ())}
    for method in {each.upper() for each in METHODS} - allowed:
        answer = Client(APP).open(address, method=method)
        assert (answer.status_code, answer.content_type) == (405, "application/problem+json")
        assert set(answer.headers["Allow"].split(", ")) == allowed
    assert all("405" in call["responses"] for call in calls.values())


def optional_of(method: str, path: str) -> tuple[dict[str, str], dict[str, Any], dict[str, None]]:
    """Return a call's query parameters that may be empty, an example of its body, and the fields that it may leave out.

    A parameter without which a list would have the runs of all tenants may not be empty.
    """
    call = schema.raw_schema["paths"][path][method.lower()]
    of_query = [one for one in parameters_of(method, path) if one["in"] == "query"]
    query = {one["name"]: "" for one in of_query if one["schema"].get("type") == "array" or allows(one["schema"], "")}
    content = call.get("requestBody", {}).get("content", {}).get("application/json", {"schema": {}})
    fields = dict(optional_fields(content["schema"], nested=False))
    return query, content.get("example", {}), {name: None for name, each in fields.items() if allows(each, None)}


@pytest.mark.parametrize(("method", "path"), sorted(described_calls()))
def test_an_empty_parameter_and_a_null_field_are_as_if_absent(method: str, path: str) -> None:
    query, example, nulls = optional_of(method, path)
    if path.startswith("/yokes"):  # of its two parameters, one is required
        query = {name: value for name, value in query.items() if name != "user"} | {"item": "a"}
    address, client = PARAMETER.sub(lambda name: NAMED.get(name[0][1:-1], "a"), path), Client(APP)
    body: dict[str, Any] = {"json": example} if method in ("POST", "PUT", "PATCH") else {}
    needed = {name: value for name, value in query.items() if value}
    empty_body = body and {"json": {**nulls, **example} if nulls else example}
    outcomes = []
    for asked, sent in ((needed, body), (needed, body), (query, empty_body)):
        with client.open(address, method=method, query_string=asked, **sent) as answer:  # a stream would keep its place
            outcomes.append(outcome_of(answer))
    assert outcomes[2] == outcomes[1]


def example_of(method: str, path: str) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the example of a call's body and its required members; both are empty if not all are described."""
    body = schema.raw_schema["paths"][path][method.lower()].get("requestBody", {}).get("content", {})
    described = body.get("application/json", {"schema": {}})
    example, optional = described.get("example"), dict(optional_fields(described["schema"], nested=False))
    is_described = isinstance(example, dict) and example.keys() <= optional.keys() | required_of(described["schema"])
    return (example, frozenset(example) - optional.keys()) if is_described else ({}, frozenset())


def required_of(described: dict[str, Any]) -> frozenset[str]:
    """Return the names of the members that an object must have."""
    return frozenset((resolve(described["$ref"]) if "$ref" in described else described).get("required", ()))


@pytest.mark.parametrize(("method", "path"), [each for each in sorted(described_calls()) if example_of(*each)[0]])
def test_a_null_member_is_as_if_absent_or_named_as_required(method: str, path: str) -> None:
    client, (example, required) = Client(APP), example_of(method, path)
    assert client.put("/rates/a", json={"per_minute": 60, "burst": 3}).status_code == 201
    address = PARAMETER.sub(lambda name: NAMED.get(name[0][1:-1], "a"), path)
    for member in example:
        absent = {name: value for name, value in example.items() if name != member}
        sent = (absent, absent, absent | {member: None})
        _, without, with_null = (outcome_of(client.open(address, method=method, json=body)) for body in sent)
        assert with_null == without
        if member in required:
            assert (with_null[0], with_null[2]) == (400, member)


def outcome_of(answer: Any) -> tuple[Any, ...]:
    """Return the status of an answer, and what is wrong if it is a problem."""
    problem = answer.json if answer.status_code >= 400 else {}
    return (answer.status_code, *(problem.get(name) for name in ("type", "field", "detail")))


@pytest.mark.marathon
@pytest.mark.timeout(0)
@by_chance_alone.parametrize()
@settings(max_examples=300, deadline=None, database=None, print_blob=True, suppress_health_check=list(HealthCheck))
def test_an_answer_is_as_described_with_any_seed(case: Any) -> None:
    check(case)
