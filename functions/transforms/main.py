"""Transforms: the copies under links in a field are the output of the transform of that name."""

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response, Routes
from shared.core.rules.limits import LIMITS
from shared.core.rules.listings import PARAMETERS, Listing
from shared.transforms.operations import transforms as operations
from shared.transforms.rules.transforms import PutTransformRequest

routes = Routes("transforms")


@routes.on("PUT", "/{name}")
def put(request: Request, name: str) -> Response:
    stored = operations.put(runtime.ports(), PutTransformRequest.from_request(name, request.json()))
    return Response(201 if stored.created else 200, stored.transform, {"ETag": stored.etag})


@routes.on("GET", "/{name}")
def get(_: Request, name: str) -> Response:
    stored = operations.get(runtime.ports(), name)
    return Response(200, stored.transform, {"ETag": stored.etag})


@routes.on("GET", "/", query=PARAMETERS)
def find(request: Request) -> Response:
    listing = Listing.from_request(request.query, "transforms", LIMITS.transforms_listed_max)
    return Response(200, operations.find(runtime.ports(), listing).to_json())


@routes.on("DELETE", "/{name}")
def delete(_: Request, name: str) -> Response:
    operations.delete(runtime.ports(), name)
    return Response(204)


transforms = routes.entry_point()
