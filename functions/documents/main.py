"""Documents for people: put, get, delete and find JSON under a key; links in it become copies that stay true."""

from shared.adapters import runtime
from shared.adapters.web.http import Answer, Request, Routes
from shared.operations import documents as operations
from shared.rules.queries import wants_count

routes = Routes("documents")


@routes.on("PUT", "/{key}")
def put(request: Request, key: str) -> Answer:
    stored = operations.put(runtime.ports(), key, request.json())
    return Answer(201 if stored.created else 200, stored.document, {"ETag": stored.etag})


@routes.on("GET", "/{key}")
def get(_: Request, key: str) -> Answer:
    stored = operations.get(runtime.ports(), key)
    return Answer(200, stored.document, {"ETag": stored.etag})


@routes.on("DELETE", "/{key}")
def delete(_: Request, key: str) -> Answer:
    operations.delete(runtime.ports(), key)
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
