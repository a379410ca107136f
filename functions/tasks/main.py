"""Tasks: enqueue a call of a user's function, now or later, once for an id; for people and for schedules."""

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import deployed
from shared.adapters.http.routes import Request, Response, Routes
from shared.tasks.operations import enqueues
from shared.tasks.rules.enqueues import EnqueueRequest

routes = Routes("tasks")


@routes.on("POST", "/")
def enqueue(request: Request) -> Response:
    asked = EnqueueRequest.from_request(request.json_object(), request.header("Idempotency-Key") or _scheduled(request))
    deployed(asked.call, "")
    way = enqueues.by_id if asked.id else enqueues.anew
    return Response(202, {"operation": way(runtime.ports(), asked)})


def _scheduled(request: Request) -> str:
    """Return the id of a scheduled call: each time of a schedule counts once, however often it is called."""
    at = request.header("X-CloudScheduler-ScheduleTime")
    return f"schedule {request.header('X-CloudScheduler-JobName')} {at}" if at else ""


tasks = routes.entry_point()
