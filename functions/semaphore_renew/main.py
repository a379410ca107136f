"""Renew a lease that is still held: it ends later."""

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response, Routes
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.answers import as_json
from shared.semaphores.rules.requests import parse_renewal

routes = Routes("semaphore_renew")


@routes.on("POST", "/{name}")
def renew(request: Request, name: str) -> Response:
    lease, lease_seconds = parse_renewal(request.json_object())
    ends_at = semaphores.renew(runtime.ports(), name, lease, lease_seconds)
    return Response(200, as_json({"renewed": True, "ends_at": ends_at} if ends_at else {"renewed": False}))


semaphore_renew = routes.entry_point()
