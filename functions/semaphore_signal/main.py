"""Signal a semaphore: end a lease, and pass its permits on to who waits."""

from shared.adapters import runtime
from shared.adapters.web.http import Answer, Request, Routes
from shared.operations import semaphores
from shared.rules.semaphore_requests import parse_signal

routes = Routes("semaphore_signal")


@routes.on("POST", "/{name}")
def signal(request: Request, name: str) -> Answer:
    lease = parse_signal(request.json_object())
    operation = request.header("Idempotency-Key") or ""
    return Answer(200, {"released": semaphores.signal(runtime.ports(), name, lease, operation)})


semaphore_signal = routes.entry_point()
