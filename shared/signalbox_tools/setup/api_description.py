"""openapi.yaml, made from the routes of all functions that people call: `make docs` writes it.

The parts that no route says are in `api_head.yaml`, next to this file: the title, the servers, the tags.
"""

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from signalbox.adapters.http.description import REFUSALS, Description
from signalbox.adapters.http.open_function_access import AccessRules
from signalbox.adapters.http.routes import Route, Routes
from signalbox.catalogue.function_entries import Function
from signalbox.catalogue.reading import load
from signalbox.flows.http import callback_pages
from signalbox.flows.http import routes as flows_http
from signalbox.flows.model.definitions import Flows
from signalbox.objects import http as objects_http
from signalbox.objects.api import NO_CLASSES

PROJECT = Path(__file__).parents[3]
FILE = PROJECT / "openapi.yaml"
HEAD = Path(__file__).with_name("api_head.yaml")

Json = dict[str, Any]

OF_USERS = "{function}"
"""The segment of the routes that any function of a user may have."""

SEGMENTS = (
    "documents",
    "transforms",
    "verifications",
    "semaphores",
    "semaphore-wait",
    "semaphore-signal",
    "semaphore-renew",
    "rates",
    "critical-section",
    "batches",
    "batch-complete",
    "tasks",
    "failures",
    OF_USERS,
    "yokes",
    "standings",
)
"""The order of the paths."""

TAGS: Mapping[str, str] = {
    "critical_sections": "semaphores",
    "history": "documents",
    "links": "documents",
    "transforms": "documents",
}
"""The tags of subjects that are described with another."""


def description(*, closed_answers: bool = False) -> Json:
    """Return the description of all calls. `closed_answers`: no answer may have a member that is not described."""
    made = Description(closed_answers=closed_answers)
    for segment, route in routes():
        if route.answers is not None:
            made.add(segment, route, tag_of(route))
    head: Json = yaml.safe_load(HEAD.read_text("utf-8"))
    schemas = dict(sorted(made.schemas.items()))
    components = {**head.pop("components"), "schemas": schemas, "responses": dict(sorted(REFUSALS.items()))}
    return {**head, "paths": dict(sorted(made.paths.items(), key=_place)), "components": components}


def text() -> str:
    """Return openapi.yaml."""
    head = "# Made by `make docs` from the routes and types of the code. Do not edit it.\n"
    return head + yaml.dump(description(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


FLOW_LETTERS_MAX = 80
"""Letters of a list or a mapping that is written on one line."""

PLAIN_LETTERS_MAX = 100
"""Letters of a text that is written as a scalar. A longer text, or a text of several lines, is a block."""


class _Dumper(yaml.SafeDumper):
    """Writes each value in full, long texts as blocks, and short lists and mappings on one line."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  a method of the library
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002  a list is indented
        super().increase_indent(flow, indentless=False)

    def represent_data(self, data: Any) -> yaml.Node:
        """Return the node of a value, in its style."""
        node = super().represent_data(data)
        if isinstance(node, yaml.CollectionNode):
            node.flow_style = not node.value or _letters(data) <= FLOW_LETTERS_MAX
        elif isinstance(node, yaml.ScalarNode) and "\n" in node.value:
            node.style = "|"
        elif isinstance(node, yaml.ScalarNode) and len(node.value) > PLAIN_LETTERS_MAX:
            node.style = ">"
        return node


def _letters(part: Any) -> int:
    """Return about how many characters a value takes if it is written on one line.

    A text with a line break counts as too long for one line, so its collection is written on several.
    """
    if isinstance(part, dict):
        return sum(_letters(key) + _letters(value) + 4 for key, value in part.items())
    if isinstance(part, list):
        return sum(_letters(value) + 2 for value in part)
    return len(str(part)) + FLOW_LETTERS_MAX * ("\n" in str(part))


def _place(described: tuple[str, Json]) -> int:
    return SEGMENTS.index(described[0].split("/")[1])


def tag_of(route: Route) -> str:
    """Return the tag of a route: the subject that has its handler."""
    subject = route.handler.__module__.split(".")[1]
    return TAGS.get(subject, subject)


# --- routes ---


def routes() -> Iterator[tuple[str, Route]]:
    """Iterate over the routes that people call. A route comes with the first segment of its function's address."""
    functions = [each for each in load().functions.values() if each.folder.parent == PROJECT / "functions"]
    for function in functions:
        if "people" in function.invoked_by:
            yield from ((function.segment, route) for route in _routes_of(function))
    for of_users in (_routes_of_objects(), _routes_of_flows(), _routes_of_callbacks()):
        yield from ((OF_USERS, route) for route in of_users.listed)


def _routes_of(function: Function) -> tuple[Route, ...]:
    spec = importlib.util.spec_from_file_location(f"routes_of_{function.name}", function.folder / "main.py")
    assert spec is not None, "the function has a main.py"
    assert spec.loader is not None, "Python can load it"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Routes = module.routes
    return found.listed


def _routes_of_objects() -> Routes:
    """Return the routes of a function with objects: those of its classes, whatever its name is."""
    made = Routes(OF_USERS)
    objects_http.add_routes(made, lambda: NO_CLASSES, AccessRules(""))
    return made


def _routes_of_flows() -> Routes:
    """Return the routes of a function with flows."""
    made = Routes(OF_USERS)
    flows_http.add_routes(made, lambda: Flows(""), AccessRules(""))
    return made


def _routes_of_callbacks() -> Routes:
    """Return the routes of a function with callbacks."""
    made = Routes(OF_USERS)
    callback_pages.add_callback_routes(made, OF_USERS)
    return made
