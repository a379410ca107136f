"""A document as an answer: with its entity tag, and without itself where its reader has it already."""

from shared.adapters.http.responses import Response
from shared.documents.operations.documents import Stored
from shared.documents.rules.preconditions import Precondition


def stored_answer(stored: Stored) -> Response:
    """Response with a document as it is stored now."""
    return Response(201 if stored.created else 200, stored.document, {"ETag": stored.etag})


def read_answer(stored: Stored, precondition: Precondition) -> Response:
    """Response with a document as it was read, or 304. Raises `PreconditionFailed`."""
    precondition.check_match(stored.etag)
    tag = {"ETag": stored.etag}
    return Response(304, None, tag) if precondition.seen(stored.etag) else Response(200, stored.document, tag)
