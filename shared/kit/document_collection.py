"""Documents, as a user's function stores and reads them.

    documents.put("order-7", {"customer": {"key": "ann"}})
    documents.patch("order-7", {"paid": True})

Every call may be repeated: in a second delivery of a task it stores the same again.
"""

import json
from collections.abc import Iterable
from typing import Any

from shared.adapters import runtime
from shared.core.rules.problems import BadPrecondition, Problem, Unavailable
from shared.documents.operations import bulk as bulk_operations
from shared.documents.operations import documents as operations
from shared.documents.operations import patches as patch_operations
from shared.documents.operations.documents import DocumentPage
from shared.documents.operations.stored_documents import StoredDocument
from shared.documents.rules.bulk import BulkPutRequest
from shared.documents.rules.patches import Null
from shared.documents.rules.preconditions import Precondition, Tags
from shared.documents.rules.queries import CountRequest, FindRequest
from shared.documents.rules.requests import PatchRequest, PutRequest

PutManyOutcome = dict[str, Any] | Problem | Unavailable
"""Of one of many documents: the document as stored, or why it is not. `Unavailable` means unknown: put it again."""

Condition = str | tuple[str, str, Any]
"""``"address.zipcode==54321"``, or ``("address.zipcode", "==", 54321)``."""


class Documents:
    """JSON under keys, with links that stay up to date."""

    def put(
        self, key: str, document: dict[str, Any], *, if_match: str | None = None, if_none_match: str | None = None
    ) -> dict[str, Any]:
        """Store a document and return it with its links filled. Raises a `Problem` if it cannot be stored.

        With `if_match`, only if the document's entity tag is that one (``*``: any); with `if_none_match`, only if it is
        another (``*``: only if there is no document). Raises `PreconditionFailed` otherwise.
        """
        precondition = Precondition(_tags(if_match), _tags(if_none_match))
        return operations.put(runtime.ports(), PutRequest.from_request(key, document, precondition)).document

    def patch(
        self,
        key: str,
        changes: dict[str, Any],
        *,
        none_removes: bool = False,
        write_back: bool = False,
        if_match: str | None = None,
    ) -> dict[str, Any]:
        """Merge into a document, or create it, and return it as stored. Raises a `Problem` if it cannot be stored.

        Objects are merged member by member, all else is replaced. None is a value; with `none_removes` it removes the
        member. With `write_back`, what is changed inside a copy is changed in its source, in the same commit; raises
        `StaleCopy` or `CannotWriteBack` where that is not possible. With `if_match`, only if the document's entity tag
        is that one, which covers its copies; raises `PreconditionFailed` otherwise.
        """
        null = Null.REMOVES if none_removes else Null.IS_A_VALUE
        precondition = Precondition(_tags(if_match))
        request = PatchRequest.from_request(key, changes, null, precondition, write_back=write_back)
        return patch_operations.patch(runtime.ports(), request).document

    def put_many(self, documents: Iterable[dict[str, Any]]) -> list[PutManyOutcome]:
        """Store documents that contain their keys, each by itself; return their outcomes, in the same order.

        They may link to each other, in any order. The outcomes hold all documents whole, with their copies, so call it
        with a few large ones at a time. Raises `TooLarge` for more than one call takes.
        """
        request = BulkPutRequest.from_request(list(documents))
        outcomes = (each.outcome for each in bulk_operations.put_each(runtime.ports(), request))
        return [each.document if isinstance(each, StoredDocument) else each for each in outcomes]

    def get(self, key: str) -> dict[str, Any]:
        """Return a document. Raises `NotFound`."""
        return operations.get(runtime.ports(), key).document

    def get_with_etag(self, key: str) -> tuple[dict[str, Any], str]:
        """Return a document and its entity tag, for `if_match`. Raises `NotFound`."""
        stored = operations.get(runtime.ports(), key)
        return stored.document, stored.etag

    def get_many(self, keys: Iterable[str]) -> dict[str, dict[str, Any] | None]:
        """Return documents by their keys, as of one instant; None where there is none. Raises `TooLarge`."""
        found = operations.get_many(runtime.ports(), list(keys))
        return {key: None if each is None else each.document for key, each in found.items()}

    def query(
        self, *where: Condition, order_by: Iterable[str] = (), limit: int | None = None, page_token: str = ""
    ) -> DocumentPage:
        """Return a page of the documents that meet all conditions: its `documents` and `next_page_token`.

        `order_by` names fields, ``-name`` descends. Raises `BadQuery`, also for a query that lacks its index.
        """
        conditions, most = [_condition(each) for each in where], "" if limit is None else str(limit)
        request = FindRequest.from_request(conditions, list(order_by), most, page_token)
        return operations.find(runtime.ports(), request)

    def count(self, *where: Condition) -> int:
        """Return how many documents meet all conditions. Raises `BadQuery`."""
        return operations.count(runtime.ports(), CountRequest.from_request([_condition(each) for each in where]))

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """Delete a document, with `if_match` only in that state. Raises `NotFound` and `PreconditionFailed`."""
        operations.delete(runtime.ports(), key, Precondition(_tags(if_match)))


def _tags(tag: str | None) -> Tags | None:
    """Return the entity tag of a precondition. Raises `BadPrecondition` for what is no tag."""
    if tag is None:
        return None
    if tag != "*" and not (len(tag) > 2 and tag[0] == tag[-1] == '"'):
        raise BadPrecondition(f"{tag[:80]!r} is no entity tag: pass what `get_with_etag` returned, or '*'.")
    return Tags(every=True) if tag == "*" else Tags(strong=frozenset([tag]))


def _condition(condition: Condition) -> str:
    if isinstance(condition, str):
        return condition
    field, operator, value = condition
    return f"{field} {operator} {json.dumps(value)}"


documents = Documents()
