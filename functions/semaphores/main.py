"""Create, change, show and delete semaphores; list them; end a lease as an operator."""

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response, Routes
from shared.core.rules.listings import PARAMETERS
from shared.semaphores.operations import semaphores as operations
from shared.semaphores.operations.deadlocks import find_deadlocks
from shared.semaphores.rules.requests import SemaphoreSettings, SemaphoresQuery, SettingsPatch, SignalRequest

routes = Routes("semaphores")


@routes.on("PUT", "/{name}")
def put(request: Request, name: str) -> Response:
    settings = SemaphoreSettings.from_request(request.json_object())
    stored = operations.put(runtime.ports(), name, settings)
    return Response(201 if stored.created else 200, stored.shown)


@routes.on("PATCH", "/{name}")
def patch(request: Request, name: str) -> Response:
    changes = SettingsPatch.from_request(request.json_object())
    return Response(200, operations.patch(runtime.ports(), name, changes))


@routes.on("GET", "/{name}")
def get(_: Request, name: str) -> Response:
    return Response(200, operations.get(runtime.ports(), name))


@routes.on("GET", "/", query=("waiting", "deadlocks", *PARAMETERS))
def find(request: Request) -> Response:
    query = SemaphoresQuery.from_request(request.query)
    if query.deadlocks:
        return Response(200, find_deadlocks(runtime.ports()))
    page = operations.find(runtime.ports(), query)
    return Response(200, page.to_json())


@routes.on("DELETE", "/{name}")
def delete(_: Request, name: str) -> Response:
    operations.delete(runtime.ports(), name)
    return Response(204)


@routes.on("DELETE", "/{name}/leases/{id}", query=("reason",))
def end(request: Request, name: str, id: str) -> Response:
    reason = request.query.get("reason", "")
    return Response(200, {"released": operations.end_by_hand(runtime.ports(), name, SignalRequest(id), reason)})


semaphores = routes.entry_point()
