"""Semaphores for people: create, change, show and delete them; see who waits; end a lease by hand."""

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response, Routes
from shared.semaphores.operations import semaphores as operations
from shared.semaphores.rules.answers import as_json
from shared.semaphores.rules.requests import parse_listing

routes = Routes("semaphores")


@routes.on("PUT", "/{name}")
def put(request: Request, name: str) -> Response:
    stored = operations.put(runtime.ports(), name, request.json_object())
    return Response(201 if stored.created else 200, as_json(stored.shown))


@routes.on("PATCH", "/{name}")
def patch(request: Request, name: str) -> Response:
    return Response(200, as_json(operations.patch(runtime.ports(), name, request.json_object()).shown))


@routes.on("GET", "/{name}")
def get(_: Request, name: str) -> Response:
    return Response(200, as_json(operations.get(runtime.ports(), name)))


@routes.on("GET", "/", query=("waiting",))
def find(request: Request) -> Response:
    parse_listing(request.query)
    return Response(200, {"semaphores": as_json(operations.list_waiting(runtime.ports()))})


@routes.on("DELETE", "/{name}")
def delete(_: Request, name: str) -> Response:
    operations.delete(runtime.ports(), name)
    return Response(204)


@routes.on("DELETE", "/{name}/leases/{id}", query=("reason",))
def end(request: Request, name: str, id: str) -> Response:
    released = operations.end_by_hand(runtime.ports(), name, id, request.query.get("reason", ""))
    return Response(200, {"released": released})


semaphores = routes.entry_point()
