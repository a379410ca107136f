"""Documents, as a user's function stores and reads them.

    documents.put("order-7", {"customer": {"key": "ann"}})
    documents.patch("order-7", {"paid": True})

Every call may be repeated: in a second delivery of a task it stores the same again.
"""

from collections.abc import Iterable
from typing import Any

from shared.adapters import runtime
from shared.core.rules.problems import Problem, Unavailable
from shared.documents.operations import bulk as bulk_operations
from shared.documents.operations import documents as operations
from shared.documents.operations import patches as patch_operations
from shared.documents.operations.stored_documents import StoredDocument
from shared.documents.rules.bulk import BulkPutRequest
from shared.documents.rules.patches import Null
from shared.documents.rules.requests import PatchRequest, PutRequest

PutManyOutcome = dict[str, Any] | Problem | Unavailable
"""Of one of many documents: the document as stored, or why it is not. `Unavailable` means unknown: put it again."""


class Documents:
    """JSON under keys, with links that stay up to date."""

    def put(self, key: str, document: dict[str, Any]) -> dict[str, Any]:
        """Store a document and return it with its links filled. Raises a `Problem` if it cannot be stored."""
        return operations.put(runtime.ports(), PutRequest.from_request(key, document)).document

    def patch(self, key: str, changes: dict[str, Any], *, none_removes: bool = False) -> dict[str, Any]:
        """Merge into a document, or create it, and return it as stored. Raises a `Problem` if it cannot be stored.

        Objects are merged member by member, all else is replaced. None is a value; with `none_removes` it removes the
        member.
        """
        null = Null.REMOVES if none_removes else Null.IS_A_VALUE
        return patch_operations.patch(runtime.ports(), PatchRequest.from_request(key, changes, null)).document

    def put_many(self, documents: Iterable[dict[str, Any]]) -> list[PutManyOutcome]:
        """Store documents that contain their keys, each by itself; return their outcomes, in the same order.

        They may link to each other, in any order. Raises `TooLarge` for more than one call takes.
        """
        request = BulkPutRequest.from_request(list(documents))
        outcomes = (each.outcome for each in bulk_operations.put_each(runtime.ports(), request))
        return [each.document if isinstance(each, StoredDocument) else each for each in outcomes]

    def get(self, key: str) -> dict[str, Any]:
        """Return a document. Raises `NotFound`."""
        return operations.get(runtime.ports(), key).document

    def delete(self, key: str) -> None:
        """Delete a document. Raises `NotFound`."""
        operations.delete(runtime.ports(), key)


documents = Documents()
