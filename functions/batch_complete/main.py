"""Units completed from outside: by a person, another system, a machine without a queue."""

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response, Routes
from shared.batches.operations.units import complete_by_index
from shared.batches.rules.outcomes import UnitOutcome
from shared.batches.rules.units import parse_index

routes = Routes("batch_complete")


@routes.on("POST", "/{id}/{index}")
def complete(request: Request, id: str, index: str) -> Response:
    outcome = UnitOutcome.from_request(request.json_object())
    complete_by_index(runtime.ports(), id, parse_index(index), outcome)
    return Response(200, {"id": id, "index": int(index)})


batch_complete = routes.entry_point()
