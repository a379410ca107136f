"""The routes of a resource: list, create, read, change and delete items; its fields; its OpenAPI description.

The description is exactly as strict as the resource: requests that it forbids are refused, and every response conforms
to it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from signalbox.adapters import runtime
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request
from signalbox.adapters.settings import settings
from signalbox.core.effects import name_of
from signalbox.core.flow_hooks import check_plain
from signalbox.core.json_values import canonical
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import NotFound
from signalbox.core.records.queries import Operator
from signalbox.documents.requests import Precondition
from signalbox.documents.service.single_documents import Receipt
from signalbox.resources import machine, service
from signalbox.resources.machine import Action
from signalbox.resources.model import items
from signalbox.resources.model.fields import BOOLEAN, Field, as_ids, check_chosen_id, made_id, valid_item_id
from signalbox.resources.model.items import Item, Resource, Values
from signalbox.resources.requests import ListRequest, Parameters, conditions_of
from signalbox.resources.service import ItemWrite, StoredItem

if TYPE_CHECKING:
    from signalbox.adapters.http.description import Schemas

Json = dict[str, Any]


_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}

_ERRORS = {
    "type": "array",
    "items": {"type": "object", "required": ["field", "detail"]},
    "description": "Every invalid field, and the reason.",
}

_PROBLEMS = {
    "400": "A field or a parameter is invalid.",
    "401": "The request has no valid token.",
    "403": "This caller may not do that.",
    "404": "The item does not exist, or this caller may not see it.",
    "405": "The address does not have this method.",
    "409": "A transform of a reference's field does not produce an object, or the Idempotency-Key has another body.",
    "410": "The item that was created with this Idempotency-Key was deleted.",
    "412": "The item is not in the state of the precondition.",
    "413": "The request is too large.",
    "503": "The request may or may not have taken effect. Repeat it.",
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


def openapi_of(resource: Resource, at: str, server: str) -> Json:
    """Return the OpenAPI description of a resource that a function serves under `at`; `server` is its URL."""
    from signalbox.adapters.http.description import PROBLEM, Schemas  # it reads source code: only for this answer

    schemas = Schemas()
    add_schemas(schemas, resource)
    members = {**PROBLEM["properties"], "type": {"type": "string"}, "errors": _ERRORS}  # a user's name may have a digit
    problem = {**PROBLEM, "properties": members}
    below = at.rstrip("/")
    return {
        "openapi": "3.1.0",
        "info": {"title": resource.name, "version": "1"},
        "servers": [{"url": server.rstrip("/")}],
        "paths": {
            at: {"get": _list(resource, schemas), "post": _write(resource, "create", "New")},
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
        "components": {"schemas": {**schemas.components, "Problem": problem}},
    }


def add_schemas(schemas: "Schemas", resource: Resource) -> None:
    """Add the schemas of a shown item, of a new one, and of a change, with the sentences of the model's class."""
    from signalbox.adapters.http.description import Member, docstring_of, sentences_of

    model, says = resource.model, sentences_of(resource.model.code)
    shown = [Member(each.name, each.shown, says.get(each.name, ""), is_required=True) for each in model.shown]
    schemas.add(model.name, [Member("id", str, "", is_required=True), *shown], "result", docstring_of(model.code))
    settable = [field for field in model.fields.values() if not field.is_read_only]
    for prefix in ("New", "Changed"):
        sent = [
            Member(each.name, each.sent, says.get(each.name, ""), is_required=prefix == "New" and each.is_required)
            for each in settable
        ]
        schemas.add(f"{prefix}{model.name}", sent, "result")


def meta_of(resource: Resource) -> Json:
    """Return the fields that clients see, for `GET …/meta`."""
    return {"resource": resource.name, "fields": {field.name: _about(field) for field in resource.model.shown}}


def _about(field: Field) -> Json:
    about: Json = {"type": field.type.name, "required": field.is_required}
    if not field.is_required and not field.is_read_only:
        about["default"] = as_ids(field.default)
    marks = {"list": field.is_list, "optional": field.is_optional, "read_only": field.is_read_only}
    about |= {name: True for name, is_set in marks.items() if is_set}
    return about | ({"refers_to": field.refers_to.resource} if field.refers_to else {})


def _list(resource: Resource, schemas: "Schemas") -> Json:
    ref = {"$ref": f"#/components/schemas/{resource.model.name}"}
    headers = {name: {"schema": {"type": "string"}} for name in ("Link", "X-Total-Count")}
    found = {**_ok("The items.", {"type": "array", "items": ref}), "headers": headers}
    named = {**_LIST_PARAMETERS, **dict(_filters(resource, schemas))}
    parameters = [{"name": name, "in": "query", "schema": schema} for name, schema in named.items()]
    return _call(resource, "list", {"200": found}, parameters)


def _filters(resource: Resource, schemas: "Schemas") -> Iterator[tuple[str, Json]]:
    for field in resource.model.shown:
        schema = {"type": "string"} if field.refers_to else schemas.of(field.type.sent, "result")
        if field.is_list:
            yield from [] if field.refers_to else [(f"{field.name}_contains", schema)]
            continue
        yield field.name, {"anyOf": [schema, {"const": "null"}]} if field.is_optional else schema
        if not field.refers_to and field.type is not BOOLEAN:
            yield from ((f"{field.name}{suffix}", schema) for suffix in ("_ne", "_gte", "_lte"))


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


Fields = dict[str, Any]
"""All fields of an item, including hidden ones, in the form of a request, and its `id`."""


SKIPS = {"_start", "_end", "_page", "_limit", "page_token"}


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of a resource: see `signalbox.resources.api.Options`."""

    authorise: Callable[[Request, Action, Fields | None], bool | None] | None = None
    narrow: Callable[[Request], Iterable[tuple[str, Operator, Any]]] | None = None
    prepare: Callable[[Request, Action, Fields], Fields] | None = None
    decorate: Callable[[Request, Fields], Fields] | None = None
    cascade: Callable[[Request, Fields], Iterable[str]] | None = None
    ids_from_clients: bool = False

    def __post_init__(self) -> None:
        for hook in (self.authorise, self.prepare, self.decorate):
            if hook:
                check_plain(hook, "hook")
        for many in (self.narrow, self.cascade):
            if many:
                check_plain(many, "hook", may_yield=True)


@dataclass(frozen=True, slots=True)
class ResourceRoutes:
    """The handlers of one resource that `function` serves under `at`."""

    resource: Resource
    hooks: Hooks
    function: str
    at: str

    def list(self, request: Request) -> Response:
        """Return a page of items as an array; `Link` has the address of the next page, if there is one."""
        self._permit(request, "list", None)
        narrowed = self.hooks.narrow(request) if self.hooks.narrow else ()
        base = conditions_of(self.resource, self._owner(request), narrowed)
        parameters = {name: request.query.getlist(name) for name in request.query}
        asked = ListRequest.from_request(self.resource, parameters, base, self._owner(request))
        page = service.list_items(runtime.ports(), self.resource, asked)
        headers = {} if page.total is None else {"X-Total-Count": str(page.total)}
        if page.next_page_token:
            headers["Link"] = self._next_page(parameters, asked.limit, page.next_page_token)
        return Response(200, [self._shown(request, item) for item in page.items], headers)

    def create(self, request: Request) -> Response:
        """Create an item under an id that the kit chooses. Requests with the same `Idempotency-Key` create it once."""
        owner, key = self._owner(request), request.caller_key
        if not key:
            return self._write(request, runtime.ports().store.new_id(), "create")
        operation = name_of("item", self.resource.name, owner or "", key)
        return self._write(request, made_id(operation), "create", operation)

    def read(self, request: Request, id: str) -> Response:
        """Return an item."""
        stored = self._found(request, id)
        self._permit(request, "read", self._fields(stored.item))
        precondition = Precondition.from_headers(request.entity_tags)
        precondition.check_match(stored.etag)
        if self.hooks.decorate is None and precondition.is_not_modified(stored.etag):
            return Response(304, None, {"ETag": stored.etag})
        return self._answer(request, stored, 200)

    def update(self, request: Request, id: str) -> Response:
        """Change the fields that the body has."""
        return self._write(request, valid_item_id(self.resource.name, id), "update")

    def delete(self, request: Request, id: str) -> Response:
        """Delete an item and the items that depend on it."""

        def check(item: Item) -> Iterable[str]:
            fields = self._fields(item)
            self._permit(request, "delete", fields)
            return self.hooks.cascade(request, fields) if self.hooks.cascade else ()

        id_, owner = valid_item_id(self.resource.name, id), self._owner(request)
        service.delete_item(
            runtime.ports(), self.resource, id_, owner, Precondition.from_headers(request.entity_tags), check
        )
        return Response(204)

    def meta(self, _: Request) -> Response:
        """Return the fields and their types."""
        return Response(200, meta_of(self.resource))

    def description(self, _: Request) -> Response:
        """Return the OpenAPI description of the resource."""
        return Response(200, openapi_of(self.resource, self.at, self._address("")))

    # --- a write ---

    def _write(self, request: Request, id_: str, action: Action, operation: str = "") -> Response:
        body = request.json_object()
        sent = machine.checked(self.resource.model, body, is_new=action == "create")

        def change(before: Item | None) -> Values | None:
            if action == "create" and before is not None:
                return None  # a repeat with the same Idempotency-Key
            return self._changed(request, id_, before, sent)

        precondition = Precondition() if action == "create" else Precondition.from_headers(request.entity_tags)
        receipt = Receipt(operation, name_of("body", canonical(body))) if operation else None
        asked = ItemWrite(self.resource, id_, self._owner(request), sent, change, precondition, receipt)
        stored = service.write_item(runtime.ports(), asked)
        return self._answer(request, stored, 201 if stored.created else 200)

    def _changed(self, request: Request, id_: str, before: Item | None, sent: Values) -> Values:
        """Return the fields after a write. Raises a `Problem`."""
        action: Action = "create" if before is None else "update"
        if before is None and not (request.method == "POST" or self.hooks.ids_from_clients):
            raise NotFound(f"{self.resource.name} has no item {id_[:100]!r}.", field="id")
        if before is None and request.method != "POST":
            check_chosen_id(id_)
        if before is not None:
            self._permit(request, action, self._fields(before))
        model = self.resource.model
        values = machine.complete(model, sent) if before is None else {**before.values, **sent}
        fields = {"id": id_, **items.editable(model, values)}
        if before is None:
            self._permit(request, action, fields)
        return machine.edited(model, self.hooks.prepare(request, action, fields)) if self.hooks.prepare else values

    # --- permissions and renderings ---

    def _owner(self, request: Request) -> str | None:
        return request.user.id if self.resource.owned else None

    def _permit(self, request: Request, action: Action, fields: Fields | None) -> None:
        """Raise a problem if the hook refuses the caller."""
        if self.hooks.authorise is not None and self.hooks.authorise(request, action, fields) is False:
            raise machine.refusal(self.resource.name, action, (fields or {}).get("id"))

    def _found(self, request: Request, id_: str) -> StoredItem:
        valid_item_id(self.resource.name, id_)
        return service.get_item(runtime.ports(), self.resource, id_, self._owner(request))

    def _fields(self, item: Item) -> Fields:
        return {"id": item.id, **items.editable(self.resource.model, item.values)}

    def _shown(self, request: Request, item: Item) -> Fields:
        shown = items.shown(self.resource, item)
        return self.hooks.decorate(request, shown) if self.hooks.decorate else shown

    def _answer(self, request: Request, stored: StoredItem, status: int) -> Response:
        headers = {"ETag": stored.etag}
        if status == 201:
            headers["Location"] = self._address(quote(stored.item.id, safe=""))
        return Response(status, self._shown(request, stored.item), headers)

    # --- addresses ---

    def _address(self, below: str) -> str:
        """Return the URL of the function or, with `below`, of an item."""
        function = settings().page_address_of(self.function)
        return f"{function}{self.at.rstrip('/')}/{below}" if below else function

    def _next_page(self, parameters: Parameters, limit: int, token: str) -> str:
        kept = [(name, text) for name, texts in parameters.items() if name not in SKIPS for text in texts]
        paged = SKIPS & parameters.keys() - {"page_token"}
        query = [*kept, *([("_limit", str(limit))] if paged else []), ("page_token", token)]
        collection = f"{self._address('')}{self.at.rstrip('/')}"
        return f'<{collection}?{urlencode(query)}>; rel="next"'
