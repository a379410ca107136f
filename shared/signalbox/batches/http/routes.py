"""Batches for callers over HTTP: list, populate, add pages, seal, watch, retry, cancel."""

from collections.abc import Iterator
from typing import Any

from signalbox.adapters.deployed_catalogue import read_parameters
from signalbox.adapters.http.json_bodies import render
from signalbox.adapters.http.open_function_access import check_calls, check_unit_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.batches.http.watch_feeds import stream
from signalbox.batches.limits import LIMITS
from signalbox.batches.model.headers import Header, then_id
from signalbox.batches.model.units import UnitRecord
from signalbox.batches.requests import (
    BatchesQuery,
    BatchSpec,
    PageRequest,
    RetryRequest,
    SealRequest,
    UnitsQuery,
    first_page_of,
    requested_id,
)
from signalbox.batches.service import lifecycle, lists, pages, population, retries
from signalbox.batches.storage import last_error_of_batch
from signalbox.core.paging import OF_NAMES
from signalbox.core.ports import Ports
from signalbox.core.problems import BadQuery

routes = Routes("batches")
LINES = "application/x-ndjson"


# --- batches ---


@routes.on("POST", "/")
def populate(ports: Ports, request: Request) -> Response:
    body = request.json_object(LIMITS.call_bytes_max)
    spec = BatchSpec.from_request(body)
    check_calls(request, **spec.calls())
    check_unit_calls(request, **spec.unit_calls())
    spec.check_arguments()
    batch = requested_id(body, request.header("Idempotency-Key")) or ports.store.new_id()
    populated = population.populate(ports, batch, spec)
    return Response(201 if populated.created else 200, populated.status.to_json())


@routes.on("GET", "/", query=("state", *OF_NAMES))
def find(ports: Ports, request: Request) -> Response:
    page = lists.find(ports, BatchesQuery.from_request(request.query))
    return Response(200, {"batches": [listed(*named) for named in page.headers.items()], **page.more})


@routes.on("POST", "/{id}/seal")
def seal(ports: Ports, request: Request, id: str) -> Response:
    status = lifecycle.seal(ports, id, SealRequest.from_request(request.json_object()))
    return Response(200, status.to_json())


@routes.on("GET", "/{id}")
def get(ports: Ports, _: Request, id: str) -> Response:
    status = lifecycle.get(ports, id)
    last_error = last_error_of_batch(ports, id) if status.runs else {}
    return Response(200, status.to_json() | last_error)


@routes.on("GET", "/{id}/events", query=("last_event_id",))
def watch(ports: Ports, request: Request, id: str) -> Response:
    return stream(ports, id, request.header("Last-Event-ID") or request.query.get("last_event_id"))


@routes.on("DELETE", "/{id}")
def cancel(ports: Ports, _: Request, id: str) -> Response:
    return Response(200, lifecycle.cancel(ports, id).to_json())


def listed(batch: str, header: Header) -> dict[str, Any]:
    """Return a batch as a list shows it, from its header, which has the counts of units once the batch has ended."""
    summary = header.summary() if header.ended else {"state": header.state}
    counts = summary | {"remaining": header.counts.remaining} if header.ended else summary
    size = {} if header.size is None else {"size": header.size}
    task = {} if header.task is None else {"task": header.task.shown()}
    follows = then_id(batch, header)
    then = {"then": follows} if follows else {}
    place = {"pages": header.pages, "deadline_at": header.deadline_at}
    return {"id": batch, **counts, **size, **place, **task, **then}


# --- units ---


@routes.on("POST", "/{id}/units", query=("page",))
def add_page(ports: Ports, request: Request, id: str) -> Response:
    read_parameters()
    if request.has_lines:
        return _add_lines(ports, request, id)
    if "page" in request.query:
        raise BadQuery("`page` in the address is for newline-delimited JSON; here it is in the body.", field="page")
    page = PageRequest.from_request(request.json_object())
    created = pages.add_page(ports, id, page)
    return Response(201 if created else 200, {"id": id, "page": page.page, "units": len(page.units)})


def _add_lines(ports: Ports, request: Request, id: str) -> Response:
    added = pages.add_units(ports, id, first_page_of(request.query), request.json_line_stream())
    return Response(201 if added.created else 200, {"id": id, "page": added.page, "units": added.units})


@routes.on("GET", "/{id}/units", query=("state", "page_token"))
def list_units(ports: Ports, request: Request, id: str) -> Response:
    page = lists.list_units(ports, id, UnitsQuery.from_request(request.query))
    more = {"next_page_token": page.next_page_token} if page.next_page_token else {}
    return Response(200, {"units": [unit.to_json() for unit in page.units], **more})


@routes.on("GET", "/{id}/results", query=("state", "after"))
def results(ports: Ports, request: Request, id: str) -> Response:
    outcomes = lists.outcomes_of(ports, id, UnitsQuery.of_results(request.query))
    return Response(200, _lines(outcomes), {"Content-Type": LINES})


def _lines(outcomes: Iterator[UnitRecord]) -> Iterator[bytes]:
    return (render(unit.to_json()) + b"\n" for unit in outcomes)


@routes.on("POST", "/{id}/retry")
def retry(ports: Ports, request: Request, id: str) -> Response:
    read_parameters()
    asked = RetryRequest.from_request(request.json_object())
    retries.retry(ports, id, asked, request.header("Idempotency-Key") or "")
    return Response(202, {"id": id})
