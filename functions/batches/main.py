"""Batches for people: list, populate, add pages, seal, watch, retry, cancel."""

from shared.adapters import runtime
from shared.adapters.http import batch_events
from shared.adapters.http.deployed_tasks import check_deployed
from shared.adapters.http.routes import Request, Response, Routes
from shared.batches.operations import batches as operations
from shared.batches.operations import pages, tasks, units
from shared.batches.rules.queries import BatchesQuery, UnitsQuery
from shared.batches.rules.requests import BatchSpec, PageRequest, RetryRequest, SealRequest, requested_id
from shared.core.rules.limits import LIMITS
from shared.core.rules.listings import PARAMETERS
from shared.tasks.operations import errors

routes = Routes("batches")


@routes.on("POST", "/")
def populate(request: Request) -> Response:
    body = request.json_object(LIMITS.call_bytes_max)
    spec = BatchSpec.from_request(body)
    check_deployed(task=spec.task, on_complete=spec.on_complete)
    for call in spec.calls_by_queue():
        check_deployed(queues=call)
    batch = requested_id(body, request.header("Idempotency-Key")) or runtime.ports().store.new_id()
    populated = operations.populate(runtime.ports(), batch, spec)
    return Response(201 if populated.created else 200, populated.status.to_json())


@routes.on("GET", "/", query=("state", *PARAMETERS))
def find(request: Request) -> Response:
    return Response(200, operations.find(runtime.ports(), BatchesQuery.from_request(request.query)).to_json())


@routes.on("POST", "/{id}/units")
def add_page(request: Request, id: str) -> Response:
    page = PageRequest.from_request(request.json_object())
    created = pages.add_page(runtime.ports(), id, page)
    return Response(201 if created else 200, {"id": id, "page": page.page, "units": len(page.units)})


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
