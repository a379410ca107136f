"""`POST {base}tasks`: enqueue a call of a user's function, now or later, once for an id; for people and for schedules.

The routes of failures are in another module, so that this function does not load semaphores and critical sections.
"""

from signalbox.adapters.http.open_function_access import check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.ports import Ports
from signalbox.tasks.requests.enqueues import EnqueueRequest
from signalbox.tasks.service import enqueues

routes = Routes("tasks")


@routes.on("POST", "/")
def enqueue(ports: Ports, request: Request) -> Response:
    enqueue_request = EnqueueRequest.from_request(
        request.json_object(), request.header("Idempotency-Key") or "", schedule=request.schedule or ""
    )
    check_calls(request, **{"": enqueue_request.call})
    enqueued = enqueues.by_id if enqueue_request.id else enqueues.every_time
    return Response(202, {"operation": enqueued(ports, enqueue_request)})
