"""The routes of `{base}verifications`: begin a verification, nightly or on demand, and read its report."""

from dataclasses import asdict
from typing import Any

from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.ports import Ports
from signalbox.links.model import Verification
from signalbox.links.service import verifications

routes = Routes("verifications")


@routes.on("POST", "/")
def begin(ports: Ports, request: Request) -> Response:
    return Response(202, rendered(verifications.begin(ports, request.operation or ports.store.new_id())))


@routes.on("GET", "/")
def newest(ports: Ports, _: Request) -> Response:
    return Response(200, {"verifications": [rendered(walk) for walk in verifications.newest(ports)]})


@routes.on("GET", "/{run}")
def get(ports: Ports, _: Request, run: str) -> Response:
    return Response(200, rendered(verifications.get(ports, run)))


def rendered(walk: Verification) -> dict[str, Any]:
    """Return the report of a verification as callers see it."""
    state = "running" if walk.ended_at is None else "ended"
    ended = {"ended_at": walk.ended_at} if walk.ended_at else {}
    found = asdict(walk.found) | {"repaired": walk.found.drifted + walk.found.moving - walk.found.refused}
    return {"run": walk.run, "state": state, "begun_at": walk.begun_at, **ended, "pages": walk.pages, **found}
