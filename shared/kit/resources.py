"""REST resources: a model, and its items under ``{base}NAME`` as tables and client libraries expect them.

class ToDo:
    text: str
    done: bool = False

todos = resource("todos", ToDo)
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, TypedDict, Unpack

from shared.adapters.http.routes import Request
from shared.core.rules.queries import Operator
from shared.kit.functions import Function
from shared.kit.resource_http import Action, Fields, Hooks, ResourceRoutes
from shared.resources.rules.fields import Hidden, ReadOnly, RefersTo
from shared.resources.rules.items import Resource
from shared.resources.rules.models import Model

__all__ = ["Hidden", "Options", "ReadOnly", "RefersTo", "add_resource", "resource"]

NAME = re.compile(r"[a-z][a-z0-9_-]{0,99}")


class Options(TypedDict, total=False):
    """How a resource differs from the plain one. The hooks get the request first; items are dicts with their `id`.

    each_user         each user sees and changes their own items only; needs ``auth: firebase``
    ids_from_clients  a PUT under an id that has no item creates it
    authorise         ``(request, action, item)``; false: 404 for an item, 403 for "list" and "create"
    narrow            ``(request)``: conditions that each list has, as ``("done", "==", False)``
    prepare           ``(request, action, item)``: the item to store, hidden and read-only fields included
    decorate          ``(request, item)``: what is answered instead of the item
    cascade           ``(request, item)``: keys of documents that are deleted with the item
    """

    each_user: bool
    ids_from_clients: bool
    authorise: Callable[[Request, Action, Fields | None], bool | None]
    narrow: Callable[[Request], Iterable[tuple[str, Operator, Any]]]
    prepare: Callable[[Request, Action, Fields], Fields]
    decorate: Callable[[Request, Fields], Fields]
    cascade: Callable[[Request, Fields], Iterable[str]]


def resource(name: str, model: type, **options: Unpack[Options]) -> Callable[..., Any]:
    """Return the entry point of a function that serves one resource, and nothing else, at ``{base}NAME``.

    Raises `TypeError` for a model with a field that cannot be, `ValueError` for a name that cannot.
    """
    app = Function(name)
    add_resource(app, model, **options)
    return app.entry_point()


def add_resource(app: Function, model: type, at: str = "/", **options: Unpack[Options]) -> None:
    """Serve a resource in a function that has more: at ``{base}NAME`` + `at`.

    The resource is named after the last part of `at`, or the function; references name it so. Raises as `resource`.
    """
    name = at.rstrip("/").rpartition("/")[2] or app.name
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a resource: write lower case letters, digits, - and _")
    kind = Resource(name, Model.from_class(model), owned=options.get("each_user", False))
    hooks: dict[str, Any] = {name: option for name, option in options.items() if name != "each_user"}
    _route(app, ResourceRoutes(kind, Hooks(**hooks), app.name, at))


def _route(app: Function, handlers: ResourceRoutes) -> None:
    at = handlers.at.rstrip("/")
    for collection in {f"{at}/", at or "/"}:
        app.http("GET", collection)(handlers.list)
        app.http("POST", collection, query=())(handlers.create)
    app.http("GET", f"{at}/meta", query=())(handlers.meta)
    app.http("GET", f"{at}/openapi.json", query=())(handlers.description)
    app.http("GET", f"{at}/{{id}}", query=())(handlers.read)
    app.http("PUT", f"{at}/{{id}}", query=())(handlers.update)
    app.http("PATCH", f"{at}/{{id}}", query=())(handlers.update)
    app.http("DELETE", f"{at}/{{id}}", query=())(handlers.delete)
