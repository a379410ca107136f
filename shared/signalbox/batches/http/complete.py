"""Units completed from outside, by a person, another system, or a machine without a queue.

A part of its own, because the function `batch_complete` needs nothing of the other routes.
"""

from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.batches.model.units import UnitOutcome, parse_index
from signalbox.batches.service.units import complete_by_index
from signalbox.core.ports import Ports

routes = Routes("batch_complete")


@routes.on("POST", "/{id}/{index}")
def complete(ports: Ports, request: Request, id: str, index: str) -> Response:
    outcome = UnitOutcome.from_request(request.json_object())
    complete_by_index(ports, id, parse_index(index), outcome)
    return Response(200, {"id": id, "index": int(index)})
