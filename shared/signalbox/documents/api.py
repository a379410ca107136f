"""`documents` and `transaction`, as users import them from `signalbox`.

    documents.put("order-7", {"customer": {"key": "ann"}})
    documents.patch("order-7", {"paid": True})

Every call may be repeated: in a second delivery of a task it stores the same documents again.
"""

import sys
from collections.abc import Callable, Iterable
from copy import deepcopy
from datetime import datetime
from typing import Any, TypeVar

from signalbox.adapters import runtime
from signalbox.adapters.deployed_catalogue import deployed
from signalbox.core.calls import Call
from signalbox.core.code_contents import UnknownContentError, content_of_code, name_of_code
from signalbox.core.effects import name_of, receipt_path
from signalbox.core.idempotency_keys import Leaves, idempotency_key, is_in_task, is_repeated
from signalbox.core.keys import check_key
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.surface.paging import Listing
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine.patches import Null
from signalbox.documents.model.stamped_contents import StoredDocument
from signalbox.documents.problems import BadPrecondition, BadTransaction
from signalbox.documents.requests import (
    BulkPutRequest,
    CountRequest,
    FindRequest,
    PatchRequest,
    Precondition,
    PutRequest,
    Tags,
    condition_text,
)
from signalbox.documents.service import bulk, patches, transactions
from signalbox.documents.service import single_documents as service
from signalbox.documents.shown import DocumentsShown
from signalbox.history import service as history
from signalbox.history.requests import LATEST, Reference
from signalbox.history.shown import VersionsShown

PutManyOutcome = dict[str, Any] | Problem | Unavailable
"""The outcome of one of many documents: the document as stored, or the problem that prevented it.

`Unavailable` means that the outcome is unknown: put the document again.
"""

Condition = str | tuple[str, str, Any]
"""``"address.zipcode==54321"``, or ``("address.zipcode", "==", 54321)``."""

Returned = TypeVar("Returned")


class Documents:
    """JSON documents under keys. The kit fills their links with copies and keeps the copies up to date.

    A returned document shares nothing with the one that was passed.
    """

    def put(
        self, key: str, document: dict[str, Any], *, if_match: str | None = None, if_none_match: str | None = None
    ) -> dict[str, Any]:
        """Store a document and return it with its links filled. Raises a `Problem` if it cannot be stored.

        With `if_match`, store it only if the document has this entity tag (``*``: any). With `if_none_match`, store it
        only if the document has another entity tag (``*``: if there is no document). Raises `PreconditionFailed`
        otherwise.
        """
        precondition = Precondition(_tags(if_match), _tags(if_none_match))
        stored = service.put(runtime.ports(), PutRequest.from_request(key, document, precondition))
        return deepcopy(stored.document)

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

        Objects are merged member by member, all other values are replaced. None is a value; with `none_removes` it
        removes the member. With `write_back`, changes inside a copy are written to its source, in the same commit;
        raises `StaleCopy` or `CannotWriteBack` if that is not possible. With `if_match`, merge only if the document's
        entity tag is this one, which covers its copies; raises `PreconditionFailed` otherwise.
        """
        null = Null.REMOVES if none_removes else Null.IS_A_VALUE
        precondition = Precondition(_tags(if_match))
        request = PatchRequest.from_request(key, changes, null, precondition, write_back=write_back)
        return deepcopy(patches.patch(runtime.ports(), request).document)

    def put_many(self, documents: Iterable[dict[str, Any]]) -> list[PutManyOutcome]:
        """Store documents that contain their keys, each in a separate write; return their outcomes, in the same order.

        The documents may link to each other, in any order. The outcomes contain all documents with their copies, so
        pass only a few large ones at a time. Raises `TooLarge` if there are more than one call accepts.
        """
        request = BulkPutRequest.from_request(list(documents))
        outcomes = (result.outcome for result in bulk.put_each(runtime.ports(), request))
        return [deepcopy(outcome.document) if isinstance(outcome, StoredDocument) else outcome for outcome in outcomes]

    def get(self, key: str) -> dict[str, Any]:
        """Return a document. Raises `NotFound`."""
        return service.get(runtime.ports(), key).document

    def get_with_etag(self, key: str) -> tuple[dict[str, Any], str]:
        """Return a document and its entity tag, for `if_match`. Raises `NotFound`."""
        stored = service.get(runtime.ports(), key)
        return stored.document, stored.etag

    def get_many(self, keys: Iterable[str]) -> dict[str, dict[str, Any] | None]:
        """Return documents by their keys, read at one instant, with None for a missing one. Raises `TooLarge`."""
        found = service.get_many(runtime.ports(), list(keys))
        return {key: None if stored is None else stored.document for key, stored in found.items()}

    def query(
        self, *where: Condition, order_by: Iterable[str] = (), limit: int | None = None, page_token: str = ""
    ) -> DocumentsShown:
        """Return a page of the documents that meet all conditions: its `documents` and `next_page_token`.

        `order_by` names fields; ``-name`` is descending. Raises `BadQuery`, also for a query without its index.
        """
        conditions, most = [_condition(condition) for condition in where], "" if limit is None else str(limit)
        request = FindRequest.from_request(conditions, list(order_by), most, page_token)
        return service.find(runtime.ports(), request)

    def count(self, *where: Condition) -> int:
        """Return the number of documents that meet all conditions. Raises `BadQuery`."""
        conditions = [_condition(condition) for condition in where]
        return service.count(runtime.ports(), CountRequest.from_request(conditions))

    def versions(self, key: str, *, limit: int | None = None, page_token: str = "") -> VersionsShown:
        """Return a page of a document's versions, the latest first: its `versions` and `next_page_token`.

        There are none unless the catalogue's `history` names the document. Raises `BadQuery`.
        """
        query = {"limit": "" if limit is None else str(limit), "page_token": page_token}
        listing = Listing.from_request(query, f"versions of {check_key(key)}", LIMITS.versions_listed_max)
        return history.find_versions(runtime.ports(), key, listing)

    def get_version(self, key: str, version: int | datetime) -> dict[str, Any] | None:
        """Return a document as it was in a version or at a time. The links in it are bare keys.

        Return None if the document did not exist then. Raises `NotFound` for a version that is not kept.
        """
        reference = Reference.from_request(version)
        content = history.read_version(runtime.ports(), check_key(key), reference).content
        return None if content is None else {"key": key, **content}

    def changes(self, key: str, version: int | datetime, to: int | datetime | None = None) -> list[dict[str, Any]]:
        """Return the JSON Patch (RFC 6902) from one version to another, by default the latest.

        Raises `NotFound`.
        """
        after = LATEST if to is None else Reference.from_request(to, "to")
        before = Reference.from_request(version)
        return history.compare_versions(runtime.ports(), check_key(key), before, after).patch

    def restore(self, key: str, version: int | datetime, *, if_match: str | None = None) -> dict[str, Any]:
        """Store a document as it was in a version, or at a time, as a new version; return it as stored.

        With `if_match`, do so only if the document has this entity tag. Raises `NotFound` for a version that is not
        kept, or in which the document did not exist, and `PreconditionFailed`.
        """
        reference, precondition = Reference.from_request(version), Precondition(_tags(if_match))
        return service.restore(runtime.ports(), key, reference, precondition).document

    def forget_versions(self, key: str) -> None:
        """Delete all versions of a document. The document itself stays."""
        history.forget(runtime.ports(), check_key(key))

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """Delete a document. With `if_match`, delete it only if it has this entity tag.

        Raises `NotFound` and `PreconditionFailed`.
        """
        service.delete(runtime.ports(), key, Precondition(_tags(if_match)))


documents = Documents()


def _tags(tag: str | None) -> Tags | None:
    """Return the entity tag of a precondition. Raises `BadPrecondition` if the text is not an entity tag."""
    if tag is None:
        return None
    if tag != "*" and not (len(tag) > 2 and tag[0] == tag[-1] == '"'):
        raise BadPrecondition(f"{tag[:80]!r} is not an entity tag: pass the result of `get_with_etag`, or '*'.")
    return Tags(every=True) if tag == "*" else Tags(strong=frozenset([tag]))


def _condition(condition: Condition) -> str:
    if isinstance(condition, str):
        return condition
    return condition_text(*condition)


# --- transactions ---


class Transaction(transactions.Transaction):
    """The argument that `transaction` passes to its code: `get`, `get_many`, `put`, `delete`, `enqueue`."""

    def enqueue(self, call: Call) -> None:
        """Enqueue a call if, and only if, the transaction commits. Raises `BadCall` if it cannot be delivered."""
        super().enqueue(deployed(call, "call", may_be_large=True))


def transaction(
    code: Callable[[Transaction], Returned],
    *,
    id: str | None = None,
) -> Returned:
    """Run `code` in a transaction and return its result: all of its writes and tasks take effect, or none.

    The code runs again if a document that it read has changed before the commit, so it must have no other effects.
    Under an `id`, and in a task, it takes effect once: a repeat within 32 days returns the first result, which must be
    JSON. In a task, a repeat is recognised by the code and the values that it was given. Raises the errors of the code,
    `Unavailable` if others keep writing the same documents, `OtherBody` if another transaction took effect under the
    id, and in a task `BadTransaction` if it needs an `id`.
    """
    ports = runtime.ports()
    if id:
        name, digest = name_of("transaction", check_key(id)), name_of_code(code)
        return transactions.run_transaction(ports, code, name, digest=digest, kind=Transaction)
    if not is_in_task():
        return transactions.run_transaction(ports, code, kind=Transaction)
    try:
        content = content_of_code(code, sys._getframe(1).f_code)
    except UnknownContentError as error:
        raise BadTransaction(
            f"The code uses {error}, which may differ in the next delivery of the task: pass an `id`.", field="id"
        ) from error
    leaves = Leaves(f"transaction of {getattr(code, '__qualname__', type(code).__qualname__)}", receipt_path)
    name = idempotency_key("transaction", content.name, leaves=leaves) or ""
    return transactions.run_transaction(
        ports, code, name, digest=content.digest, is_new=not is_repeated(), kind=Transaction
    )
