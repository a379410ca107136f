"""`PUT`, `GET` and `DELETE` of `{base}transforms/{name}`, and the list of all transforms."""

from typing import Any

from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.paging import PARAMETERS, Listing
from signalbox.core.ports import Ports
from signalbox.transforms import service
from signalbox.transforms.limits import LIMITS
from signalbox.transforms.requests import PutTransformRequest
from signalbox.transforms.service import TransformsPage

routes = Routes("transforms")


@routes.on("PUT", "/{name}")
def put(ports: Ports, request: Request, name: str) -> Response:
    stored = service.put(ports, PutTransformRequest.from_request(name, request.json()))
    return Response(201 if stored.created else 200, stored.transform, {"ETag": stored.etag})


@routes.on("GET", "/{name}")
def get(ports: Ports, _: Request, name: str) -> Response:
    stored = service.get(ports, name)
    return Response(200, stored.transform, {"ETag": stored.etag})


@routes.on("GET", "/", query=PARAMETERS)
def find(ports: Ports, request: Request) -> Response:
    listing = Listing.from_request(request.query, "transforms", LIMITS.transforms_listed_max)
    return Response(200, rendered(service.find(ports, listing)))


@routes.on("DELETE", "/{name}")
def delete(ports: Ports, _: Request, name: str) -> Response:
    service.delete(ports, name)
    return Response(204)


def rendered(page: TransformsPage) -> dict[str, Any]:
    """Return the answer of a list."""
    shown = [{"name": name, "transform": stored.transform, "etag": stored.etag} for name, stored in page.transforms]
    return {"transforms": shown, **page.more}
