"""Documents that come without an address: one, a JSON array, or newline-delimited JSON; and what became of each."""

from collections.abc import Sequence
from typing import Any

from shared.adapters.http.responses import Response, problem_body, unavailable_body
from shared.adapters.http.routes import Request
from shared.core.rules.effects import Json
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadPrecondition, Problem
from shared.documents.operations.bulk import Loaded
from shared.documents.operations.documents import Stored
from shared.documents.rules.preconditions import UNCONDITIONAL

LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
"""Media types of newline-delimited JSON: none is registered, and these are in use."""


def bodies_of(request: Request) -> list[Json | Problem] | Json:
    """Read a call's documents: a list, in which a line that could not be read is its problem, or one by itself.

    Raises `BadPrecondition` for a condition on many at once.
    """
    bodies = (
        request.json_lines(LIMITS.bulk_bytes_max)
        if request.media_type in LINES
        else request.json(LIMITS.bulk_bytes_max)
    )
    if isinstance(bodies, list) and request.precondition != UNCONDITIONAL:
        raise BadPrecondition("Many documents have no entity tag in common.")
    return bodies


def results_answer(loaded: Sequence[Loaded]) -> Response:
    """Response with what became of each document, in the order in which they came."""
    return Response(200, {"results": [_result(each) for each in loaded]})


def _result(loaded: Loaded) -> dict[str, Any]:
    if isinstance(loaded.ending, Stored):
        return {"key": loaded.key, "status": 201 if loaded.ending.created else 200, "etag": loaded.ending.etag}
    body = problem_body(loaded.ending) if isinstance(loaded.ending, Problem) else unavailable_body()
    return {"key": loaded.key, "status": body["status"], "problem": body}
