"""Documents over HTTP: bodies of one or many, media types of a patch, and responses with their entity tags."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from shared.adapters.http.responses import Response, problem_body, unavailable_body
from shared.adapters.http.routes import Request
from shared.core.rules.effects import Json
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadPrecondition, BadQuery, Problem, UnsupportedMediaType
from shared.documents.operations.bulk import BulkPutResult
from shared.documents.operations.stored_documents import StoredDocument
from shared.documents.rules.bulk import BulkPutRequest
from shared.documents.rules.patches import Null
from shared.documents.rules.preconditions import UNCONDITIONAL, Precondition
from shared.documents.rules.requests import PatchRequest, PutRequest

LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
"""Media types of newline-delimited JSON: none is registered, and these are in use."""

NULLS: Mapping[str, Null] = {"application/json": Null.IS_A_VALUE, "application/merge-patch+json": Null.REMOVES}
"""Media types of a patch, and what null means in each."""


def put_request(request: Request, key: str) -> PutRequest:
    """Parse a put of one document. Raises a `Problem`."""
    return PutRequest.from_request(key, request.json(), request.precondition)


def post_request(request: Request, new_key: str) -> PutRequest | BulkPutRequest:
    """Parse documents that contain their keys: one, a JSON array, or newline-delimited JSON. Raises a `Problem`.

    One document alone may be without a key: it gets that of the header ``Idempotency-Key``, else `new_key`.
    A line that is not JSON is refused by itself. Raises `BadPrecondition` for a precondition on many documents.
    """
    bodies = _bodies(request)
    if not isinstance(bodies, list):
        new_key = request.header("Idempotency-Key") or new_key
        return PutRequest.from_body(bodies, new_key, request.precondition)
    if request.precondition != UNCONDITIONAL:
        raise BadPrecondition("A precondition applies to one document, not to many.")
    return BulkPutRequest.from_request(bodies)


def _bodies(request: Request) -> list[Json | Problem] | Json:
    if request.media_type in LINES:
        return request.json_lines(LIMITS.bulk_bytes_max)
    return request.json(LIMITS.bulk_bytes_max)


def patch_request(request: Request, key: str) -> PatchRequest:
    """Parse a patch of one document. Raises `UnsupportedMediaType`, or another `Problem`."""
    if request.media_type not in NULLS:
        accepted = ", ".join(NULLS)
        detail = f"Content-Type must be one of {accepted}, not {request.media_type[:80]!r}."
        raise UnsupportedMediaType(detail, headers={"Accept-Patch": accepted})
    null, write_back = NULLS[request.media_type], _flag(request, "write_back")
    return PatchRequest.from_request(key, request.json(), null, request.precondition, write_back=write_back)


def _flag(request: Request, name: str) -> bool:
    """Return whether a parameter is set. Raises `BadQuery`."""
    text = request.query.get(name, "")
    if text not in ("", "true"):
        raise BadQuery(f"`{name}` must be true.", field=name)
    return bool(text)


def written_response(stored: StoredDocument) -> Response:
    """Return a response with a document that was written."""
    return Response(201 if stored.created else 200, stored.document, {"ETag": stored.etag})


def posted_response(stored: StoredDocument, address: str) -> Response:
    """Return a response with a document that was posted to the function's address; a new one's own is `Location`."""
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


def bulk_response(results: Sequence[BulkPutResult]) -> Response:
    """Return a response with the outcome of each document, in the order of the request."""
    return Response(200, {"results": [_result(each) for each in results]})


def _result(result: BulkPutResult) -> dict[str, Any]:
    outcome = result.outcome
    if isinstance(outcome, StoredDocument):
        return {"key": result.key, "status": 201 if outcome.created else 200, "etag": outcome.etag}
    body = problem_body(outcome) if isinstance(outcome, Problem) else unavailable_body()
    return {"key": result.key, "status": body["status"], "problem": body}
