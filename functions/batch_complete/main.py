"""Units that somebody outside completes: a person, another system, a machine with no queue."""

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response, Routes
from shared.batches.operations import batches
from shared.batches.rules import requests, units

routes = Routes("batch_complete")


@routes.on("POST", "/{id}/{index}")
def complete(request: Request, id: str, index: str) -> Response:
    outcome = units.parse_outcome(request.json_object())
    batches.complete_from_outside(runtime.ports(), id, requests.parse_index(index), outcome)
    return Response(200, {"id": id, "index": int(index)})


batch_complete = routes.entry_point()
