"""Signal a semaphore: end a lease, and pass its permits on to who waits."""

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response, Routes
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.requests import parse_signal

routes = Routes("semaphore_signal")


@routes.on("POST", "/{name}")
def signal(request: Request, name: str) -> Response:
    lease = parse_signal(request.json_object())
    operation = request.header("Idempotency-Key") or ""
    return Response(200, {"released": semaphores.signal(runtime.ports(), name, lease, operation)})


semaphore_signal = routes.entry_point()
