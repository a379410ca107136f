"""Wait for permits, at once or with a continuation that runs once they are granted; cancel such a wait."""

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import check_deployed
from shared.adapters.http.routes import Request, Response, Routes
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.requests import WaitRequest

routes = Routes("semaphore_wait")


@routes.on("POST", "/{name}")
def wait(request: Request, name: str) -> Response:
    ports = runtime.ports()
    id_ = request.header("Idempotency-Key") or ports.store.new_id()
    wanted = WaitRequest.from_request(request.json_object(), id_)
    check_deployed(continuation=wanted.continuation, on_timeout=wanted.on_timeout)
    return Response(202 if wanted.continuation else 200, semaphores.wait(ports, name, wanted).to_json())


@routes.on("DELETE", "/{name}/{id}")
def cancel(_: Request, name: str, id: str) -> Response:
    return Response(200, {"cancelled": semaphores.cancel(runtime.ports(), name, id)})


semaphore_wait = routes.entry_point()
