"""Documents, as a user's function stores and reads them.

    documents.put("order-7", {"customer": {"key": "ann"}})
    documents.patch("order-7", {"paid": True})

Every call may be repeated: in a second delivery of a task it stores the same again.
"""

from collections.abc import Iterable
from typing import Any

from shared.adapters import runtime
from shared.core.rules.problems import Problem, Unavailable
from shared.documents.operations import bulk as document_bulk
from shared.documents.operations import documents as operations
from shared.documents.operations import patches as document_patches
from shared.documents.operations.bulk import Loaded
from shared.documents.operations.documents import Stored
from shared.documents.rules.patches import Null

PutResult = dict[str, Any] | Problem | Unavailable
"""Of one of many documents: as it is stored, or why it is not. `Unavailable`: the outcome is unknown, put it again."""


class Documents:
    """JSON under keys, with links that stay true."""

    def put(self, key: str, document: dict[str, Any]) -> dict[str, Any]:
        """Store a document and return it as stored, with its copies. Raises a `Problem` if it is refused."""
        return operations.put(runtime.ports(), key, document).document

    def patch(self, key: str, changes: dict[str, Any], *, none_removes: bool = False) -> dict[str, Any]:
        """Merge changes into a document, or create it, and return it as stored. Raises a `Problem` if that is refused.

        Objects are merged member by member, all else is replaced. None is stored as a value; with `none_removes` it
        removes its field.
        """
        null = Null.REMOVES if none_removes else Null.IS_A_VALUE
        return document_patches.patch(runtime.ports(), key, changes, null).document

    def put_many(self, documents: Iterable[dict[str, Any]]) -> list[PutResult]:
        """Store documents that hold their own keys, each on its own; return the results in the same order.

        They may link to each other, in any order. Raises `TooLarge` for more than 500 documents or 8 MiB.
        """
        return [_put_result(loaded) for loaded in document_bulk.put_each(runtime.ports(), list(documents))]

    def get(self, key: str) -> dict[str, Any]:
        """Read a document. Raises `NotFound`."""
        return operations.get(runtime.ports(), key).document

    def delete(self, key: str) -> None:
        """Delete a document. Raises `NotFound`."""
        operations.delete(runtime.ports(), key)


def _put_result(loaded: Loaded) -> PutResult:
    return loaded.ending.document if isinstance(loaded.ending, Stored) else loaded.ending


documents = Documents()
