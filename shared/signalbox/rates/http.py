"""The HTTP of rates: `{base}rates`."""

from math import ceil
from typing import Annotated

from signalbox.adapters.http.open_function_access import check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.route_declarations import IDEMPOTENCY_KEY, PAGE_TOKEN, PREFIX, Answer, Parameter, limit
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.ports import Ports
from signalbox.core.problems import OtherBody, WaitOfFlow
from signalbox.core.surface.field_rules import Range
from signalbox.core.surface.paging import Listing
from signalbox.core.surface.settings_patch import SettingsPatch
from signalbox.rates import service
from signalbox.rates.limits import LIMITS
from signalbox.rates.model import RateSettings
from signalbox.rates.problems import BadRate, NoRate
from signalbox.rates.requests import AcquireRequest, RateName, RateWaitRequest, WaitId
from signalbox.rates.shown import AcquiredShown, RateShown, RatesShown, RateWaitCancelledShown, RateWaitShown

routes = Routes("rates")

TRY_AGAIN = Parameter("Retry-After", Annotated[int, Range(1)], "The same in whole seconds, if they were not granted.")


@routes.on("GET", "/", query=(limit(LIMITS.rates_page_max), PREFIX, PAGE_TOKEN), answers={200: RatesShown})
def list_rates(ports: Ports, request: Request) -> Response:
    """List rates by name; of those that have waits, also their number."""
    listing = Listing.from_request(request.query, "rates", LIMITS.rates_page_max)
    page = service.find(ports, listing)
    return Response(200, RatesShown(tuple(map(RateShown.of, page.rates)), **page.more))


@routes.on(
    "PUT",
    "/{name}",
    body=RateSettings,
    answers={200: RateShown, 201: RateShown},
    example={"per_minute": 500, "burst": 50},
)
def put_rate(ports: Ports, request: Request, name: RateName) -> Response:
    """Create a rate or set its limits; waits stay."""
    stored = service.put(ports, name, RateSettings.from_request(request.json_object()))
    return Response(201 if stored.created else 200, RateShown.of(stored.view))


@routes.on("PATCH", "/{name}", body=SettingsPatch[RateSettings], answers={200: RateShown}, refuses=(NoRate,))
def patch_rate(ports: Ports, request: Request, name: RateName) -> Response:
    """Change some limits. What is owed is counted in permits, and is at most the new burst."""
    changes = SettingsPatch.from_request(request.json_object(), RateSettings, BadRate)
    return Response(200, RateShown.of(service.patch(ports, name, changes).view))


@routes.on("GET", "/{name}", answers={200: RateShown}, refuses=(NoRate,))
def get_rate(ports: Ports, _: Request, name: RateName) -> Response:
    """Show a rate, the permits that are free, and the number of its waits."""
    return Response(200, RateShown.of(service.get(ports, name)))


@routes.on("DELETE", "/{name}", answers={204: Answer(None, "It is deleted.")}, refuses=(NoRate,))
def delete_rate(ports: Ports, _: Request, name: RateName) -> Response:
    """Delete a rate; its waits end."""
    service.delete(ports, name)
    return Response(204)


@routes.on("POST", "/{name}/pause", answers={200: RateShown}, refuses=(NoRate,))
def pause_rate(ports: Ports, _: Request, name: RateName) -> Response:
    """Grant no permits until the rate is resumed.

    Waits stay in their order, and an acquire is refused. What an admit run granted ahead, for the next second, still
    runs.
    """
    return Response(200, RateShown.of(service.pause(ports, name)))


@routes.on("POST", "/{name}/resume", answers={200: RateShown}, refuses=(NoRate,))
def resume_rate(ports: Ports, _: Request, name: RateName) -> Response:
    """Grant permits again.

    Those that wait are first. Of the permits that came back in the pause, at most the burst is granted.
    """
    return Response(200, RateShown.of(service.resume(ports, name)))


@routes.on(
    "POST",
    "/{name}/acquire",
    headers=(IDEMPOTENCY_KEY,),
    body=AcquireRequest,
    answers={200: Answer(AcquiredShown, headers=(TRY_AGAIN,))},
    refuses=(NoRate, OtherBody),
    example={"weight": 3},
)
def acquire_from_rate(ports: Ports, request: Request, name: RateName) -> Response:
    """Take permits if they are there now.

    While tasks wait for permits, none is granted here, because they were first.
    """
    asked = AcquireRequest.from_request(request.json_object(), id=request.caller_key)
    answer = service.acquire(ports, name, asked)
    headers = {} if answer.granted else {"Retry-After": str(ceil(answer.retry_after_seconds))}
    return Response(200, AcquiredShown.of(answer), headers)


@routes.on(
    "POST",
    "/{name}/waits",
    headers=(IDEMPOTENCY_KEY,),
    body=RateWaitRequest,
    answers={202: RateWaitShown},
    refuses=(NoRate, OtherBody),
    example={"continuation": {"function": "quilt", "task": "announce"}, "weight": 3},
)
def wait_for_rate(ports: Ports, request: Request, name: RateName) -> Response:
    """Run a task when its permits are granted, in the order of the waits."""
    id_ = request.caller_key or ports.store.new_id()
    wanted = RateWaitRequest.from_request(request.json_object(), id=id_)
    check_calls(request, continuation=wanted.continuation)
    waiting = service.wait(ports, name, wanted)
    return Response(202, RateWaitShown(waiting.id, waiting.state))


@routes.on("DELETE", "/{name}/waits/{id}", answers={200: RateWaitCancelledShown}, refuses=(NoRate, WaitOfFlow))
def cancel_rate_wait(ports: Ports, _: Request, name: RateName, id: WaitId) -> Response:
    """End a wait. If it was granted already, its task runs."""
    return Response(200, RateWaitCancelledShown(service.cancel(ports, name, id)))
