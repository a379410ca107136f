"""Transforms for people: what stands under links in a field is made by the transform of that name."""

from shared.adapters import runtime
from shared.adapters.web.http import Answer, Request, Routes
from shared.operations import transforms as operations

routes = Routes("transforms")


@routes.on("PUT", "/{name}")
def put(request: Request, name: str) -> Answer:
    stored = operations.put(runtime.ports(), name, request.json())
    return Answer(201 if stored.created else 200, stored.transform, {"ETag": stored.etag})


@routes.on("GET", "/{name}")
def get(_: Request, name: str) -> Answer:
    stored = operations.get(runtime.ports(), name)
    return Answer(200, stored.transform, {"ETag": stored.etag})


@routes.on("DELETE", "/{name}")
def delete(_: Request, name: str) -> Answer:
    operations.delete(runtime.ports(), name)
    return Answer(204)


transforms = routes.entry_point()
