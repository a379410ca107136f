"""Units that somebody outside completes: a person, another system, a machine with no queue."""

from shared.adapters import runtime
from shared.adapters.web.http import Answer, Request, Routes
from shared.operations import batches
from shared.rules import batch_requests as requests
from shared.rules import batch_units as units

routes = Routes("batch_complete")


@routes.on("POST", "/{id}/{index}")
def complete(request: Request, id: str, index: str) -> Answer:
    outcome = units.parse_outcome(request.json_object())
    batches.complete_from_outside(runtime.ports(), id, requests.parse_index(index), outcome)
    return Answer(200, {"id": id, "index": int(index)})


batch_complete = routes.entry_point()
