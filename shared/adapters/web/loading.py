"""Documents that come without an address: one, a JSON array, or newline-delimited JSON; and what became of each."""

from collections.abc import Sequence
from typing import Any

from shared.adapters.web.answers import Answer, problem_body, unavailable_body
from shared.adapters.web.http import Request
from shared.operations.document_bulk import Loaded
from shared.operations.documents import Stored
from shared.rules.bounds import BULK_BYTES_MAX
from shared.rules.effects import Json
from shared.rules.preconditions import UNCONDITIONAL
from shared.rules.problems import BadPrecondition, Problem

LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
"""Media types of newline-delimited JSON: none is registered, and these are in use."""


def bodies_of(request: Request) -> list[Json | Problem] | Json:
    """Read a call's documents: a list, in which a line that could not be read is its problem, or one by itself.

    Raises `BadPrecondition` for a condition on many at once.
    """
    bodies = request.json_lines(BULK_BYTES_MAX) if request.media_type in LINES else request.json(BULK_BYTES_MAX)
    if isinstance(bodies, list) and request.precondition != UNCONDITIONAL:
        raise BadPrecondition("Many documents have no entity tag in common.")
    return bodies


def results_answer(loaded: Sequence[Loaded]) -> Answer:
    """Answer with what became of each document, in the order in which they came."""
    return Answer(200, {"results": [_result(each) for each in loaded]})


def _result(loaded: Loaded) -> dict[str, Any]:
    if isinstance(loaded.ending, Stored):
        return {"key": loaded.key, "status": 201 if loaded.ending.created else 200, "etag": loaded.ending.etag}
    body = problem_body(loaded.ending) if isinstance(loaded.ending, Problem) else unavailable_body()
    return {"key": loaded.key, "status": body["status"], "problem": body}
