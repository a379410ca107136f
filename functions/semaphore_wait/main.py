"""Wait for permits of a semaphore, at once or with a continuation that runs when they are ours; cancel such a wait."""

from shared.adapters import runtime
from shared.adapters.web.continuations import check_deployed
from shared.adapters.web.http import Answer, Request, Routes
from shared.operations import semaphores
from shared.rules.semaphore_answers import as_json
from shared.rules.semaphore_requests import Wish

routes = Routes("semaphore_wait")


@routes.on("POST", "/{name}")
def wait(request: Request, name: str) -> Answer:
    ports = runtime.ports()
    wish = Wish.parse(request.json_object(), request.header("Idempotency-Key") or ports.store.new_id())
    check_deployed(continuation=wish.continuation, on_timeout=wish.on_timeout)
    return Answer(202 if wish.continuation else 200, as_json(semaphores.wait(ports, name, wish)))


@routes.on("DELETE", "/{name}/{id}")
def cancel(_: Request, name: str, id: str) -> Answer:
    return Answer(200, {"cancelled": semaphores.cancel(runtime.ports(), name, id)})


semaphore_wait = routes.entry_point()
