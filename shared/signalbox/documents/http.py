"""The routes of `{base}documents`: documents, queries, and the versions of a document."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from signalbox.adapters.http.responses import Response, problem_body, unavailable_body
from signalbox.adapters.http.routes import Request, Routes
from signalbox.adapters.settings import settings
from signalbox.core.effects import Json
from signalbox.core.keys import check_key
from signalbox.core.paging import PARAMETERS, Listing, wants_count
from signalbox.core.ports import Ports
from signalbox.core.problems import BadQuery, Problem, UnsupportedMediaType
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine.patches import Null
from signalbox.documents.model.stamped_contents import StoredDocument
from signalbox.documents.problems import BadPrecondition
from signalbox.documents.requests import (
    UNCONDITIONAL,
    BulkPutRequest,
    CountRequest,
    FindRequest,
    PatchRequest,
    Precondition,
    PutRequest,
    query_from_body,
)
from signalbox.documents.service import bulk, patches, single_documents
from signalbox.documents.service.bulk import BulkPutResult
from signalbox.documents.service.single_documents import DocumentPage
from signalbox.history import service as history
from signalbox.history.requests import LATEST, Reference

routes = Routes("documents")

NULLS: Mapping[str, Null] = {"application/json": Null.IS_A_VALUE, "application/merge-patch+json": Null.REMOVES}
"""Media types of a patch, and the meaning of null in each."""


# --- documents ---


@routes.on("PUT", "/{key}")
def put(ports: Ports, request: Request, key: str) -> Response:
    put_request = PutRequest.from_request(key, request.json(), Precondition.from_headers(request.entity_tags))
    return written_response(single_documents.put(ports, put_request))


@routes.on("PATCH", "/{key}", query=("write_back",))
def patch(ports: Ports, request: Request, key: str) -> Response:
    return written_response(patches.patch(ports, patch_request(request, key)))


@routes.on("POST", "/")
def post(ports: Ports, request: Request) -> Response:
    parsed = post_request(request, ports.store.new_id())
    if isinstance(parsed, BulkPutRequest):
        return bulk_response(bulk.put_each(ports, parsed, documents_wanted=False))
    return posted_response(single_documents.put(ports, parsed), settings().page_address_of("documents"))


@routes.on("GET", "/{key}")
def get(ports: Ports, request: Request, key: str) -> Response:
    return read_response(single_documents.get(ports, key), Precondition.from_headers(request.entity_tags))


@routes.on("DELETE", "/{key}")
def delete(ports: Ports, request: Request, key: str) -> Response:
    single_documents.delete(ports, key, Precondition.from_headers(request.entity_tags))
    return Response(204)


@routes.on("GET", "/", query=("where", "order_by", "limit", "page_token", "count"))
def find(ports: Ports, request: Request) -> Response:
    query = request.query
    where = query.getlist("where")
    if wants_count(query.get("count", "")):
        count = CountRequest.from_request(where, query.keys() - {"count", "where"})
        return Response(200, {"count": single_documents.count(ports, count)})
    order_by, limit, page_token = query.getlist("order_by"), query.get("limit", ""), query.get("page_token", "")
    return page_response(single_documents.find(ports, FindRequest.from_request(where, order_by, limit, page_token)))


@routes.on("POST", "/:query")
def query(ports: Ports, request: Request) -> Response:
    """Answer as `find`, for a query whose values must not appear in an address, which logs contain."""
    parsed = query_from_body(request.json_object())
    if isinstance(parsed, CountRequest):
        return Response(200, {"count": single_documents.count(ports, parsed)})
    return page_response(single_documents.find(ports, parsed))


# --- versions ---


@routes.on("GET", "/{key}/versions", query=PARAMETERS)
def find_versions(ports: Ports, request: Request, key: str) -> Response:
    listing = Listing.from_request(request.query, f"versions of {check_key(key)}", LIMITS.versions_listed_max)
    return Response(200, history.find_versions(ports, key, listing).to_json())


@routes.on("GET", "/{key}/versions/{version}")
def get_version(ports: Ports, _: Request, key: str, version: str) -> Response:
    found = history.read_version(ports, check_key(key), Reference.from_request(version))
    return Response(200, found.to_json(key))


@routes.on("GET", "/{key}/versions/{version}/changes", query=("to",))
def get_changes(ports: Ports, request: Request, key: str, version: str) -> Response:
    before, to = Reference.from_request(version), request.query.get("to")
    after = LATEST if to is None else Reference.from_request(to, "to")
    return Response(200, history.compare_versions(ports, check_key(key), before, after).to_json())


@routes.on("POST", "/{key}/versions/{version}/restore")
def restore(ports: Ports, request: Request, key: str, version: str) -> Response:
    reference, precondition = Reference.from_request(version), Precondition.from_headers(request.entity_tags)
    return written_response(single_documents.restore(ports, key, reference, precondition))


@routes.on("DELETE", "/{key}/versions")
def forget(ports: Ports, _: Request, key: str) -> Response:
    history.forget(ports, check_key(key))
    return Response(204)


# --- requests ---


def post_request(request: Request, new_key: str) -> PutRequest | BulkPutRequest:
    """Parse documents that contain their keys: one, a JSON array, or newline-delimited JSON. Raises a `Problem`.

    A single document may have no key: its key is then the header ``Idempotency-Key``, or else `new_key`. A line that is
    not JSON is refused without the others. Raises `BadPrecondition` for a precondition on several documents.
    """
    bodies = _bodies(request)
    if not isinstance(bodies, list):
        new_key = request.header("Idempotency-Key") or new_key
        return PutRequest.from_body(bodies, new_key, Precondition.from_headers(request.entity_tags))
    if Precondition.from_headers(request.entity_tags) != UNCONDITIONAL:
        raise BadPrecondition("A precondition applies to one document, not to many.")
    return BulkPutRequest.from_request(bodies)


def _bodies(request: Request) -> list[Json | Problem] | Json:
    if request.has_lines:
        return request.json_lines(LIMITS.bulk_bytes_max)
    return request.json(LIMITS.bulk_bytes_max)


def patch_request(request: Request, key: str) -> PatchRequest:
    """Parse a patch of one document. Raises `UnsupportedMediaType`, or another `Problem`."""
    if request.media_type not in NULLS:
        accepted = ", ".join(NULLS)
        detail = f"Content-Type must be one of {accepted}, not {request.media_type[:80]!r}."
        raise UnsupportedMediaType(detail, headers={"Accept-Patch": accepted})
    null, write_back = NULLS[request.media_type], _flag(request, "write_back")
    return PatchRequest.from_request(
        key, request.json(), null, Precondition.from_headers(request.entity_tags), write_back=write_back
    )


def _flag(request: Request, name: str) -> bool:
    """Return whether a parameter is set. Raises `BadQuery`."""
    text = request.query.get(name, "")
    if text not in ("", "true"):
        raise BadQuery(f"`{name}` must be true.", field=name)
    return bool(text)


# --- responses ---


def written_response(stored: StoredDocument) -> Response:
    """Return a response with a document that was written."""
    return Response(201 if stored.created else 200, stored.document, {"ETag": stored.etag})


def posted_response(stored: StoredDocument, address: str) -> Response:
    """Return a response with a document that was posted to the function's address. `Location` is that of a new one."""
    written = written_response(stored)
    location = {"Location": f"{address}/{quote(stored.document['key'], safe='')}"} if stored.created else {}
    return replace(written, headers={**written.headers, **location})


def read_response(stored: StoredDocument, precondition: Precondition) -> Response:
    """Return a response with a document that was read, or 304 without it. Raises `PreconditionFailed`."""
    precondition.check_match(stored.etag)
    etag = {"ETag": stored.etag}
    if precondition.is_not_modified(stored.etag):
        return Response(304, None, etag)
    return Response(200, stored.document, etag)


def page_response(page: DocumentPage) -> Response:
    """Return a response with a page of documents."""
    more = {"next_page_token": page.next_page_token} if page.next_page_token else {}
    return Response(200, {"documents": page.documents, **more})


def bulk_response(results: Sequence[BulkPutResult]) -> Response:
    """Return a response with the outcome of each document, in the order of the request."""
    return Response(200, {"results": [_result(result) for result in results]})


def _result(result: BulkPutResult) -> dict[str, Any]:
    outcome = result.outcome
    if isinstance(outcome, StoredDocument):
        return {"key": result.key, "status": 201 if outcome.created else 200, "etag": outcome.etag}
    body = problem_body(outcome) if isinstance(outcome, Problem) else unavailable_body(outcome)
    return {"key": result.key, "status": body["status"], "problem": body}
