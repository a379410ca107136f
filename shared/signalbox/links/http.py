"""The routes of `{base}verifications`: begin a verification, nightly or on demand, and read its report."""

from typing import Annotated

from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.route_declarations import IDEMPOTENCY_KEY, Answer
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.ports import Ports
from signalbox.core.problems import NotFound
from signalbox.core.surface.field_rules import KEY
from signalbox.links.service import verifications
from signalbox.links.shown import VerificationShown, VerificationsShown

routes = Routes("verifications")


@routes.on("POST", "/", headers=(IDEMPOTENCY_KEY,), answers={202: Answer(VerificationShown, "It is running.")})
def begin_verification(ports: Ports, request: Request) -> Response:
    """Start a verification, which compares all copies with their sources and repairs them.

    If one is running, return it. The nightly schedule compares a part of the documents.
    """
    operation, nightly = request.operation or ports.store.new_id(), request.schedule is not None
    return Response(202, VerificationShown.of(verifications.begin(ports, operation, nightly=nightly)))


@routes.on("GET", "/", answers={200: VerificationsShown})
def list_verifications(ports: Ports, _: Request) -> Response:
    """Return the last verifications, newest first."""
    return Response(200, VerificationsShown(tuple(map(VerificationShown.of, verifications.newest(ports)))))


@routes.on("GET", "/{run}", answers={200: VerificationShown}, refuses=(NotFound,))
def get_verification(ports: Ports, _: Request, run: Annotated[str, KEY]) -> Response:
    """Return the report of a verification."""
    return Response(200, VerificationShown.of(verifications.get(ports, run)))
