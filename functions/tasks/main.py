"""Tasks for people: enqueue a call of a user's function, now or later, once for an id."""

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import deployed
from shared.adapters.http.routes import Request, Response, Routes
from shared.tasks.operations import enqueues
from shared.tasks.rules.enqueues import EnqueueRequest

routes = Routes("tasks")


@routes.on("POST", "/")
def enqueue(request: Request) -> Response:
    asked = EnqueueRequest.from_request(request.json_object(), request.header("Idempotency-Key") or "")
    deployed(asked.call, "")
    way = enqueues.by_id if asked.id else enqueues.anew
    return Response(202, {"operation": way(runtime.ports(), asked)})


tasks = routes.entry_point()
