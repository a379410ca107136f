"""`PUT`, `GET` and `DELETE` of `{base}transforms/{name}`, and the list of all transforms."""

from itertools import starmap
from typing import Annotated, Any

from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.route_declarations import PAGE_TOKEN, Answer, Parameter, limit
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.ports import Ports
from signalbox.core.problems import NotFound
from signalbox.core.surface.field_rules import KEY, Described
from signalbox.core.surface.paging import Listing
from signalbox.transforms import service
from signalbox.transforms.limits import LIMITS
from signalbox.transforms.requests import PutTransformRequest
from signalbox.transforms.shown import NamedTransformShown, TransformsShown

routes = Routes("transforms")

TransformName = Annotated[str, KEY, Described({"description": "The field whose links it applies to."})]

ETAG = Annotated[str, Described({"pattern": '^"[0-9T]+"$'})]
STORED = Answer(
    Any, "The transform as stored.", (Parameter("ETag", ETAG, "Changes with the transform.", required=True),)
)


@routes.on(
    "PUT",
    "/{name}",
    body=Annotated[
        Any, Described({"description": "A bOTL transform whose output is an object. `{{` without `}}` is refused."})
    ],
    answers={200: STORED, 201: STORED},
    example={"fulladdr": "{{.addr1}}, {{.city}} {{.zipcode}}"},
)
def put_transform(ports: Ports, request: Request, name: TransformName) -> Response:
    """Set the transform of links in a field; the documents with such links are refreshed."""
    stored = service.put(ports, PutTransformRequest.from_request(name, request.json()))
    return Response(201 if stored.created else 200, stored.transform, {"ETag": stored.etag})


@routes.on("GET", "/{name}", answers={200: STORED}, refuses=(NotFound,))
def get_transform(ports: Ports, _: Request, name: TransformName) -> Response:
    """Return a transform."""
    stored = service.get(ports, name)
    return Response(200, stored.transform, {"ETag": stored.etag})


@routes.on("GET", "/", query=(limit(LIMITS.transforms_listed_max), PAGE_TOKEN), answers={200: TransformsShown})
def list_transforms(ports: Ports, request: Request) -> Response:
    """List transforms by name."""
    page = service.find(ports, Listing.from_request(request.query, "transforms", LIMITS.transforms_listed_max))
    return Response(200, TransformsShown(tuple(starmap(NamedTransformShown.of, page.transforms)), **page.more))


@routes.on("DELETE", "/{name}", answers={204: Answer(None, "It is deleted.")}, refuses=(NotFound,))
def delete_transform(ports: Ports, _: Request, name: TransformName) -> Response:
    """Delete a transform; its links show untransformed copies soon after."""
    service.delete(ports, name)
    return Response(204)
