"""The routes of a resource: list, create, read, change and delete items; the model; its OpenAPI description."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlencode

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response
from shared.adapters.settings import settings
from shared.core.rules.effects import name_of
from shared.core.rules.problems import NotFound, PermissionDenied
from shared.core.rules.queries import Operator
from shared.documents.rules.preconditions import Precondition
from shared.resources.operations import deletes, lists
from shared.resources.operations import items as operations
from shared.resources.operations.items import ItemWrite, StoredItem
from shared.resources.rules import items, openapi
from shared.resources.rules.filters import conditions_of
from shared.resources.rules.items import Item, Resource, Values
from shared.resources.rules.lists import ListRequest, Parameters
from shared.resources.rules.references import valid_item_id

Action = Literal["list", "read", "create", "update", "delete"]
Fields = dict[str, Any]
"""All fields of an item as a request would have them, hidden ones too, and its `id`."""

SKIPS = {"_start", "_end", "_page", "_limit", "page_token"}


@dataclass(frozen=True, slots=True)
class Hooks:
    """Code of a user's that decides, adds or changes: see `shared.kit.resources.Options`."""

    authorise: Callable[[Request, Action, Fields | None], bool | None] | None = None
    narrow: Callable[[Request], Iterable[tuple[str, Operator, Any]]] | None = None
    prepare: Callable[[Request, Action, Fields], Fields] | None = None
    decorate: Callable[[Request, Fields], Fields] | None = None
    cascade: Callable[[Request, Fields], Iterable[str]] | None = None
    ids_from_clients: bool = False


@dataclass(frozen=True, slots=True)
class ResourceRoutes:
    """The handlers of one resource, which `function` serves under `at`."""

    resource: Resource
    hooks: Hooks
    function: str
    at: str

    def list(self, request: Request) -> Response:
        """Return a page of items as an array; where there is another, `Link` has its address."""
        self._permit(request, "list", None)
        narrowed = self.hooks.narrow(request) if self.hooks.narrow else ()
        base = conditions_of(self.resource, self._owner(request), narrowed)
        parameters = {name: request.query.getlist(name) for name in request.query}
        asked = ListRequest.from_request(self.resource, parameters, base)
        page = lists.list_items(runtime.ports(), self.resource, asked)
        headers = {} if page.total is None else {"X-Total-Count": str(page.total)}
        if page.next_page_token:
            headers["Link"] = self._next_page(parameters, asked.limit, page.next_page_token)
        return Response(200, [self._shown(request, each) for each in page.items], headers)

    def create(self, request: Request) -> Response:
        """Create an item under an id of the kit's; under one `Idempotency-Key`, once."""
        owner, key = self._owner(request), request.header("Idempotency-Key")
        repeatable = name_of("item", self.resource.name, owner or "", key)[:20] if key else ""
        return self._write(request, repeatable or runtime.ports().store.new_id(), "create")

    def read(self, request: Request, id: str) -> Response:  # noqa: A002  as the address names it
        """Return an item."""
        stored = self._found(request, id)
        self._permit(request, "read", self._fields(stored.item))
        request.precondition.check_match(stored.etag)
        if self.hooks.decorate is None and request.precondition.is_not_modified(stored.etag):
            return Response(304, None, {"ETag": stored.etag})
        return self._answer(request, stored, 200)

    def update(self, request: Request, id: str) -> Response:  # noqa: A002
        """Change the fields that the body has."""
        return self._write(request, valid_item_id(self.resource.name, id), "update")

    def delete(self, request: Request, id: str) -> Response:  # noqa: A002
        """Delete an item and what goes with it."""

        def check(item: Item) -> Iterable[str]:
            fields = self._fields(item)
            self._permit(request, "delete", fields)
            return self.hooks.cascade(request, fields) if self.hooks.cascade else ()

        id_, owner = valid_item_id(self.resource.name, id), self._owner(request)
        deletes.delete(runtime.ports(), self.resource, id_, owner, request.precondition, check)
        return Response(204)

    def meta(self, _: Request) -> Response:
        """Return the fields and their types."""
        return Response(200, openapi.meta(self.resource))

    def description(self, _: Request) -> Response:
        """Return the OpenAPI description."""
        return Response(200, openapi.description(self.resource, self.at, self._address("")))

    # --- a write ---

    def _write(self, request: Request, id_: str, action: Action) -> Response:
        body = request.json_object()
        sent = items.checked(self.resource.model, body, is_new=action == "create")

        def change(before: Item | None) -> Values | None:
            if action == "create" and before is not None:
                return None  # a repeat under the same Idempotency-Key
            return self._changed(request, id_, before, sent)

        precondition = Precondition() if action == "create" else request.precondition
        asked = ItemWrite(self.resource, id_, self._owner(request), sent, change, precondition)
        stored = operations.write(runtime.ports(), asked)
        return self._answer(request, stored, 201 if stored.created else 200)

    def _changed(self, request: Request, id_: str, before: Item | None, sent: Values) -> Values:
        """Return the fields after a write. Raises a `Problem`."""
        action: Action = "create" if before is None else "update"
        if before is None and not (request.method == "POST" or self.hooks.ids_from_clients):
            raise NotFound(f"{self.resource.name} has no item {id_[:100]!r}.", field="id")
        if before is not None:
            self._permit(request, action, self._fields(before))
        model = self.resource.model
        values = items.complete(model, sent) if before is None else {**before.values, **sent}
        fields = {"id": id_, **items.editable(model, values)}
        if before is None:
            self._permit(request, action, fields)
        return items.edited(model, self.hooks.prepare(request, action, fields)) if self.hooks.prepare else values

    # --- what a caller may, and sees ---

    def _owner(self, request: Request) -> str | None:
        return request.user.id if self.resource.owned else None

    def _permit(self, request: Request, action: Action, fields: Fields | None) -> None:
        """Raise `NotFound` or, where that would say nothing, `PermissionDenied` unless the caller may."""
        if self.hooks.authorise is None or self.hooks.authorise(request, action, fields) is not False:
            return
        if action in ("list", "create"):
            raise PermissionDenied(f"You may not {action} items of {self.resource.name}.")
        raise NotFound(f"{self.resource.name} has no item {str((fields or {}).get('id'))[:100]!r}.", field="id")

    def _found(self, request: Request, id_: str) -> StoredItem:
        valid_item_id(self.resource.name, id_)
        return operations.get(runtime.ports(), self.resource, id_, self._owner(request))

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
        """Return the address of the function or, below the resource, of an item."""
        function = settings().function_url.format(function=self.function.replace("_", "-"))
        return f"{function}{self.at.rstrip('/')}/{below}" if below else function

    def _next_page(self, parameters: Parameters, limit: int, token: str) -> str:
        kept = [(name, text) for name, texts in parameters.items() if name not in SKIPS for text in texts]
        paged = SKIPS & parameters.keys() - {"page_token"}
        query = [*kept, *([("_limit", str(limit))] if paged else []), ("page_token", token)]
        collection = f"{self._address('')}{self.at.rstrip('/')}"
        return f'<{collection}?{urlencode(query)}>; rel="next"'
