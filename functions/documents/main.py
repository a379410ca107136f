"""Documents for people: put, patch, get, delete and find JSON under keys; links in it become copies that stay true."""

from shared.adapters import runtime
from shared.adapters.web.http import Answer, Request, Routes
from shared.adapters.web.loading import bodies_of, results_answer
from shared.adapters.web.patching import null_of
from shared.adapters.web.stored import read_answer, stored_answer
from shared.operations import document_bulk, document_patches
from shared.operations import documents as operations
from shared.rules.bulk import own_key
from shared.rules.queries import wants_count

routes = Routes("documents")


@routes.on("PUT", "/{key}")
def put(request: Request, key: str) -> Answer:
    return stored_answer(operations.put(runtime.ports(), key, request.json(), request.precondition))


@routes.on("PATCH", "/{key}")
def patch(request: Request, key: str) -> Answer:
    null, condition = null_of(request), request.precondition
    return stored_answer(document_patches.patch(runtime.ports(), key, request.json(), null, condition))


@routes.on("POST", "/")
def load(request: Request) -> Answer:
    bodies = bodies_of(request)
    if isinstance(bodies, list):
        return results_answer(document_bulk.put_each(runtime.ports(), bodies))
    return stored_answer(operations.put(runtime.ports(), own_key(bodies), bodies, request.precondition))


@routes.on("GET", "/{key}")
def get(request: Request, key: str) -> Answer:
    return read_answer(operations.get(runtime.ports(), key), request.precondition)


@routes.on("DELETE", "/{key}")
def delete(request: Request, key: str) -> Answer:
    operations.delete(runtime.ports(), key, request.precondition)
    return Answer(204)


@routes.on("GET", "/")
def find(request: Request) -> Answer:
    query = request.query
    if wants_count(query.get("count", "")):
        where = query.getlist("where")
        return Answer(200, {"count": operations.count(runtime.ports(), where, query.keys() - {"count", "where"})})
    found = operations.find(
        runtime.ports(),
        where=query.getlist("where"),
        order_by=query.getlist("order_by"),
        limit=query.get("limit", ""),
        page_token=query.get("page_token", ""),
    )
    more = {"next_page_token": found.next_page_token} if found.next_page_token else {}
    return Answer(200, {"documents": found.documents, **more})


documents = routes.entry_point()
