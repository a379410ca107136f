"""Wait for permits of a semaphore, at once or with a continuation that runs when they are ours; cancel such a wait."""

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import check_deployed
from shared.adapters.http.routes import Request, Response, Routes
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.answers import as_json
from shared.semaphores.rules.requests import Wish

routes = Routes("semaphore_wait")


@routes.on("POST", "/{name}")
def wait(request: Request, name: str) -> Response:
    ports = runtime.ports()
    wish = Wish.parse(request.json_object(), request.header("Idempotency-Key") or ports.store.new_id())
    check_deployed(continuation=wish.continuation, on_timeout=wish.on_timeout)
    return Response(202 if wish.continuation else 200, as_json(semaphores.wait(ports, name, wish)))


@routes.on("DELETE", "/{name}/{id}")
def cancel(_: Request, name: str, id: str) -> Response:
    return Response(200, {"cancelled": semaphores.cancel(runtime.ports(), name, id)})


semaphore_wait = routes.entry_point()
