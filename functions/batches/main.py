"""Batches for people: load units of work, seal, watch, retry, cancel."""

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import check_deployed
from shared.adapters.http.routes import Request, Response, Routes
from shared.batches.operations import batches as operations
from shared.batches.rules import requests
from shared.core.rules.limits import LIMITS

routes = Routes("batches")


@routes.on("POST", "/")
def populate(request: Request) -> Response:
    body = request.json_object(LIMITS.call_bytes_max)
    order = requests.parse_order(body)
    check_deployed(task=order.task, on_complete=order.on_complete)
    batch = requests.id_of(body, request.header("Idempotency-Key"))
    status = operations.populate(runtime.ports(), batch or runtime.ports().store.new_id(), order)
    return Response(201 if status.created else 200, status.batch)


@routes.on("POST", "/{id}/units")
def add_page(request: Request, id: str) -> Response:
    page, units = requests.parse_page(request.json_object())
    created = operations.add_page(runtime.ports(), id, page, units)
    return Response(201 if created else 200, {"id": id, "page": page, "units": len(units)})


@routes.on("POST", "/{id}/seal")
def seal(request: Request, id: str) -> Response:
    return Response(200, operations.seal(runtime.ports(), id, requests.parse_seal(request.json_object())).batch)


@routes.on("GET", "/{id}")
def get(_: Request, id: str) -> Response:
    return Response(200, operations.get(runtime.ports(), id).batch)


@routes.on("GET", "/{id}/units", query=("state", "page_token"))
def list_units(request: Request, id: str) -> Response:
    query = request.query
    listed = operations.list_units(runtime.ports(), id, query.get("state", ""), query.get("page_token", ""))
    more = {"next_page_token": listed.next_page_token} if listed.next_page_token else {}
    return Response(200, {"units": listed.units, **more})


@routes.on("POST", "/{id}/retry")
def retry(request: Request, id: str) -> Response:
    operations.retry(runtime.ports(), id, requests.parse_retry(request.json_object()))
    return Response(202, {"id": id})


@routes.on("DELETE", "/{id}")
def cancel(_: Request, id: str) -> Response:
    return Response(200, operations.cancel(runtime.ports(), id).batch)


batches = routes.entry_point()
