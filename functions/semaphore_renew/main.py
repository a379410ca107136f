"""Renew a lease that is still held: it ends later."""

from shared.adapters import runtime
from shared.adapters.web.http import Answer, Request, Routes
from shared.operations import semaphores
from shared.rules.semaphore_answers import as_json
from shared.rules.semaphore_requests import parse_renewal

routes = Routes("semaphore_renew")


@routes.on("POST", "/{name}")
def renew(request: Request, name: str) -> Answer:
    lease, lease_seconds = parse_renewal(request.json_object())
    ends_at = semaphores.renew(runtime.ports(), name, lease, lease_seconds)
    return Answer(200, as_json({"renewed": True, "ends_at": ends_at} if ends_at else {"renewed": False}))


semaphore_renew = routes.entry_point()
