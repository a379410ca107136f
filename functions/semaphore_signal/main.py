"""Signal a semaphore: end a lease, and grant its permits to the waiters."""

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response, Routes
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.requests import SignalRequest

routes = Routes("semaphore_signal")


@routes.on("POST", "/{name}")
def signal(request: Request, name: str) -> Response:
    signalled = SignalRequest.from_request(request.json_object(), request.header("Idempotency-Key") or "")
    return Response(200, {"released": semaphores.signal(runtime.ports(), name, signalled)})


semaphore_signal = routes.entry_point()
