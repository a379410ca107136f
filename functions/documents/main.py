"""Documents for people: put, patch, get, delete and find JSON under keys; links in it become copies that stay true."""

from shared.adapters import runtime
from shared.adapters.http.document_http import bodies_of, results_answer
from shared.adapters.http.patching import null_of
from shared.adapters.http.routes import Request, Response, Routes
from shared.adapters.http.stored import read_answer, stored_answer
from shared.documents.operations import bulk as document_bulk
from shared.documents.operations import documents as operations
from shared.documents.operations import patches as document_patches
from shared.documents.rules.bulk import own_key
from shared.documents.rules.queries import wants_count

routes = Routes("documents")


@routes.on("PUT", "/{key}")
def put(request: Request, key: str) -> Response:
    return stored_answer(operations.put(runtime.ports(), key, request.json(), request.precondition))


@routes.on("PATCH", "/{key}")
def patch(request: Request, key: str) -> Response:
    null, condition = null_of(request), request.precondition
    return stored_answer(document_patches.patch(runtime.ports(), key, request.json(), null, condition))


@routes.on("POST", "/")
def load(request: Request) -> Response:
    bodies = bodies_of(request)
    if isinstance(bodies, list):
        return results_answer(document_bulk.put_each(runtime.ports(), bodies))
    return stored_answer(operations.put(runtime.ports(), own_key(bodies), bodies, request.precondition))


@routes.on("GET", "/{key}")
def get(request: Request, key: str) -> Response:
    return read_answer(operations.get(runtime.ports(), key), request.precondition)


@routes.on("DELETE", "/{key}")
def delete(request: Request, key: str) -> Response:
    operations.delete(runtime.ports(), key, request.precondition)
    return Response(204)


@routes.on("GET", "/", query=("where", "order_by", "limit", "page_token", "count"))
def find(request: Request) -> Response:
    query = request.query
    if wants_count(query.get("count", "")):
        where = query.getlist("where")
        return Response(200, {"count": operations.count(runtime.ports(), where, query.keys() - {"count", "where"})})
    found = operations.find(
        runtime.ports(),
        where=query.getlist("where"),
        order_by=query.getlist("order_by"),
        limit=query.get("limit", ""),
        page_token=query.get("page_token", ""),
    )
    more = {"next_page_token": found.next_page_token} if found.next_page_token else {}
    return Response(200, {"documents": found.documents, **more})


documents = routes.entry_point()
