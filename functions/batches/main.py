"""Batches for people: list, populate, add pages, seal, watch, retry, cancel."""

from shared.adapters import runtime
from shared.adapters.http import batch_events
from shared.adapters.http.deployed_tasks import check_deployed
from shared.adapters.http.json_text import render
from shared.adapters.http.routes import Request, Response, Routes
from shared.batches.operations import batches as operations
from shared.batches.operations import pages, tasks, units
from shared.batches.rules.batch_spec import BatchSpec
from shared.batches.rules.queries import BatchesQuery, UnitsQuery, first_page_of
from shared.batches.rules.requests import PageRequest, RetryRequest, SealRequest, requested_id
from shared.core.rules.limits import LIMITS
from shared.core.rules.listings import PARAMETERS
from shared.core.rules.problems import BadQuery
from shared.tasks.operations import errors

routes = Routes("batches")
LINES = "application/x-ndjson"


@routes.on("POST", "/")
def populate(request: Request) -> Response:
    body = request.json_object(LIMITS.call_bytes_max)
    spec = BatchSpec.from_request(body)
    check_deployed(**spec.calls())
    batch = requested_id(body, request.header("Idempotency-Key")) or runtime.ports().store.new_id()
    populated = operations.populate(runtime.ports(), batch, spec)
    return Response(201 if populated.created else 200, populated.status.to_json())


@routes.on("GET", "/", query=("state", *PARAMETERS))
def find(request: Request) -> Response:
    return Response(200, operations.find(runtime.ports(), BatchesQuery.from_request(request.query)).to_json())


@routes.on("POST", "/{id}/units", query=("page",))
def add_page(request: Request, id: str) -> Response:
    if request.has_lines:
        return _add_lines(request, id)
    if "page" in request.query:
        raise BadQuery("`page` in the address is for newline-delimited JSON; here it is in the body.", field="page")
    page = PageRequest.from_request(request.json_object())
    created = pages.add_page(runtime.ports(), id, page)
    return Response(201 if created else 200, {"id": id, "page": page.page, "units": len(page.units)})


def _add_lines(request: Request, id: str) -> Response:
    added = pages.add_units(runtime.ports(), id, first_page_of(request.query), request.json_line_stream())
    return Response(201 if added.created else 200, {"id": id, "page": added.page, "units": added.units})


@routes.on("POST", "/{id}/seal")
def seal(request: Request, id: str) -> Response:
    status = operations.seal(runtime.ports(), id, SealRequest.from_request(request.json_object()))
    return Response(200, status.to_json())


@routes.on("GET", "/{id}")
def get(_: Request, id: str) -> Response:
    status = operations.get(runtime.ports(), id)
    last_error = errors.of_batch(runtime.ports(), id) if status.runs else {}
    return Response(200, status.to_json() | last_error)


@routes.on("GET", "/{id}/units", query=("state", "page_token"))
def list_units(request: Request, id: str) -> Response:
    page = units.list_units(runtime.ports(), id, UnitsQuery.from_request(request.query))
    more = {"next_page_token": page.next_page_token} if page.next_page_token else {}
    return Response(200, {"units": [unit.to_json() for unit in page.units], **more})


@routes.on("GET", "/{id}/results", query=("state", "after"))
def results(request: Request, id: str) -> Response:
    found = units.outcomes_of(runtime.ports(), id, UnitsQuery.of_results(request.query))
    return Response(200, (render(unit.to_json()) + b"\n" for unit in found), {"Content-Type": LINES})


@routes.on("GET", "/{id}/events", query=("last_event_id",))
def watch(request: Request, id: str) -> Response:
    return batch_events.stream(id, request.header("Last-Event-ID") or request.query.get("last_event_id"))


@routes.on("POST", "/{id}/retry")
def retry(request: Request, id: str) -> Response:
    tasks.retry(runtime.ports(), id, RetryRequest.from_request(request.json_object()))
    return Response(202, {"id": id})


@routes.on("DELETE", "/{id}")
def cancel(_: Request, id: str) -> Response:
    return Response(200, operations.cancel(runtime.ports(), id).to_json())


batches = routes.entry_point()
