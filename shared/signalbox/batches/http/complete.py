"""Units completed from outside, by a person, another system, or a machine without a queue.

A part of its own, because the function `batch_complete` needs nothing of the other routes.
"""

from typing import Annotated

from signalbox.adapters.deployed_catalogue import read_parameters
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.batches.model.units import UnitError, UnitOutcome, UnitResult, parse_index
from signalbox.batches.service.units import complete_by_index
from signalbox.batches.shown import CompletedUnitShown
from signalbox.core.ports import Ports
from signalbox.core.problems import NotFound
from signalbox.core.surface.field_rules import KEY, Described

routes = Routes("batch_complete")

UnitIndex = Annotated[str, Described({"type": "integer", "minimum": 0, "maximum": 999_999_999})]


@routes.on(
    "POST",
    "/{id}/{index}",
    body=UnitResult | UnitError,
    answers={200: CompletedUnitShown},
    refuses=(NotFound,),
)
def complete_unit(ports: Ports, request: Request, id: Annotated[str, KEY], index: UnitIndex) -> Response:
    """Complete a unit from outside, once; a repeat changes nothing."""
    read_parameters()
    outcome = UnitOutcome.from_request(request.json_object_of_values())
    complete_by_index(ports, id, parse_index(index), outcome)
    return Response(200, CompletedUnitShown(id, int(index)))
