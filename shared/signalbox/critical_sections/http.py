"""`POST` and `GET` of `{base}critical-section/{key}`."""

from typing import Any

from signalbox.adapters.http.open_function_access import check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.ports import Ports
from signalbox.critical_sections import service
from signalbox.critical_sections.model import Section
from signalbox.critical_sections.requests import SectionRequest

routes = Routes("critical_section")


@routes.on("POST", "/{key}")
def call(ports: Ports, request: Request, key: str) -> Response:
    parsed = SectionRequest.from_request(request.json_object(), request.header("Idempotency-Key") or "")
    check_calls(request, continuation=parsed.continuation)
    return Response(202, {"granted": service.call(ports, key, parsed)})


@routes.on("GET", "/{key}")
def get(ports: Ports, _: Request, key: str) -> Response:
    return Response(200, rendered(key, service.get(ports, key)))


def rendered(key: str, section: Section) -> dict[str, Any]:
    """Return the answer of `GET`, in which absent parts are left out. Payloads are not shown: they may be large."""
    body: dict[str, Any] = {"key": key}
    if run := section.run:
        body["running"] = run.call.shown() | {"token": run.token, "granted_at": run.granted_at}
        if run.ends_at is not None:
            body["running"]["ends_at"] = run.ends_at
    if next_ := section.next:
        body["next"] = next_.call.shown() | {"called_at": next_.first_at, "due_at": next_.due_at}
    return body
