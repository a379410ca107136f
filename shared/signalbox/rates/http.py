"""The HTTP of rates: `{base}rates`."""

from math import ceil
from typing import Any

from signalbox.adapters.http.open_function_access import check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.paging import OF_NAMES, Listing
from signalbox.core.ports import Ports
from signalbox.core.times import rfc3339
from signalbox.rates import service
from signalbox.rates.limits import LIMITS
from signalbox.rates.machine import free_to_acquire
from signalbox.rates.model import RateView
from signalbox.rates.requests import AcquireRequest, RateSettings, RateWaitRequest, SettingsPatch

routes = Routes("rates")


@routes.on("PUT", "/{name}")
def put(ports: Ports, request: Request, name: str) -> Response:
    view, created = service.put(ports, name, RateSettings.from_request(request.json_object()))
    return Response(201 if created else 200, _rate(view))


@routes.on("PATCH", "/{name}")
def patch(ports: Ports, request: Request, name: str) -> Response:
    return Response(200, _rate(service.patch(ports, name, SettingsPatch.from_request(request.json_object()))))


@routes.on("GET", "/{name}")
def get(ports: Ports, _: Request, name: str) -> Response:
    return Response(200, _rate(service.get(ports, name)))


@routes.on("GET", "/", query=OF_NAMES)
def find(ports: Ports, request: Request) -> Response:
    listing = Listing.from_request(request.query, "rates", LIMITS.rates_page_max)
    page = service.find(ports, listing)
    return Response(200, {"rates": [_rate(view) for view in page.rates], **page.more})


@routes.on("DELETE", "/{name}")
def delete(ports: Ports, _: Request, name: str) -> Response:
    service.delete(ports, name)
    return Response(204)


@routes.on("POST", "/{name}/pause")
def pause(ports: Ports, _: Request, name: str) -> Response:
    return Response(200, _rate(service.pause(ports, name)))


@routes.on("POST", "/{name}/resume")
def resume(ports: Ports, _: Request, name: str) -> Response:
    return Response(200, _rate(service.resume(ports, name)))


@routes.on("POST", "/{name}/acquire")
def acquire(ports: Ports, request: Request, name: str) -> Response:
    asked = AcquireRequest.from_request(request.json_object(), request.header("Idempotency-Key") or "")
    answer = service.acquire(ports, name, asked)
    if answer.granted:
        return Response(200, {"granted": True})
    seconds = answer.retry_after_seconds
    paused = {"paused": True} if answer.paused else {}
    refused = {"granted": False, "retry_after_seconds": seconds, **paused}
    return Response(200, refused, {"Retry-After": str(ceil(seconds))})


@routes.on("POST", "/{name}/waits")
def wait(ports: Ports, request: Request, name: str) -> Response:
    id_ = request.header("Idempotency-Key") or ports.store.new_id()
    wanted = RateWaitRequest.from_request(request.json_object(), id_)
    check_calls(request, continuation=wanted.continuation)
    waiting = service.wait(ports, name, wanted)
    return Response(202, {"id": waiting.id, "state": waiting.state})


@routes.on("DELETE", "/{name}/waits/{id}")
def cancel(ports: Ports, _: Request, name: str, id: str) -> Response:
    return Response(200, {"cancelled": service.cancel(ports, name, id)})


def _rate(view: RateView) -> dict[str, Any]:
    """Render a rate. The number of waits is absent if they were not counted, the time of a pause if there is none."""
    waiting = {} if view.waiting is None else {"waiting": view.waiting}
    rate = view.rate
    paused = {} if rate.paused_at is None else {"paused_at": rfc3339(rate.paused_at)}
    limits = {"per_minute": rate.per_minute, "burst": rate.burst}
    return {"name": view.name, **limits, "free": free_to_acquire(rate, view.now), **waiting, **paused}
