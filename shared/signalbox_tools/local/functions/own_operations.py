"""The description of the functions of a project: their routes, flows, classes of objects and resources.

The schemas of types are those of `adapters/http/description.py`. Operations on flows and objects are the kit's, for one
flow or one method each, with the schemas of its arguments and its result.
"""

import copy
import inspect
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from signalbox.adapters.http.description import OF_BODIES, Role, Schemas
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Route
from signalbox.core.given import given
from signalbox.flows.http.routes import FlowRoutes
from signalbox.flows.model.definitions import FlowDefinition
from signalbox.function.dispatch import BODY, WITH_BODY
from signalbox.objects.http import ObjectRoutes
from signalbox.objects.machine.classes import MethodCode, ObjectClass
from signalbox.resources.http import ResourceRoutes, openapi_of
from signalbox.tasks.requests.signatures import Signature

Json = dict[str, Any]

OF_THE_KIT = frozenset({"flows", "objects", "callbacks", "tasks", "turns"})
"""The first segments of routes that the kit adds to functions."""

UPDATES = {"replace_fields": "update", "change": "update"}
"""The handlers of operations on a resource that have another name."""

REFUSED_BODIES: Json = {
    str(status): {"$ref": f"#/components/responses/{name}"} for status, name in ({400: "Refused"} | OF_BODIES).items()
}
"""The refusals of a route whose handler receives the body as a value of a type."""

COMPONENTS = "#/components/schemas/"

FUNCTION = "/{function}"
RUNS = f"{FUNCTION}/flows/{{flow}}"
RUN = f"{RUNS}/{{id}}"
METHOD = f"{FUNCTION}/objects/{{class_name}}/{{key}}/{{method}}"
"""The paths of the kit's calls that are described once more for each flow and each method."""


class OwnOperations:
    """The operations of one function, by path, and the schemas of its types under the names `FUNCTION.TYPE`.

    `kit` is the description of the kit's own calls.
    """

    def __init__(self, segment: str, kit: Json) -> None:
        self.paths: dict[str, Json] = {}
        self.components: dict[str, Json] = {}
        self._segment, self._kit = segment, kit
        self._schemas: Mapping[Role, Schemas] = {"argument": Schemas(), "result": Schemas()}

    def add(self, routes: Iterable[Route]) -> None:
        """Describe the routes of the function."""
        handlers: dict[int, Any] = {}
        for route in routes:
            handler = inspect.unwrap(route.handler)
            of_instance = getattr(handler, "__self__", None)
            if isinstance(of_instance, FlowRoutes | ObjectRoutes | ResourceRoutes):
                handlers[id(of_instance)] = of_instance
            elif route.answers is None and not OF_THE_KIT.intersection(route.pattern[:1]):
                self._add("/".join(("", *route.pattern)), route.method.lower(), self._operation(route))
        for each in handlers.values():
            if isinstance(each, FlowRoutes):
                for definition in each.definitions.values():
                    self._add_flow(definition)
            elif isinstance(each, ObjectRoutes):
                for kind in each.classes.values():
                    for name, method in kind.methods.items():
                        self._add_method(kind, name, method)
            else:
                self._add_resource(each)
        for role, schemas in self._schemas.items():
            for name, schema in schemas.components.items():
                self.components[self._component(name, role)] = self._renamed(schema, role)

    def _add(self, below: str, method: str, operation: Json) -> None:
        path = f"/{self._segment}{below}".rstrip("/")
        named = {"operationId": f"{self._segment}_{operation['operationId']}", "tags": [self._segment]}
        self.paths.setdefault(path, {}).setdefault(method, operation | named)

    # --- routes ---

    def _operation(self, route: Route) -> Json:
        hints = _hints(route.handler)
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": self._schema(hints.get(name, str), "argument")}
            for name in (part[1:-1] for part in route.pattern if part.startswith("{"))
        ]
        parameters += [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in sorted(route.query or ())
        ]
        name = getattr(route.handler, "__name__", route.method)
        typed = BODY in hints and f"{{{BODY}}}" not in route.pattern
        body: Json | None = {"content": {"application/json": {"schema": {}}}} if route.method in WITH_BODY else None
        if typed:
            schema = self._schema(hints[BODY], "argument")
            body = {"required": True, "content": {"application/json": {"schema": schema}}}
        described = {
            "operationId": f"{name}_{route.method.lower()}",
            **_texts(route.handler, name),
            "parameters": parameters,
        }
        responses = self._responses(hints.get("return", Any)) | (REFUSED_BODIES if typed else {})
        return {**described, **given(requestBody=body), "responses": responses}

    def _responses(self, returned: Any) -> Json:
        if returned in (None, type(None)):
            return {"204": {"description": "It is done."}}
        schema = self._schema(returned, "result")
        if not schema:
            return {"default": {"description": "The answer of the function."}}
        return {"200": {"description": "The result.", "content": {"application/json": {"schema": schema}}}}

    # --- flows, objects, resources ---

    def _add_flow(self, flow: FlowDefinition) -> None:
        arguments = self._arguments(flow.signature)
        required = ["arguments"] if "required" in arguments else None
        start = {"properties": {"arguments": arguments}, **given(required=required)}
        for path in (RUNS, RUN):
            operation = self._of_kit(path, "post", flow.code, flow.name)
            _narrow(operation["requestBody"], start)
            operation["requestBody"]["required"] = bool(required)
            self._add(path.removeprefix(FUNCTION).replace("{flow}", flow.name), "post", operation)
        operation = self._of_kit(RUN, "get", None, flow.name)
        _narrow(operation["responses"]["200"], {"properties": {"result": self._result(flow.code)}})
        self._add(RUN.removeprefix(FUNCTION).replace("{flow}", flow.name), "get", operation)

    def _add_method(self, kind: ObjectClass, name: str, method: MethodCode) -> None:
        operation = self._of_kit(METHOD, "post", method.code, f"{kind.name}.{name}")
        arguments = self._arguments(method.signature)
        operation["requestBody"]["content"]["application/json"] = {"schema": arguments}
        operation["requestBody"]["required"] = "required" in arguments
        _narrow(operation["responses"]["200"], {"properties": {"result": self._result(method.code)}})
        below = METHOD.removeprefix(FUNCTION).replace("{class_name}", kind.name).replace("{method}", name)
        self._add(below, "post", operation)

    def _add_resource(self, routes: ResourceRoutes) -> None:
        described = openapi_of(routes.resource, routes.at, "")
        for path, item in described["paths"].items():
            shared = item.pop("parameters", [])
            for method, operation in item.items():
                name = operation["operationId"].removesuffix(f"_{routes.resource.name.replace('-', '_')}")
                texts = _texts(getattr(routes, UPDATES.get(name, name)), name)
                parameters = [*shared, *operation["parameters"]]
                self._add(path, method, self._renamed({**operation, **texts, "parameters": parameters}, "result"))
        for name, schema in described["components"]["schemas"].items():
            self.components[self._component(name, "result")] = self._renamed(schema, "result")

    def _of_kit(self, path: str, method: str, code: Any, name: str) -> Json:
        """Return the kit's operation for the code of one flow or method, with that code's docstring if it has one."""
        operation: Json = copy.deepcopy(self._kit["paths"][path][method])
        fixed = {"function", "flow", "class_name", "method"}
        operation["parameters"] = [each for each in operation["parameters"] if each["name"] not in fixed]
        operation["operationId"] = f"{operation['operationId']}_{name}"
        if code and inspect.getdoc(code):
            operation.update(_texts(code, ""))
        return operation

    def _arguments(self, signature: Signature) -> Json:
        """Return the schema of the arguments of a flow or a method, by name."""
        properties = {name: self._schema(hint, "argument") for name, hint in signature.arguments.items()}
        required = [name for name in properties if name in signature.required]
        return {"type": "object", "properties": properties, **given(required=required or None)}

    def _result(self, code: Any) -> Json:
        return self._schema(_hints(code).get("return", Any), "result")

    # --- types ---

    def _schema(self, annotation: Any, role: Role) -> Json:
        """Return the schema of a type; any JSON for a type that has none."""
        if Response in (annotation, *typing.get_args(annotation)):
            return {}
        try:
            schema: Json = self._renamed(self._schemas[role].of(annotation, role), role)
        except TypeError:
            return {}
        return schema

    def _component(self, name: str, role: Role) -> str:
        return f"{self._segment}.{name}" if role == "result" else f"{self._segment}.{name}.argument"

    def _renamed(self, part: Any, role: Role) -> Any:
        """Return a part of a description whose references have the names of this function."""
        if isinstance(part, dict):
            renamed = {name: self._renamed(value, role) for name, value in part.items()}
            if isinstance(part.get("$ref"), str):
                renamed["$ref"] = f"{COMPONENTS}{self._component(part['$ref'].removeprefix(COMPONENTS), role)}"
            return renamed
        return [self._renamed(each, role) for each in part] if isinstance(part, list) else part


def _hints(code: Any) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(code, include_extras=True)
    except (NameError, TypeError):  # a name that only a type checker imports, or a handler that has no annotations
        return {}


def _texts(code: Any, otherwise: str) -> Json:
    """Return the summary and the description of a user's code, from its docstring."""
    summary, _, more = (inspect.getdoc(code) or otherwise).partition("\n\n")
    return {"summary": " ".join(summary.split()), **given(description=more or None)}


def _narrow(body: Json, schema: Json) -> None:
    """Require a body or an answer to conform also to a schema."""
    content = body["content"]["application/json"]
    content.pop("example", None)
    content["schema"] = {"allOf": [content["schema"], schema]}


def own_operations(own: Mapping[str, Iterable[Route]], kit: Json) -> Iterator[OwnOperations]:
    """Iterate over the operations of functions.

    `own` has the functions' routes by the first segment of their addresses.
    """
    for segment, routes in own.items():
        described = OwnOperations(segment, kit)
        described.add(routes)
        yield described
