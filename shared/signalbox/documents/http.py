"""The routes of `{base}documents`: documents, queries, and the versions of a document."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from signalbox.adapters.http.responses import Response, problem_body, unavailable_body
from signalbox.adapters.http.route_declarations import (
    FLAG,
    IF_MATCH,
    IF_NONE_MATCH,
    PAGE_TOKEN,
    Answer,
    Parameter,
    limit,
)
from signalbox.adapters.http.routes import Request, Routes
from signalbox.adapters.settings import settings
from signalbox.core.effects import Json
from signalbox.core.keys import check_key
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Ports
from signalbox.core.problems import NotFound, OtherBody, Problem, UnsupportedMediaType
from signalbox.core.surface.field_rules import KEY, Described
from signalbox.core.surface.paging import Listing, wants_count
from signalbox.core.surface.request_fields import wants
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine.patches import Null
from signalbox.documents.model.stamped_contents import StoredDocument
from signalbox.documents.problems import (
    BadPrecondition,
    CannotWriteBack,
    DocumentDeleted,
    EditsACopy,
    PreconditionFailed,
    StaleCopy,
)
from signalbox.documents.requests import (
    PARTS_MAX,
    UNCONDITIONAL,
    BulkPutRequest,
    CountRequest,
    DocumentQuery,
    FindRequest,
    PatchRequest,
    Precondition,
    PutRequest,
    query_from_body,
)
from signalbox.documents.service import bulk, patches, single_documents
from signalbox.documents.service.bulk import BulkPutResult
from signalbox.documents.shown import (
    DocumentContent,
    DocumentCountShown,
    DocumentShown,
    DocumentsShown,
    PostedContent,
    PutResultShown,
    PutResultsShown,
)
from signalbox.history import service as history
from signalbox.history.requests import LATEST, Reference, VersionReference
from signalbox.history.shown import VersionChangesShown, VersionContentShown, VersionsShown
from signalbox.transforms.problems import TransformFailed

routes = Routes("documents")

NULLS: Mapping[str, Null] = {"application/json": Null.IS_A_VALUE, "application/merge-patch+json": Null.REMOVES}
"""Media types of a patch, and the meaning of null in each."""


DocumentKey = Annotated[str, KEY]
Version = Annotated[
    VersionReference,
    Described({"description": "The number of a version, or a time (RFC 3339) at which it was valid."}),
]

PRECONDITIONS = (IF_MATCH, IF_NONE_MATCH)

ETAG = Parameter(
    "ETag",
    Annotated[str, Described({"pattern": '^"[0-9]+-[0-9a-f]+"$|^"[0-9]+T[0-9]+"$'})],
    "Changes if, and only if, the document or one of its copies changes.",
    required=True,
)
STORED = Answer(DocumentShown, "The document as stored, with its copies.", (ETAG,))
CREATED = Answer(
    DocumentShown,
    "The document as stored, with its copies.",
    (ETAG, Parameter("Location", str, "Its URL.", required=True)),
)
UNCHANGED = Answer(None, "The document still has the entity tag in `If-None-Match`.", (ETAG,))
WRONG_PATCH_TYPE = Answer(
    UnsupportedMediaType,
    "The media type is not one that patches have; `Accept-Patch` names these.",
    (Parameter("Accept-Patch", str, required=True),),
)

Texts = Annotated[tuple[str, ...], Described({"maxItems": PARTS_MAX})]
WHERE = Parameter(
    "where",
    Annotated[Texts, Described({"examples": [["address.zipcode==54321"]]})],
    "`FIELD==VALUE`, or one of `!= < <= > >= in contains` in place of `==`. All conditions must hold. A field inside "
    "another is `outer.inner`. A value that is JSON is compared as JSON, any other as text.",
)
ORDER_BY = Parameter("order_by", Texts, "A field; `-FIELD` is descending.")
COUNT = Parameter(
    "count", FLAG, "Return only the number of documents. Cannot be combined with other parameters than `where`."
)
WRITE_BACK = Parameter(
    "write_back",
    FLAG,
    "Change the sources of the copies that the patch edits, in the same commit: all or none. An edit of a copy within "
    "a copy changes the source of the inner copy. Refused with 409 if the copy is stale, a mark, or made by a "
    "transform, or if its source does not exist.",
)

Found = DocumentsShown | DocumentCountShown
FOUND = Answer(
    Found,
    "One page, the last if it has no `next_page_token`; or the number of documents. A page ends before `limit` with "
    "the document that brings its size to 4 MiB.",
)
Posted = PostedContent | Annotated[list[Any], Described({"maxItems": LIMITS.bulk_puts_max})]
Lines = Annotated[Any, Described({"description": "One document a line. A line without one is refused by itself."})]
Loaded = DocumentShown | PutResultsShown


# --- documents ---


@routes.on(
    "GET",
    "/",
    query=(WHERE, ORDER_BY, limit(CORE_LIMITS.query_limit_max, LIMITS.query_limit_default), PAGE_TOKEN, COUNT),
    answers={200: FOUND},
)
def find_documents(ports: Ports, request: Request) -> Response:
    """Find documents by their fields, including fields of copies."""
    query = request.query
    where = query.getlist("where")
    if wants_count(query.get("count", "")):
        count = CountRequest.from_request(where, query.keys() - {"count", "where"})
        return Response(200, DocumentCountShown(single_documents.count(ports, count)))
    order_by, limit_text, page_token = query.getlist("order_by"), query.get("limit", ""), query.get("page_token", "")
    return Response(
        200, single_documents.find(ports, FindRequest.from_request(where, order_by, limit_text, page_token))
    )


@routes.on(
    "POST",
    "/",
    headers=(
        *PRECONDITIONS,
        Parameter("Idempotency-Key", str, "Identifies a repeat. A single document without a key is stored under it."),
    ),
    body={"application/json": Posted, "application/x-ndjson": Lines},
    answers={
        200: Answer(Loaded, "The document, if it existed or the request is a repeat; or the results of several."),
        201: CREATED,
    },
    refuses=(OtherBody, DocumentDeleted, TransformFailed, PreconditionFailed),
    example=[{"key": "1", "name": "Fred", "address": {"key": "2"}}, {"key": "2", "city": "stuffville"}],
)
def load_documents(ports: Ports, request: Request) -> Response:
    """Store a document, with or without a key, or up to 500 documents (8 MiB) with keys.

    An object is stored as by a PUT to its URL. If it has no `key`, its key is the `Idempotency-Key`, or a new one
    without that header, and `Location` is its URL. Without the header, a repeated request stores a second document.
    With it, a repeat writes nothing: the response is the document as it is now, 409 for another body or for a document
    that something else has created, or 410 after its deletion.

    Each document of an array, or of newline-delimited JSON (`application/x-ndjson`), has its own result, in the order
    of the request. They may link to each other in any order. If several documents have the same key, the first is
    stored. Preconditions apply only to a single object.
    """
    parsed = post_request(request, ports.store.new_id())
    if isinstance(parsed, BulkPutRequest):
        results = bulk.put_each(ports, parsed, documents_wanted=False)
        return Response(200, PutResultsShown(tuple(map(_result, results))))
    idempotency_key = request.caller_key
    stored = (
        single_documents.put_once(ports, parsed, idempotency_key)
        if idempotency_key
        else single_documents.put(ports, parsed)
    )
    return posted_response(stored, settings().page_address_of("documents"))


@routes.on(
    "POST",
    "/:query",
    body=DocumentQuery,
    answers={200: FOUND},
    example={"where": [["email", "==", "ann@example.com"]], "limit": 10},
)
def query_documents(ports: Ports, request: Request) -> Response:
    """Find documents by a query in the body, so that logs of addresses do not contain its values."""
    parsed = query_from_body(request.json_object())
    if isinstance(parsed, CountRequest):
        return Response(200, DocumentCountShown(single_documents.count(ports, parsed)))
    return Response(200, single_documents.find(ports, parsed))


@routes.on(
    "PUT",
    "/{key}",
    headers=PRECONDITIONS,
    body=DocumentContent,
    answers={200: STORED, 201: STORED},
    refuses=(TransformFailed, PreconditionFailed),
)
def put_document(ports: Ports, request: Request, key: DocumentKey) -> Response:
    """Store a document, replacing the one of its key."""
    put_request = PutRequest.from_request(key, request.json(), Precondition.from_headers(request.entity_tags))
    return written_response(single_documents.put(ports, put_request))


@routes.on(
    "PATCH",
    "/{key}",
    query=(WRITE_BACK,),
    headers=PRECONDITIONS,
    body=dict.fromkeys(NULLS, DocumentContent),
    answers={200: STORED, 201: STORED, 415: WRONG_PATCH_TYPE},
    refuses=(EditsACopy, StaleCopy, CannotWriteBack, TransformFailed, PreconditionFailed),
    example={"address": {"key": "2"}},
)
def patch_document(ports: Ports, request: Request, key: DocumentKey) -> Response:
    """Merge into a document, or create it.

    Objects are merged deeply, other values are replaced. In `application/json` null is a value; in
    `application/merge-patch+json` (RFC 7396) it removes the member. A link replaces the whole previous value. A change
    of a copy is refused with 409, unless `write_back` is true.
    """
    return written_response(patches.patch(ports, patch_request(request, key)))


@routes.on(
    "GET",
    "/{key}",
    headers=PRECONDITIONS,
    answers={200: STORED, 304: UNCHANGED},
    refuses=(NotFound, PreconditionFailed),
)
def get_document(ports: Ports, request: Request, key: DocumentKey) -> Response:
    """Return a document with its copies."""
    return read_response(single_documents.get(ports, key), Precondition.from_headers(request.entity_tags))


@routes.on(
    "DELETE",
    "/{key}",
    headers=PRECONDITIONS,
    answers={204: Answer(None, "It is deleted.")},
    refuses=(NotFound, PreconditionFailed),
)
def delete_document(ports: Ports, request: Request, key: DocumentKey) -> Response:
    """Delete a document; copies of it elsewhere become `link_missing` soon after."""
    single_documents.delete(ports, key, Precondition.from_headers(request.entity_tags))
    return Response(204)


# --- versions ---


@routes.on(
    "GET", "/{key}/versions", query=(limit(LIMITS.versions_listed_max), PAGE_TOKEN), answers={200: VersionsShown}
)
def list_versions(ports: Ports, request: Request, key: DocumentKey) -> Response:
    """List the versions of a document, the latest first.

    The catalogue's `history` names the documents that have versions. Each change by a user is a version, with links as
    keys only. A refreshed copy is not a version.
    """
    listing = Listing.from_request(request.query, f"versions of {check_key(key)}", LIMITS.versions_listed_max)
    return Response(200, history.find_versions(ports, key, listing))


@routes.on("DELETE", "/{key}/versions", answers={204: Answer(None, "They are deleted.")})
def forget_versions(ports: Ports, _: Request, key: DocumentKey) -> Response:
    """Delete all versions of a document and keep its present content."""
    history.forget(ports, check_key(key))
    return Response(204)


@routes.on("GET", "/{key}/versions/{version}", answers={200: VersionContentShown}, refuses=(NotFound,))
def get_version(ports: Ports, _: Request, key: DocumentKey, version: Version) -> Response:
    """Return the content of a document in a version, or at a time."""
    found = history.read_version(ports, check_key(key), Reference.from_request(version))
    return Response(200, VersionContentShown.of(key, found.version, found.content))


@routes.on(
    "GET",
    "/{key}/versions/{version}/changes",
    query=(
        Parameter("to", VersionReference, "The version to compare with, or a time; by default the latest version."),
    ),
    answers={200: VersionChangesShown},
    refuses=(NotFound,),
)
def get_changes(ports: Ports, request: Request, key: DocumentKey, version: Version) -> Response:
    """Compare two versions of a document."""
    before, to = Reference.from_request(version), request.query.get("to")
    after = LATEST if to is None else Reference.from_request(to, "to")
    return Response(200, history.compare_versions(ports, check_key(key), before, after))


@routes.on(
    "POST",
    "/{key}/versions/{version}/restore",
    headers=PRECONDITIONS,
    answers={200: STORED, 201: STORED},
    refuses=(NotFound, TransformFailed, PreconditionFailed),
)
def restore_version(ports: Ports, request: Request, key: DocumentKey, version: Version) -> Response:
    """Store the content of a version, or of a time, again as a new version."""
    reference, precondition = Reference.from_request(version), Precondition.from_headers(request.entity_tags)
    return written_response(single_documents.restore(ports, key, reference, precondition))


# --- requests ---


def post_request(request: Request, new_key: str) -> PutRequest | BulkPutRequest:
    """Parse documents that contain their keys: one document, a JSON array, or newline-delimited JSON.

    Raises a `Problem`. A single document may have no key: its key is then the header ``Idempotency-Key``, or else
    `new_key`. If a line is not JSON, only that line is refused. Raises `BadPrecondition` for a precondition on several
    documents.
    """
    bodies = _bodies(request)
    if not isinstance(bodies, list):
        new_key = request.caller_key or new_key
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
    null, write_back = NULLS[request.media_type], wants("write_back", request.query.get("write_back", ""))
    return PatchRequest.from_request(
        key, request.json(), null, Precondition.from_headers(request.entity_tags), write_back=write_back
    )


# --- responses ---


def written_response(stored: StoredDocument) -> Response:
    """Return a response with a document that was written."""
    return Response(201 if stored.created else 200, stored.document, {"ETag": stored.etag})


def posted_response(stored: StoredDocument, address: str) -> Response:
    """Return a response with a document that was posted to the function's address.

    A new document's address is in `Location`.
    """
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


def _result(result: BulkPutResult) -> PutResultShown:
    outcome = result.outcome
    if isinstance(outcome, StoredDocument):
        return PutResultShown(result.key, 201 if outcome.created else 200, outcome.etag)
    body = problem_body(outcome) if isinstance(outcome, Problem) else unavailable_body(outcome)
    return PutResultShown(result.key, body["status"], problem=body)
