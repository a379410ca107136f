"""The description of the API names what the functions route, no less and no more, and is itself well-formed."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict, get_args

import jsonschema_rs
import pytest
import schemathesis

from signalbox.adapters.http.description import Schemas
from signalbox.adapters.http.route_declarations import Answer
from signalbox.adapters.http.routes import Route
from signalbox.client import answer_types
from signalbox.core.surface.field_rules import Described, RequestBody
from signalbox.documents.http import NULLS
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from signalbox_tools.setup import client_types
from signalbox_tools.setup.api_description import description, routes, text
from signalbox_tools.setup.generated_pages import OF_EVERY_CALL
from tests.yaml_files import read_yaml

ROOT = Path(__file__).parents[2]
PATH = ROOT / "openapi.yaml"
DESCRIPTION = read_yaml(PATH)
METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}


def described() -> set[tuple[str, str]]:
    paths = DESCRIPTION["paths"].items()
    return {(method.upper(), path) for path, item in paths for method in item.keys() & METHODS}


def routed() -> dict[tuple[str, str], Route]:
    """Map each routed call to its route."""
    return {(route.method, "/".join(["", segment, *route.pattern])): route for segment, route in routes()}


def classes_in(kind: Any) -> Iterator[type]:
    """Iterate over the dataclasses of which an annotation consists."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        yield kind
        for field in dataclasses.fields(kind):
            yield from classes_in(field.type)
    for part in get_args(kind):
        yield from classes_in(part)


def test_every_class_that_a_route_answers_is_of_a_room_shown_since_no_other_is_rendered() -> None:
    answers = [answer for route in routed().values() for answer in (route.answers or {}).values()]
    bodies = [answer.type if isinstance(answer, Answer) else answer for answer in answers]
    rooms = {each.__module__ for body in bodies for each in classes_in(body)}
    assert "signalbox.semaphores.shown" in rooms
    assert {room for room in rooms if "shown" not in room.split(".")} == set()


def test_each_request_names_the_problem_with_which_it_refuses_a_member_that_it_does_not_have() -> None:
    kinds = {each for route in routed().values() for each in classes_in(route.body) if issubclass(each, RequestBody)}
    assert len(kinds) >= 12
    for kind in kinds:
        with pytest.raises(kind.problem, match="nowhere"):
            kind.from_request({"nowhere": 1})


def test_the_file_is_what_the_code_describes() -> None:
    assert PATH.read_text("utf-8") == text(), "run `make docs`"


def test_the_file_loads_as_the_description_and_shows_texts_of_several_lines_unquoted() -> None:
    lines = text().splitlines()
    assert description() == DESCRIPTION
    assert lines[lines.index("  description: |") + 1].strip() == DESCRIPTION["info"]["description"].splitlines()[0]


def test_a_patch_is_described_in_each_media_type_and_another_type_is_answered_with_those() -> None:
    call = DESCRIPTION["paths"]["/documents/{key}"]["patch"]
    assert call["requestBody"]["content"].keys() == NULLS.keys()
    assert call["responses"]["415"]["headers"].keys() == {"Accept-Patch"}


def test_a_named_schema_is_a_component_which_others_extend() -> None:
    schemas = Schemas()
    named = Annotated[str, Described({"minLength": 1}, "Title")]
    assert schemas.of(named, "body") == {"$ref": "#/components/schemas/Title"}
    assert schemas.of(Annotated[named, Described({"maxLength": 9}, "Short")], "body") == {
        "$ref": "#/components/schemas/Short"
    }
    assert schemas.components == {
        "Title": {"type": "string", "minLength": 1},
        "Short": {"allOf": [{"$ref": "#/components/schemas/Title"}, {"maxLength": 9}]},
    }
    with pytest.raises(TypeError, match="two types are called Title"):
        schemas.of(Annotated[int, Described({}, "Title")], "body")


def test_the_description_is_valid_openapi() -> None:
    schemathesis.openapi.from_dict(DESCRIPTION).validate()


def test_every_route_is_described_and_every_described_call_is_routed() -> None:
    assert described() == routed().keys()
    assert ("PUT", "/documents/{key}") in routed()


def test_every_call_takes_the_query_parameters_that_are_described_and_no_other() -> None:
    for (method, path), route in routed().items():
        assert route.query is not None, (method, path)
        assert set(route.query) == query_parameters(method, path), (method, path)


SERVED = {"function": "shop", "flow": "checkout", "class_name": "Stock"}
"""A function of the examples with a flow and a class."""


def test_every_request_accepts_the_members_that_are_described_and_no_other(harness: Harness) -> None:
    for (method, path), route in routed().items():
        if route.body is not None and (members := members_of_body(method, path)):
            address = re.sub(r"\{(\w+)\}", lambda found: SERVED.get(found[1], "a"), path[1:])
            answer = harness.request(method, address, json={"no such member": 1})
            known = answer.json["detail"].partition("Known fields: ")[2].removesuffix(".").split(", ")
            assert (answer.status, set(known)) == (400, members), (method, path)


def members_of_body(method: str, path: str) -> set[str]:
    """Return the members of a body that has no others; none of a body that may have any."""
    schema = DESCRIPTION["paths"][path][method.lower()]["requestBody"]["content"]["application/json"]["schema"]
    schema = resolve(schema["$ref"]) if "$ref" in schema else schema
    return set(schema["properties"]) if schema.get("additionalProperties") is False else set()


def test_the_types_of_the_client_are_those_of_the_answers() -> None:
    assert client_types.FILE.read_text("utf-8") == client_types.text(DESCRIPTION), "run `make docs`"


def test_a_type_of_the_client_requires_what_all_its_answers_require() -> None:
    assert answer_types.StandingShown.__optional_keys__ == {"pending"}  # which only a GET has
    assert answer_types.Waited.__required_keys__ == {"acquired"}


def query_parameters(method: str, path: str) -> set[str]:
    return {one["name"] for one in parameters_of(method, path) if one["in"] == "query"}


def parameters_of(method: str, path: str) -> list[dict[str, Any]]:
    item = DESCRIPTION["paths"][path]
    parameters = item.get("parameters", []) + item[method.lower()].get("parameters", [])
    return [resolve(one["$ref"]) if "$ref" in one else one for one in parameters]


def resolve(reference: str) -> Any:
    found = DESCRIPTION
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def test_every_call_describes_its_refusal_and_its_503() -> None:
    for method, path in described():
        responses = DESCRIPTION["paths"][path][method.lower()]["responses"]
        assert {"400", "503"} <= responses.keys(), (method, path)
        assert any(status.startswith("2") for status in responses), (method, path)


def test_a_call_with_a_body_describes_too_large_and_a_wrong_media_type() -> None:
    for method, path in described():
        call = DESCRIPTION["paths"][path][method.lower()]
        for status in ("413", "415"):
            assert ("requestBody" in call) == (status in call["responses"]), (method, path)


def test_every_call_says_how_it_is_refused_before_it_is_known() -> None:
    for method, path in described():
        responses = DESCRIPTION["paths"][path][method.lower()]["responses"]
        assert {*OF_EVERY_CALL} <= responses.keys(), (method, path)


def test_no_two_calls_have_one_name() -> None:
    names = [DESCRIPTION["paths"][path][method.lower()]["operationId"] for method, path in described()]
    assert sorted(names) == sorted(set(names))


# --- optional: an empty parameter and a null are as if absent ---

WITHOUT_DEFAULT = {"permits", "lease_seconds", "per_minute"}
"""Settings that a PUT requires, so that a PATCH cannot reset them by a null."""

OF_CONTENT = {"/documents"}
"""Bodies whose fields are a document's content, where a null is a value."""


CHOOSE_RUNS = {"state", "label", "started_after", "started_before", "count_by"}
"""Parameters of lists of runs. If one could be empty, such a list would have the runs of all tenants."""


def test_every_query_parameter_may_be_empty_unless_it_chooses_runs() -> None:
    for method, path in described():
        for one in parameters_of(method, path):
            if one["in"] == "query" and one["schema"].get("type") != "array":
                of_runs = path.endswith("/flows/{flow}") and one["name"] in CHOOSE_RUNS
                assert allows(one["schema"], "") != of_runs, (method, path, one["name"])


def test_every_optional_field_of_a_body_may_be_null() -> None:
    for method, path in described():
        for content in DESCRIPTION["paths"][path][method.lower()].get("requestBody", {}).get("content", {}).values():
            for name, schema in optional_fields(content["schema"]):
                has_default = method != "PATCH" or name not in WITHOUT_DEFAULT
                assert allows(schema, None) == has_default or path in OF_CONTENT, (method, path, name)


def allows(schema: dict[str, Any], value: object) -> bool:
    """Return whether a schema of the description allows a value."""
    return jsonschema_rs.is_valid({**schema, "components": DESCRIPTION["components"]}, value)


def optional_fields(
    schema: dict[str, Any], required: frozenset[str] = frozenset(), seen: tuple[str, ...] = (), *, nested: bool = True
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the fields that an object may leave out, if `nested` also those of the objects in it."""
    required |= frozenset(schema.get("required", ()))
    if (reference := schema.get("$ref")) is not None:
        if reference not in seen:
            yield from optional_fields(resolve(reference), required, (*seen, reference), nested=nested)
        return
    for part in (*schema.get("allOf", ()), *schema.get("oneOf", ()), *schema.get("anyOf", ())):
        yield from optional_fields(part, required, seen, nested=nested)
    if nested and "items" in schema:
        yield from optional_fields(schema["items"], seen=seen)
    for name, field in schema.get("properties", {}).items():
        if name not in required:
            yield name, field
        if nested:
            yield from optional_fields(field, seen=seen)


class Ticket(TypedDict):
    """A ticket of a user's function."""

    key: str
    price: NotRequired[float]


def test_a_typed_dict_has_a_schema_and_its_docstring_also_without_its_source() -> None:
    schemas = Schemas()
    schemas.of(Ticket, "result")
    assert schemas.components["Ticket"]["required"] == ["key"]
    assert schemas.components["Ticket"]["description"] == "A ticket of a user's function."
    loaded = dataclasses.make_dataclass("Loaded", [("key", str)])
    schemas.of(loaded, "result")
    assert "description" not in schemas.components["Loaded"]
    loaded.__doc__ = """One that
    was loaded without a file.

    More."""
    schemas = Schemas()
    schemas.of(loaded, "result")
    assert schemas.components["Loaded"]["description"] == "One that was loaded without a file."
