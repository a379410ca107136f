"""OpenAPI 3.1 of routes: what each takes, answers and refuses, from the types that it declares.

It reads docstrings and the sentences of fields in the source code, so tools import it: `make docs` and the pages of the
local stack. A function imports it only when a caller reads the `openapi.json` of a resource.

A handler's name is the operation's id. The first line of its docstring is the summary, the rest the description. Path
parameters have the types of the handler's parameters.

A class has one schema in each role, because JSON leaves out different fields:

    body       a request of the kit: a field with a default may be absent or null; no other fields
    answer     an answer of the kit: a field is absent if it has its default
    argument   a value that a user's function receives: a field with a default may be absent
    result     a value that a user's function returns: every field is present
"""

import ast
import dataclasses
import inspect
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from uuid import UUID

from signalbox.adapters.http.json_bodies import member_name
from signalbox.adapters.http.route_declarations import Answer, Parameter
from signalbox.adapters.http.routes import Route
from signalbox.core.codec.annotations import hints_of
from signalbox.core.codec.json_types import is_union
from signalbox.core.problems import Problem
from signalbox.core.surface.field_rules import MAY_BE_ABSENT, Described, accepted_fields, bare, metadata_of, rules_of
from signalbox.core.surface.settings_patch import SettingsPatch

Json = dict[str, Any]

Role = Literal["body", "answer", "argument", "result"]

PROBLEM: Json = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "pattern": "^urn:signalbox:problem:[a-z-]+$"},
        "title": {"type": "string", "description": "The kind of the problem, in words."},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "The part of the request that is wrong."},
    },
}

_CONTENT: Json = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}

REFUSALS: Mapping[str, Json] = {
    "Refused": {"description": "The request cannot be carried out as it is.", "content": _CONTENT},
    "Unauthenticated": {"description": "Sent by the platform, in the cloud: the identity token is invalid."},
    "Forbidden": {"description": "Sent by the platform, in the cloud: the caller may not call the function."},
    "MethodNotAllowed": {
        "description": "This address has no such method.",
        "headers": {"Allow": {"required": True, "schema": {"type": "string"}}},
        "content": _CONTENT,
    },
    "TooLarge": {"description": "The request is too large.", "content": _CONTENT},
    "AddressTooLong": {
        "description": "Sent by the platform, in the cloud. The functions themselves accept an address of any length."
    },
    "UnsupportedMediaType": {
        "description": "The body's media type is not one of JSON, such as `application/json`.",
        "content": _CONTENT,
    },
    "Unavailable": {
        "description": "The call may or may not have taken effect: retry it.",
        "headers": {"Retry-After": {"required": True, "schema": {"type": "string", "pattern": "^[0-9]+$"}}},
        "content": _CONTENT,
    },
}
"""The refusals of every route, or of every route with a body."""

OF_EVERY_ROUTE = {
    400: "Refused",
    401: "Unauthenticated",
    403: "Forbidden",
    405: "MethodNotAllowed",
    414: "AddressTooLong",
    503: "Unavailable",
}
OF_BODIES = {413: "TooLarge", 415: "UnsupportedMediaType"}

FUNCTION = typing.Annotated[str, Described({"pattern": "^[a-z][a-z0-9]*(-[a-z0-9]+)*$"})]
"""The segment of the address of a function, for a description of all functions with the same routes."""


# --- routes ---


class Description:
    """The operations of routes, by path, and the schemas of the types that they name."""

    def __init__(self, *, closed_answers: bool = False) -> None:
        """`closed_answers`: an answer with a member that is not described is an error. A later release may add one."""
        self._schemas = Schemas(closed_answers=closed_answers)
        self.paths: dict[str, Json] = {}

    @property
    def schemas(self) -> Mapping[str, Json]:
        """The components: the schemas of classes, by name."""
        return {"Problem": PROBLEM, **self._schemas.components}

    def add(self, segment: str, route: Route, tag: str) -> None:
        """Describe a route of the function that is served under a segment of the address."""
        path = "/".join(["", segment, *route.pattern]) if route.pattern else f"/{segment}"
        methods = self.paths.setdefault(path, {})
        methods[route.method.lower()] = self._operation(segment, route, tag)

    def _operation(self, segment: str, route: Route, tag: str) -> Json:
        summary, _, more = (inspect.getdoc(route.handler) or "").partition("\n\n")
        described: Json = {"operationId": route.handler.__name__, "tags": [tag], "summary": _one_line(summary)}
        if more:
            described["description"] = more
        if parameters := [*self._path(segment, route), *self._query(route), *self._headers(route)]:
            described["parameters"] = parameters
        if route.body is not None:
            described["requestBody"] = self._body(route)
        return described | {"responses": self._responses(route)}

    def _path(self, segment: str, route: Route) -> Iterator[Json]:
        hints = {"function": FUNCTION} | hints_of(route.handler, route.handler.__name__, include_extras=True)
        for name in (part[1:-1] for part in (segment, *route.pattern) if part.startswith("{")):
            schema = self._schemas.of(hints.get(name, str), "argument")
            yield {"name": name, "in": "path", "required": True, "schema": schema}

    def _query(self, route: Route) -> Iterator[Json]:
        for parameter in route.parameters:
            schema = self._schemas.of(parameter.type, "argument")
            if parameter.refuses_empty:
                schema = schema if {"enum", "pattern"} & schema.keys() else {**schema, "minLength": 1}
            elif "enum" in schema:
                schema = {**schema, "enum": [*schema["enum"], ""]}
            elif schema.get("type") != "array" and schema != {"type": "string"}:
                schema = {"anyOf": [schema, {"const": ""}]}
            yield _parameter(parameter, "query", schema)

    def _headers(self, route: Route) -> Iterator[Json]:
        for parameter in route.headers:
            yield _parameter(parameter, "header", self._schemas.of(parameter.type, "argument"))

    def _body(self, route: Route) -> Json:
        bodies = route.body if isinstance(route.body, Mapping) else {"application/json": route.body}
        content: Json = {each: {"schema": self._schemas.of(body, "body")} for each, body in bodies.items()}
        first: Json = next(iter(content.values()))
        found = self._schemas.resolved(first["schema"])
        if route.example is not None:
            first["example"] = route.example
        required = bool(found.get("required")) or "properties" not in found
        return {"required": required and MAY_BE_ABSENT not in metadata_of(route.body), "content": content}

    def _responses(self, route: Route) -> Json:
        answers = {status: self._answer(answer) for status, answer in (route.answers or {}).items()}
        common = OF_EVERY_ROUTE | ({} if route.body is None else OF_BODIES)
        refusals = {status: {"$ref": f"#/components/responses/{name}"} for status, name in common.items()}
        responses = _refusals(route.refuses) | refusals | answers
        return {str(status): response for status, response in sorted(responses.items())}

    def _answer(self, answer: Any) -> Json:
        if not isinstance(answer, Answer):
            answer = Answer(answer)
        says = answer.says or _one_line((inspect.getdoc(answer.type) or "").partition("\n\n")[0]) or "Done."
        described: Json = {"description": says}
        if answer.headers:
            described["headers"] = {each.name: self._header(each) for each in answer.headers}
        if isinstance(answer.type, type) and issubclass(answer.type, Problem):
            described["content"] = _CONTENT
        elif answer.type is not None:
            described["content"] = {answer.media_type: {"schema": self._schemas.of(answer.type, "answer")}}
        return described

    def _header(self, header: Parameter) -> Json:
        described = {"description": header.says} if header.says else {}
        required = {"required": True} if header.required else {}
        return {**required, **described, "schema": self._schemas.of(header.type, "answer")}


def _parameter(parameter: Parameter, place: str, schema: Json) -> Json:
    described: Json = {"name": parameter.name, "in": place}
    if parameter.required:
        described["required"] = True
    if parameter.says:
        described["description"] = parameter.says
    return described | {"schema": schema if parameter.default is None else {"default": parameter.default, **schema}}


def _refusals(problems: Iterable[type[Problem]]) -> dict[int, Json]:
    """Return the responses of problems. Problems of one status share a response."""
    titles: dict[int, list[str]] = {}
    for problem in problems:
        titles.setdefault(problem.status, []).append(problem.title)
    return {
        status: {"description": f"{'. '.join(sorted(each))}.", "content": _CONTENT} for status, each in titles.items()
    }


# --- types ---

_PLAIN: Mapping[Any, Json] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    dict: {"type": "object"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string", "pattern": r"^-?\d+(\.\d+)?([Ee][+-]?\d{1,6})?$"},
    bytes: {"type": "string", "pattern": "^[A-Za-z0-9_-]*={0,2}$"},
    Any: {},
    object: {},
}


class Schemas:
    """The schemas of types. Each class is a component, which others refer to."""

    def __init__(self, *, closed_answers: bool = False) -> None:
        self.components: dict[str, Json] = {}
        self._named: dict[str, tuple[Any, Role]] = {}
        self._closed_answers = closed_answers

    def of(self, annotation: Any, role: Role) -> Json:
        """Return the schema of a type. Raises `TypeError` for a type without a form in JSON."""
        schema = self._of_type(bare(annotation), role)
        for rule in rules_of(annotation):
            schema = _with(schema, rule.schema())
            if isinstance(rule, Described) and rule.component:
                schema = self._component(rule.component, schema)
        return schema

    def add(self, name: str, members: Iterable["Member"], role: Role, says: str = "") -> Json:
        """Add the component of an object whose members no class declares, and return a reference to it."""
        return self._component(name, self._object_of(list(members), role, says))

    def _component(self, name: str, schema: Json) -> Json:
        if "$ref" in schema:
            schema = {"allOf": [{"$ref": schema.pop("$ref")}, schema]}
        if self.components.setdefault(name, schema) != schema:
            raise TypeError(f"two types are called {name}")
        return {"$ref": f"#/components/schemas/{name}"}

    def resolved(self, schema: Json) -> Json:
        """Return a schema, or the component that it refers to."""
        return self.components[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def _of_type(self, kind: Any, role: Role) -> Json:
        origin, inner = get_origin(kind), get_args(kind)
        if not inner and kind in _PLAIN:  # the rules of an inner type may not be hashable
            return dict(_PLAIN[kind])
        if isinstance(kind, typing.NewType):
            return self.of(kind.__supertype__, role)
        if hasattr(kind, "__value__"):  # type X = …
            return self.of(kind.__value__, role)
        if origin is Literal:
            return _literal(inner)
        if is_union(kind):
            return _any_of([self.of(member, role) for member in inner])
        if origin is SettingsPatch:
            return self._class(inner[0], role, changes=True)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            values = self.of(inner[1], role)
            return {"type": "object"} | ({"additionalProperties": values} if values else {})
        if origin is tuple and inner[1:] != (...,):
            items = [self.of(each, role) for each in inner]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        if isinstance(origin, type) and issubclass(origin, Collection):
            each = self.of(inner[0], role)
            return {"type": "array"} | ({"items": each} if each else {})
        if isinstance(kind, type):
            return self._class(kind, role)
        raise TypeError(f"{kind!r} has no schema")

    def _class(self, kind: Any, role: Role, *, changes: bool = False) -> Json:
        if issubclass(kind, Enum):
            return {"enum": [member.value for member in kind]}
        if not (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "model_json_schema")):
            raise TypeError(f"{kind!r} has no schema")
        name = component_name(kind, changes=changes)
        if self._named.setdefault(name, (kind, role)) != (kind, role):
            raise TypeError(f"two types are called {name}: {kind!r} and {self._named[name]!r}")
        if name not in self.components:
            self.components[name] = {}  # a class may contain itself
            self.components[name] = self._object(kind, role, changes=changes)
        return {"$ref": f"#/components/schemas/{name}"}

    def _object(self, kind: Any, role: Role, *, changes: bool) -> Json:
        if hasattr(kind, "model_json_schema"):
            found: Json = kind.model_json_schema(ref_template="#/components/schemas/{model}")
            self.components |= found.pop("$defs", {})
            return found
        return self._object_of(list(_members(kind, role)), role, docstring_of(kind), changes=changes)

    def _object_of(self, members: Sequence["Member"], role: Role, says: str, *, changes: bool = False) -> Json:
        schema: Json = {"type": "object"}
        if says:
            schema["description"] = says
        if required := [member.name for member in members if member.is_required and not changes]:
            schema["required"] = required
        schema["properties"] = {member.name: self._member(member, role) for member in members}
        if role in ("body", "argument"):
            schema["additionalProperties"] = False
        elif self._closed_answers:
            schema["unevaluatedProperties"] = False
        return schema

    def _member(self, member: "Member", role: Role) -> Json:
        annotation = member.type
        if role in ("body", "answer") and not member.is_required:
            annotation = _without_none(annotation)
        schema = self.of(annotation, role)
        if role == "body" and member.has_default:
            schema = _or_null(schema)
            if member.default not in (None, "", {}, ()):
                schema = schema | {"default": member.default}
        return schema | ({"description": member.says} if member.says else {})


@dataclasses.dataclass(frozen=True)
class Member:
    """A member of an object, as JSON has it."""

    name: str
    type: Any
    says: str
    is_required: bool
    has_default: bool = False
    default: object = None


def _members(kind: Any, role: Role) -> Iterator[Member]:
    hints, sentences = hints_of(kind, kind.__name__, include_extras=True), sentences_of(kind)
    if typing.is_typeddict(kind):
        for name, hint in hints.items():
            required = name in kind.__required_keys__
            yield Member(name, _unqualified(hint), sentences.get(name, ""), required, has_default=not required)
        return
    accepted = accepted_fields(kind) if role == "body" else None
    for field in dataclasses.fields(kind):
        if accepted is not None and field.name not in accepted:
            continue
        is_set = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        has_default = is_set or (role == "body" and MAY_BE_ABSENT in metadata_of(field.type))
        default = field.default if field.default is not dataclasses.MISSING else None
        required = role == "result" or not has_default
        hint = hints[field.name]
        yield Member(member_name(field.name), hint, sentences.get(field.name, ""), required, has_default, default)


def component_name(kind: Any, *, changes: bool = False) -> str:
    """Return the name of the component of a class: `Semaphore` for `SemaphoreShown`."""
    name = str(kind.__name__).removesuffix("Shown")
    return f"{name}Changes" if changes else name


@cache
def sentences_of(kind: type) -> Mapping[str, str]:
    """Return the sentences of a class's fields, also of inherited fields: the strings below the fields."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        for node in _class_body(each):
            found |= dict(strings_below(node.body))
    return found


def strings_below(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Iterate over the names that statements annotate, each with the string below it."""
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            text = after.value.value if isinstance(after.value, ast.Constant) else None
            if isinstance(text, str):
                yield field.target.id, inspect.cleandoc(text)


def _class_body(kind: type) -> Iterator[ast.ClassDef]:
    try:
        source = _parsed(inspect.getsourcefile(kind) or "")
    except (TypeError, OSError):
        return
    name = kind.__qualname__.rpartition(".")[2]
    yield from (node for node in ast.walk(source) if isinstance(node, ast.ClassDef) and node.name == name)


@cache
def _parsed(path: str) -> ast.Module:
    return ast.parse(Path(path).read_bytes())


def docstring_of(kind: type) -> str:
    """Return the first paragraph of the docstring of a class; empty if its author wrote none.

    Without a source file, the docstring is that of the class, unless `dataclass` has made it (``Order(id: str)``).
    """
    for node in _class_body(kind):
        return _one_line((ast.get_docstring(node) or "").partition("\n\n")[0])
    written = vars(kind).get("__doc__") or ""
    return "" if written.startswith(f"{kind.__name__}(") else _one_line(inspect.cleandoc(written).partition("\n\n")[0])


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- schemas ---


def _literal(options: tuple[Any, ...]) -> Json:
    if len(options) == 1 and isinstance(options[0], bool):
        return {"const": options[0]}
    return {**({"type": "string"} if {*map(type, options)} == {str} else {}), "enum": list(options)}


def _any_of(schemas: list[Json]) -> Json:
    if len(schemas) == 2 and {"type": "null"} in schemas:
        [schema] = [each for each in schemas if each != {"type": "null"}]
        return _or_null(schema)
    return {"anyOf": schemas}


def _or_null(schema: Json) -> Json:
    """Return a schema that also permits null."""
    if not schema or "null" in _types(schema):
        return schema
    if "type" in schema:
        options = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
        return {**schema, **options, "type": [*_types(schema), "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _types(schema: Json) -> list[str]:
    found = schema.get("type", [])
    return found if isinstance(found, list) else [found]


def _with(schema: Json, keywords: Mapping[str, Any]) -> Json:
    """Return a schema with the keywords of a rule, which apply to the value itself and not to null."""
    if "anyOf" in schema and {"type": "null"} in schema["anyOf"]:
        first, *rest = schema["anyOf"]
        return {**schema, "anyOf": [{**first, **keywords}, *rest]}
    return {**schema, **keywords}


def _without_none(annotation: Any) -> Any:
    """Remove None from a union, and keep the rules of the annotation."""
    kind, rules = bare(annotation), metadata_of(annotation)
    if is_union(kind) and type(None) in get_args(kind):
        members = tuple(member for member in get_args(kind) if member is not type(None))
        kind = typing.Union[members]  # noqa: UP007  its members are known at run time
    return typing.Annotated[kind, *rules] if rules else kind


_QUALIFIERS = (typing.Required, typing.NotRequired, getattr(typing, "ReadOnly", typing.Required))  # from Python 3.13


def _unqualified(hint: Any) -> Any:
    while get_origin(hint) in _QUALIFIERS:
        hint = get_args(hint)[0]
    return hint
