"""`add_resource`, as users import it from `signalbox`: a model, and its items under ``{base}NAME``.

class ToDo:
    text: str
    done: bool = False

app = Function("office")
add_resource(app, ToDo, "/todos")
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypedDict, Unpack

from signalbox.adapters.http.routes import Request
from signalbox.core.records.queries import Operator
from signalbox.resources.http import Fields, Hooks, ResourceRoutes
from signalbox.resources.machine import Action
from signalbox.resources.model.declared_models import Model
from signalbox.resources.model.fields import Hidden, ReadOnly, RefersTo
from signalbox.resources.model.items import Resource

__all__ = ["Hidden", "Options", "ReadOnly", "RefersTo", "add_resource"]


NAME = re.compile(r"[a-z][a-z0-9_-]{0,99}")


class Options(TypedDict, total=False):
    """Options of a resource. Hooks are called with the request first; items are dicts with their `id`.

    each_user         users see and change only their own items; needs ``auth: firebase``
    ids_from_clients  a PUT under an id that has no item creates it
    authorise         ``(request, action, item)``; False refuses: 404 for an item, 403 for "list" and "create"
    narrow            ``(request)``: returns conditions for each list, such as ``("done", "==", False)``
    prepare           ``(request, action, item)``: returns the item to store, with hidden and read-only fields
    decorate          ``(request, item)``: returns the answer instead of the item
    cascade           ``(request, item)``: returns keys of documents to delete with the item
    """

    each_user: bool
    ids_from_clients: bool
    authorise: Callable[[Request, Action, Fields | None], bool | None]
    narrow: Callable[[Request], Iterable[tuple[str, Operator, Any]]]
    prepare: Callable[[Request, Action, Fields], Fields]
    decorate: Callable[[Request, Fields], Fields]
    cascade: Callable[[Request, Fields], Iterable[str]]


class App(Protocol):
    """The part of a `Function` that a resource needs: its name, and its routes."""

    name: str

    def http(
        self, method: str, pattern: str, *, query: Iterable[str] | None = None
    ) -> Callable[[Callable[..., Any]], object]:
        """Route a method and a pattern to a handler."""


def add_resource(app: App, model: type, at: str = "/", **options: Unpack[Options]) -> None:
    """Serve a resource at ``{base}NAME`` + `at`, in a function that may have other routes and tasks.

    The resource has the name of the last part of `at`, or that of the function; references use this name. Raises
    `TypeError` for a model with an unsupported field, and `ValueError` for an invalid name.
    """
    name = at.rstrip("/").rpartition("/")[2] or app.name
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a valid name of a resource: use lower-case letters, digits, - and _, "
            "and begin with a letter"
        )
    kind = Resource(name, Model.from_class(model), owned=options.get("each_user", False))
    hooks: dict[str, Any] = {name: option for name, option in options.items() if name != "each_user"}
    _route(app, ResourceRoutes(kind, Hooks(**hooks), app.name, at))


def _route(app: App, handlers: ResourceRoutes) -> None:
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
