"""Documents: put, patch, get, delete and find JSON under keys; links in it become copies that stay up to date."""

from shared.adapters import runtime
from shared.adapters.http import document_http
from shared.adapters.http.routes import Request, Response, Routes
from shared.adapters.settings import settings
from shared.documents.operations import documents as operations
from shared.documents.operations.bulk import put_each
from shared.documents.operations.patches import patch as patch_document
from shared.documents.rules.bulk import BulkPutRequest
from shared.documents.rules.queries import CountRequest, FindRequest, wants_count

routes = Routes("documents")


@routes.on("PUT", "/{key}")
def put(request: Request, key: str) -> Response:
    put_request = document_http.put_request(request, key)
    return document_http.written_response(operations.put(runtime.ports(), put_request))


@routes.on("PATCH", "/{key}", query=("write_back",))
def patch(request: Request, key: str) -> Response:
    patch_request = document_http.patch_request(request, key)
    return document_http.written_response(patch_document(runtime.ports(), patch_request))


@routes.on("POST", "/")
def post(request: Request) -> Response:
    post_request = document_http.post_request(request, runtime.ports().store.new_id())
    if isinstance(post_request, BulkPutRequest):
        return document_http.bulk_response(put_each(runtime.ports(), post_request, documents_wanted=False))
    stored = operations.put(runtime.ports(), post_request)
    return document_http.posted_response(stored, settings().address_of("documents"))


@routes.on("GET", "/{key}")
def get(request: Request, key: str) -> Response:
    return document_http.read_response(operations.get(runtime.ports(), key), request.precondition)


@routes.on("DELETE", "/{key}")
def delete(request: Request, key: str) -> Response:
    operations.delete(runtime.ports(), key, request.precondition)
    return Response(204)


@routes.on("GET", "/", query=("where", "order_by", "limit", "page_token", "count"))
def find(request: Request) -> Response:
    query = request.query
    where = query.getlist("where")
    if wants_count(query.get("count", "")):
        count = CountRequest.from_request(where, query.keys() - {"count", "where"})
        return Response(200, {"count": operations.count(runtime.ports(), count)})
    order_by, limit, page_token = query.getlist("order_by"), query.get("limit", ""), query.get("page_token", "")
    page = operations.find(runtime.ports(), FindRequest.from_request(where, order_by, limit, page_token))
    more = {"next_page_token": page.next_page_token} if page.next_page_token else {}
    return Response(200, {"documents": page.documents, **more})


documents = routes.entry_point()
