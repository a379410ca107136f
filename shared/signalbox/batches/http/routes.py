"""Batches for callers over HTTP: list, populate, add pages, seal, watch, retry, cancel."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from signalbox.adapters.deployed_catalogue import read_parameters
from signalbox.adapters.http.json_bodies import JSON, render
from signalbox.adapters.http.open_function_access import check_calls, check_unit_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.route_declarations import IDEMPOTENCY_KEY, PAGE_TOKEN, PREFIX, Answer, Parameter, limit
from signalbox.adapters.http.routes import Request, Routes
from signalbox.batches import storage
from signalbox.batches.http.complete import UnitIndex
from signalbox.batches.http.watch_feeds import stream
from signalbox.batches.limits import LIMITS
from signalbox.batches.model.headers import ShownState
from signalbox.batches.model.units import UnitState, parse_index
from signalbox.batches.problems import BatchSealed, NothingToRun, PageOutOfOrder
from signalbox.batches.requests import (
    BatchesQuery,
    BatchSpec,
    PageRequest,
    RetryRequest,
    SealRequest,
    UnitsQuery,
    check_chosen_id,
    check_is_of_callers,
    first_page_of,
)
from signalbox.batches.service import lifecycle, lists, pages, population, retries
from signalbox.batches.shown import (
    BatchesShown,
    BatchEventShown,
    BatchShown,
    ListedBatchShown,
    LoadedUnitsShown,
    RetriedUnitsShown,
    UnitShown,
    UnitsShown,
    unit_shown,
)
from signalbox.batches.storage import last_error_of_batch
from signalbox.core.limits import value_bytes_max
from signalbox.core.ports import Ports
from signalbox.core.problems import BadQuery, NotFound, OtherBody, PermissionDenied
from signalbox.core.surface.field_rules import KEY, Described
from signalbox.payloads.http import value_response
from signalbox.payloads.problems import NoPayload
from signalbox.payloads.shown import PayloadShown, Sha256

routes = Routes("batches")
LINES = "application/x-ndjson"

BatchId = Annotated[str, KEY]
INDEX = Annotated[str, Described({"pattern": "^[0-9]{0,9}$"})]
EVENT_ID = "[0-9A-Za-z_-]{1,64}[.][0-9]{1,17}[.][0-9]{1,10}"
UNIT_STATE = Parameter("state", UnitState)


# --- batches ---


@routes.on(
    "POST",
    "/",
    headers=(IDEMPOTENCY_KEY,),
    body=BatchSpec,
    answers={200: BatchShown, 201: Answer(BatchShown, "This call created it.")},
    refuses=(OtherBody,),
    example={"id": "b1", "units": [1, 2, 3], "sealed": True},
)
def populate_batch(ports: Ports, request: Request) -> Response:
    """Create a batch with its first units, at most 10,000 or 8 MiB a call."""
    spec = BatchSpec.from_request(request.json_object(value_bytes_max(LIMITS.call_bytes_max)))
    check_calls(request, **spec.calls())
    check_unit_calls(request, **spec.unit_calls())
    spec.check_arguments()
    batch = spec.id or check_chosen_id(request.caller_key or ports.store.new_id())
    populated = population.populate(ports, batch, spec)
    return Response(201 if populated.created else 200, BatchShown.of(populated.status))


@routes.on(
    "GET",
    "/",
    query=(Parameter("state", ShownState), limit(LIMITS.batches_listed_max), PREFIX, PAGE_TOKEN),
    answers={200: BatchesShown},
)
def list_batches(ports: Ports, request: Request) -> Response:
    """List batches by id, or those in one state.

    Costs one read for each batch. For a running batch, `GET /batches/{id}` counts the units that have ended.
    """
    page = lists.find(ports, BatchesQuery.from_request(request.query))
    shown = tuple(ListedBatchShown.of(batch, header) for batch, header in page.headers.items())
    return Response(200, BatchesShown(shown, **page.more))


@routes.on(
    "POST",
    "/{id}/seal",
    body=SealRequest,
    answers={200: BatchShown},
    refuses=(NotFound, PageOutOfOrder, BatchSealed),
    example={"pages": 1},
)
def seal_batch(ports: Ports, request: Request, id: BatchId) -> Response:
    """Close a batch at its number of pages."""
    status = lifecycle.seal(ports, check_is_of_callers(id), SealRequest.from_request(request.json_object()))
    return Response(200, BatchShown.of(status))


@routes.on("GET", "/{id}", answers={200: BatchShown}, refuses=(NotFound,))
def get_batch(ports: Ports, request: Request, id: BatchId) -> Response:
    """Return the state and counts of a batch. An open function shows no last error."""
    status = lifecycle.get(ports, id)
    shows_error = status.runs and not request.is_open
    return Response(200, BatchShown.of(status, last_error_of_batch(ports, id) if shows_error else None))


@routes.on(
    "GET",
    "/{id}/events",
    query=(
        Parameter(
            "last_event_id",
            Annotated[str, Described({"pattern": f"^$|^{EVENT_ID}$"})],
            "The same, for an `EventSource` that is created again. The header takes precedence.",
        ),
    ),
    headers=(
        Parameter(
            "Last-Event-ID",
            Annotated[str, Described({"pattern": f"^{EVENT_ID}$"})],
            "The `id:` of the last event received. A browser sends it when it connects again.",
        ),
    ),
    answers={200: Answer(BatchEventShown, "The events.", media_type="text/event-stream")},
    refuses=(NotFound,),
)
def watch_batch(ports: Ports, request: Request, id: BatchId) -> Response:
    """Watch a batch as a stream of server-sent events, as a browser's `EventSource` reads them.

    `unit` is a unit's outcome as `GET /batches/{id}/units` shows it, `progress` is what `GET /batches/{id}` answers,
    and `complete` is the same at the batch's end, after which the stream ends: close the `EventSource` then. A stream
    ends after 240 s at the latest, and a browser connects again by itself. It sends the `id:` of the last event as
    `Last-Event-ID`, and the stream continues after it: no event is missed, and none is sent twice. A unit that is
    retried is sent again with its next `attempt`. An instance serves 8 streams; beyond that it answers 503, and a
    browser does not try again by itself: wait for `Retry-After` seconds, then make another `EventSource` with
    `last_event_id`.
    """
    last = request.header("Last-Event-ID") or request.query.get("last_event_id")
    return stream(ports, id, last, is_open=request.is_open)


@routes.on("DELETE", "/{id}", answers={200: BatchShown}, refuses=(NotFound,))
def cancel_batch(ports: Ports, _: Request, id: BatchId) -> Response:
    """Cancel a batch that has not ended, and its sub-batches; units that have not started do not run."""
    return Response(200, BatchShown.of(lifecycle.cancel(ports, id)))


# --- units ---


@routes.on(
    "POST",
    "/{id}/units",
    query=(
        Parameter(
            "page", INDEX, "The number of the first page of the lines; 0 by default. For newline-delimited JSON only."
        ),
    ),
    body={LINES: Annotated[Any, Described({"description": "One unit a line."})], JSON: PageRequest},
    answers={
        200: LoadedUnitsShown,
        201: Answer(LoadedUnitsShown, "This call loaded the page, or one of the pages of the lines."),
    },
    refuses=(NotFound, PageOutOfOrder, BatchSealed, OtherBody),
    example={"page": 1, "units": [4, 5, 6]},
)
def add_page(ports: Ports, request: Request, id: BatchId) -> Response:
    """Add a page of units under the next number, or any number of units as lines.

    Newline-delimited JSON (`application/x-ndjson`) is read line by line, one unit on each line. It is divided into
    pages of 100 units, which are stored while the body arrives, under the numbers from `page` on. The response's
    `page` is the next number: the `page` of the next call, or of the seal. A refusal names its line; the pages before
    that line are stored, and a repeat of the same lines recognises them. A line has at most 1 MiB, and a request in
    the cloud 32 MiB.
    """
    read_parameters()
    check_is_of_callers(id)
    if request.is_open and storage.read_header(ports, id)[1].settings.task is not None:
        raise PermissionDenied("An open function adds no units to a batch with a task: let a function's code add them.")
    if request.has_lines:
        return _add_lines(ports, request, id)
    if "page" in request.query:
        raise BadQuery("`page` in the address is for newline-delimited JSON; here it is in the body.", field="page")
    page = PageRequest.from_request(request.json_object_of_values())
    created = pages.add_page(ports, id, page)
    return Response(201 if created else 200, LoadedUnitsShown(id, page.page, len(page.units)))


def _add_lines(ports: Ports, request: Request, id: str) -> Response:
    added = pages.add_units(ports, id, first_page_of(request.query), request.json_line_stream())
    return Response(201 if added.created else 200, LoadedUnitsShown(id, added.page, added.units))


@routes.on(
    "GET",
    "/{id}/units",
    query=(UNIT_STATE, Parameter("page_token", INDEX)),
    answers={200: UnitsShown},
    refuses=(NotFound,),
)
def list_units(ports: Ports, request: Request, id: BatchId) -> Response:
    """List the units with an outcome, a hundred at a time.

    Each page is sorted by index, but the pages are not: a page has units from all parts of the batch. All pages
    together have each unit once.
    """
    page = lists.list_units(ports, id, UnitsQuery.from_request(request.query))
    units = tuple(unit_shown(unit, is_open=request.is_open) for unit in page.units)
    return Response(200, UnitsShown(units, page.next_page_token))


@routes.on("GET", "/{id}/units/{index}/payloads/{sha256}", answers={200: PayloadShown}, refuses=(NotFound, NoPayload))
def get_unit_payload(ports: Ports, _: Request, id: BatchId, index: UnitIndex, sha256: Sha256) -> Response:
    """Return the large result of a unit, which the lists of units show by size and hash."""
    return value_response(lists.result_by_hash(ports, id, parse_index(index), sha256), sha256)


@routes.on(
    "GET",
    "/{id}/results",
    query=(UNIT_STATE, Parameter("after", INDEX, "The `index` of the last line received.")),
    answers={200: Answer(UnitShown, "The lines.", media_type=LINES)},
    refuses=(NotFound,),
)
def download_results(ports: Ports, request: Request, id: BatchId) -> Response:
    """Download all units with an outcome as newline-delimited JSON, a line a unit.

    The lines are not in the order of the indexes. To resume an interrupted download, pass the `index` of its last
    complete line as `after`.
    """
    outcomes = lists.outcomes_of(ports, id, UnitsQuery.of_results(request.query))
    return Response(
        200, _lines(unit_shown(unit, is_open=request.is_open) for unit in outcomes), {"Content-Type": LINES}
    )


def _lines(units: Iterable[UnitShown]) -> Iterator[bytes]:
    return (render(unit) + b"\n" for unit in units)


@routes.on(
    "POST",
    "/{id}/retry",
    headers=(IDEMPOTENCY_KEY,),
    body=RetryRequest,
    answers={202: RetriedUnitsShown},
    refuses=(NotFound, NothingToRun, BatchSealed),
    example={"units": [0, 2]},
)
def retry_units(ports: Ports, request: Request, id: BatchId) -> Response:
    """Retry units that failed, the named ones or all."""
    read_parameters()
    asked = RetryRequest.from_request(request.json_object_of_values())
    if request.is_open and asked.payload:
        raise PermissionDenied("An open function accepts no arguments of a task: leave out `payload`.")
    retries.retry(ports, id, asked, request.caller_key)
    return Response(202, RetriedUnitsShown(id))
