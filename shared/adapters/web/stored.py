"""A document as an answer: with its entity tag, and without itself where its reader has it already."""

from shared.adapters.web.answers import Answer
from shared.operations.documents import Stored
from shared.rules.preconditions import Precondition


def stored_answer(stored: Stored) -> Answer:
    """Answer with a document as it is stored now."""
    return Answer(201 if stored.created else 200, stored.document, {"ETag": stored.etag})


def read_answer(stored: Stored, precondition: Precondition) -> Answer:
    """Answer with a document as it was read, or 304. Raises `PreconditionFailed`."""
    precondition.check_match(stored.etag)
    tag = {"ETag": stored.etag}
    return Answer(304, None, tag) if precondition.seen(stored.etag) else Answer(200, stored.document, tag)
