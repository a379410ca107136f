"""`POST {base}tasks`: enqueue a call of a user's function, now or later, once for an id; for people and for schedules.

The routes of failures are in another module, so that this function does not load semaphores and critical sections.
"""

from signalbox.adapters.http.open_function_access import check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.route_declarations import IDEMPOTENCY_KEY
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import Ports
from signalbox.core.problems import OtherBody
from signalbox.tasks.requests.enqueues import EnqueuedCall, EnqueueRequest
from signalbox.tasks.service import enqueues
from signalbox.tasks.shown.enqueues import EnqueuedShown

routes = Routes("tasks")


@routes.on(
    "POST",
    "/",
    headers=(IDEMPOTENCY_KEY,),
    body=EnqueuedCall,
    answers={202: EnqueuedShown},
    refuses=(OtherBody,),
    example={
        "function": "quilt",
        "task": "paint",
        "payload": {"row": 1, "column": 2},
        "delay_seconds": 60,
        "id": "order-7",
    },
)
def enqueue_task(ports: Ports, request: Request) -> Response:
    """Enqueue a task of a user's function, now or later, once for each id.

    With an `id` or an `Idempotency-Key`, a repeat changes nothing for 32 days, and another call under it is refused
    with 409. Without one, each call enqueues a task. An unknown function, task, queue or argument and a missing
    argument are refused, also in the calls that other requests contain. The types of arguments are checked when the
    task runs.
    """
    body = request.json_object_of_values()
    enqueue_request = EnqueueRequest.from_request(body, request.caller_key, schedule=request.schedule or "")
    named = replace(enqueue_request.call, payload=dict.fromkeys(enqueue_request.call.payload))  # values may be large
    check_calls(request, **{"": named})
    if enqueue_request.id:
        return Response(202, EnqueuedShown(*enqueues.once(ports, enqueue_request)))
    return Response(202, EnqueuedShown(enqueues.every_time(ports, enqueue_request), repeated=False))
