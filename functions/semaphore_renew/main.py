"""Renew a lease that is still held: it ends later."""

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response, Routes
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.requests import RenewRequest

routes = Routes("semaphore_renew")


@routes.on("POST", "/{name}")
def renew(request: Request, name: str) -> Response:
    ends_at = semaphores.renew(runtime.ports(), name, RenewRequest.from_request(request.json_object()))
    return Response(200, {"renewed": True, "ends_at": ends_at} if ends_at else {"renewed": False})


semaphore_renew = routes.entry_point()
