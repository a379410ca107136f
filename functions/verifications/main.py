"""Verifications: begin a walk that compares and repairs all copies, nightly or on demand, and read its reports."""

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response, Routes
from shared.links.operations import verification

routes = Routes("verifications")


@routes.on("POST", "/")
def begin(request: Request) -> Response:
    ports = runtime.ports()
    operation = request.header("Idempotency-Key") or request.header("X-CloudScheduler-ScheduleTime")
    return Response(202, verification.begin(ports, operation or ports.store.new_id()).to_json())


@routes.on("GET", "/")
def newest(_: Request) -> Response:
    return Response(200, {"verifications": [walk.to_json() for walk in verification.newest(runtime.ports())]})


@routes.on("GET", "/{run}")
def get(_: Request, run: str) -> Response:
    return Response(200, verification.get(runtime.ports(), run).to_json())


verifications = routes.entry_point()
