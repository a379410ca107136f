"""The OpenAPI description of a resource, made from its model: what `GET …/openapi.json` answers.

It is as strict as the resource: what it forbids is refused, and no answer differs from it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from shared.resources.rules.field_types import BOOLEAN, TEXT
from shared.resources.rules.fields import Field
from shared.resources.rules.items import Resource
from shared.resources.rules.references import bare

Json = dict[str, Any]

_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
_LINK = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {"type": "object", "required": ["field", "detail"]},
            "description": "Every field that is wrong, and why.",
        },
    },
}
_PROBLEMS = {
    "400": "A field or a parameter is wrong.",
    "401": "No valid token.",
    "403": "This caller may not.",
    "404": "There is no such item, or this caller may not see it.",
    "405": "The address has no such method.",
    "409": "A transform of a reference's field does not produce an object.",
    "412": "The item is not in the state that the precondition names.",
    "413": "Too large.",
    "503": "It is not known whether the request took effect: repeat it.",
}
_TAG = {"ETag": {"schema": {"type": "string"}, "description": "For If-Match and If-None-Match."}}
_LIST_PARAMETERS: Mapping[str, Json] = {
    "_sort": {"type": "string"},
    "_order": {"type": "string"},
    "_start": {"type": "integer", "minimum": 0},
    "_end": {"type": "integer", "minimum": 0},
    "_page": {"type": "integer", "minimum": 1},
    "_limit": {"type": "integer", "minimum": 1},
    "page_token": {"type": "string"},
}


def description(resource: Resource, at: str, server: str) -> Json:
    """Return the description of a resource that a function serves under `at`; `server` is the function's address."""
    name, below = resource.model.name, at.rstrip("/")
    return {
        "openapi": "3.1.0",
        "info": {"title": resource.name, "version": "1"},
        "servers": [{"url": server.rstrip("/")}],
        "paths": {
            at: {"get": _list(resource), "post": _write(resource, "create", "New")},
            f"{below}/meta": {"get": _call(resource, "meta", {"200": _ok("The fields.", {"type": "object"})})},
            f"{below}/openapi.json": {"get": _call(resource, "description", {"200": _ok("This.", {"type": "object"})})},
            f"{below}/{{id}}": {
                "parameters": [_ID],
                "get": _item(resource, "read", "200", _conditions("If-None-Match", "If-Match")),
                "put": _write(resource, "replace_fields", "Changed"),
                "patch": _write(resource, "change", "Changed"),
                "delete": _call(resource, "delete", {"204": {"description": "Deleted."}}, _conditions("If-Match")),
            },
        },
        "components": {
            "schemas": {
                name: _shown(resource),
                f"New{name}": _sent(resource, required=True),
                f"Changed{name}": _sent(resource, required=False),
                "Problem": _PROBLEM,
            },
        },
    }


def meta(resource: Resource) -> Json:
    """Return the fields of a resource that clients see: what `GET …/meta` answers."""
    return {"resource": resource.name, "fields": {each.name: _about(each) for each in resource.model.shown}}


def _about(each: Field) -> Json:
    about: Json = {"type": each.type.name, "required": each.is_required}
    if not each.is_required and not each.is_read_only:
        about["default"] = bare(each.default)
    marks = {"list": each.is_list, "optional": each.is_optional, "read_only": each.is_read_only}
    about |= {name: True for name, is_set in marks.items() if is_set}
    return about | ({"refers_to": each.refers_to.resource} if each.refers_to else {})


def _list(resource: Resource) -> Json:
    ref = {"$ref": f"#/components/schemas/{resource.model.name}"}
    headers = {name: {"schema": {"type": "string"}} for name in ("Link", "X-Total-Count")}
    found = {**_ok("The items.", {"type": "array", "items": ref}), "headers": headers}
    named = {**_LIST_PARAMETERS, **dict(_filters(resource))}
    parameters = [{"name": name, "in": "query", "schema": schema} for name, schema in named.items()]
    return _call(resource, "list", {"200": found}, parameters)


def _filters(resource: Resource) -> Iterator[tuple[str, Json]]:
    for each in resource.model.shown:
        schema = {"type": "string"} if each.refers_to else dict(each.type.schema)
        if each.is_list:
            yield from [] if each.refers_to else [(f"{each.name}_contains", schema)]
            continue
        yield each.name, {"anyOf": [schema, {"const": "null"}]} if each.is_optional else schema
        if not each.refers_to and each.type is not BOOLEAN:
            yield from ((f"{each.name}{suffix}", schema) for suffix in ("_ne", "_gte", "_lte"))


def _item(resource: Resource, name: str, status: str, parameters: list[Json]) -> Json:
    answers = {status: _of_item(resource, "The item."), "304": {"description": "Unchanged."}}
    return _call(resource, name, answers, parameters)


def _write(resource: Resource, name: str, prefix: str) -> Json:
    schema = {"$ref": f"#/components/schemas/{prefix}{resource.model.name}"}
    answers = {"200": _of_item(resource, "The whole item."), "201": _of_item(resource, "The whole item, new.")}
    parameters = [_header("Idempotency-Key")] if prefix == "New" else _conditions("If-Match", "If-None-Match")
    call = _call(resource, name, answers, parameters)
    return {**call, "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _conditions(*names: str) -> list[Json]:
    return [_header(name) for name in names]


def _header(name: str) -> Json:
    return {"name": name, "in": "header", "schema": {"type": "string"}}


def _call(resource: Resource, name: str, answers: Json, parameters: list[Json] | None = None) -> Json:
    body = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    refusals = {status: {"description": text, "content": body} for status, text in _PROBLEMS.items()}
    operation = f"{name}_{resource.name}".replace("-", "_")
    return {"operationId": operation, "parameters": parameters or [], "responses": {**answers, **refusals}}


def _ok(text: str, schema: Json) -> Json:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _of_item(resource: Resource, text: str) -> Json:
    return {**_ok(text, {"$ref": f"#/components/schemas/{resource.model.name}"}), "headers": _TAG}


def _shown(resource: Resource) -> Json:
    fields = {each.name: _field(each, _LINK if each.refers_to else each.type.schema) for each in resource.model.shown}
    return {"type": "object", "required": ["id", *fields], "properties": {"id": TEXT.schema, **fields}}


def _sent(resource: Resource, *, required: bool) -> Json:
    settable = [each for each in resource.model.fields.values() if not each.is_read_only]
    fields = {each.name: _field(each, each.type.schema) for each in settable}
    needed = [each.name for each in settable if each.is_required] if required else []
    return {"type": "object", "properties": fields, **({"required": needed} if needed else {})}


def _field(each: Field, schema: Mapping[str, Any]) -> Json:
    whole: Json = {"type": "array", "items": dict(schema)} if each.is_list else dict(schema)
    if each.is_optional or each.is_read_only:
        whole = {"anyOf": [whole, {"type": "null"}]}
    marks = {"readOnly": each.is_read_only, "writeOnly": each.is_hidden}
    return whole | {name: True for name, is_set in marks.items() if is_set}
