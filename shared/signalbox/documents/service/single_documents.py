"""Put, get, delete, find and restore documents.

A put reads the document, its links' targets and the transforms of their fields at one instant, embeds them, and commits
under its own guard. It writes no other record: copies in other documents are refreshed by the event of this write
(`signalbox/links/service/refreshes.py`).
"""

from collections.abc import Sequence

from signalbox.core.effects import Decision, name_of, receipt_path
from signalbox.core.keys import check_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import (
    SERVER_TIME,
    AlreadyExists,
    Delete,
    Must,
    Ports,
    Put,
    Query,
    RecordMissing,
    Snapshot,
    Stale,
    Store,
    is_full,
)
from signalbox.core.problems import Contended, NotFound, OtherBody, TooLarge
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine.reactions import WRITERS
from signalbox.documents.model.stamped_contents import COLLECTION, StoredDocument, path_of
from signalbox.documents.problems import DocumentDeleted, PreconditionFailed
from signalbox.documents.requests import UNCONDITIONAL, CountRequest, FindRequest, Precondition, PutRequest
from signalbox.documents.shown import DocumentsShown
from signalbox.documents.storage import embedded_copies
from signalbox.documents.storage.embedded_copies import DocumentRead, Loaded
from signalbox.documents.storage.records import Found, log_header, read_whole
from signalbox.documents.storage.writes import deletion, put_write
from signalbox.history import service as history
from signalbox.history.model import HISTORY, Action
from signalbox.history.requests import Reference


def put(ports: Ports, request: PutRequest, action: Action = "put") -> StoredDocument:
    """Store a document, replacing the one under its key. Raises a `Problem` if it cannot be stored."""

    def decide(read: Loaded) -> Decision[Writes, StoredDocument]:
        check_precondition(request.precondition, read.own)
        made = put_write(read.own, read.embed(request.content), action, read.header)
        return Decision(made.writes, made.stored, made.effects)

    inputs = embedded_copies.input_paths(request.content)
    return perform(ports, DocumentRead(request.key, inputs, request.content), decide)[0]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt of a creation that a client may repeat: the name of the operation, and the digest of its body."""

    name: str
    digest: str

    @property
    def write(self) -> Put:
        """The write that creates the record, for the commit of the document."""
        record = {"digest": self.digest, "written_at": SERVER_TIME}
        return Put(receipt_path(self.name), record, Must.NOT_EXIST)


def put_once(ports: Ports, request: PutRequest, idempotency_key: str) -> StoredDocument:
    """Store a document once for an idempotency key. A repeat writes nothing and returns the document as it is now.

    If the key is also the document's, no document is replaced. Raises `OtherBody` for a repeat with another document
    and for a document that something else has created, `DocumentDeleted` for a repeat after the deletion, `Contended`,
    and the problems of `put`.
    """
    receipt = Receipt(name_of("document", idempotency_key), name_of(request.key, request.content.digest))
    must_be_new = request.key == idempotency_key

    def decide(read: Loaded) -> Decision[Writes, StoredDocument | None]:
        if must_be_new and read.own.document is not None:
            return Decision((), None)
        check_precondition(request.precondition, read.own)
        made = put_write(read.own, read.embed(request.content), "put", read.header)
        return Decision((*made.writes, receipt.write), made.stored, made.effects)

    reading = DocumentRead(request.key, embedded_copies.input_paths(request.content), request.content, note=True)
    refused: PreconditionFailed | None = None
    try:
        stored = perform(ports, reading, decide, retry_on=(Stale, RecordMissing))[0]
    except AlreadyExists:
        stored = None
    except PreconditionFailed as error:
        stored, refused = None, error
    return stored or _repeated(ports, request, receipt, refused)


def _repeated(
    ports: Ports, request: PutRequest, receipt: Receipt, refused: PreconditionFailed | None
) -> StoredDocument:
    """Return the document that the receipt's operation has stored, as it is now, or raise the problem of the repeat.

    Without a receipt, raise the error with which the operation was refused.
    """
    done, document = ports.store.read(receipt_path(receipt.name), path_of(request.key))
    if done.data is None and refused is not None:
        raise refused
    if done.data is None and document.data is None:
        raise Contended(f"{request.key} is written by many clients at once")
    if done.data is None:
        detail = f"Document {request.key!r} exists, and no request with this `Idempotency-Key` has created it."
        raise OtherBody(f"{detail} Choose another `Idempotency-Key`.", field="Idempotency-Key")
    if done.data["digest"] != receipt.digest:
        raise OtherBody("Another document was stored with this `Idempotency-Key`.", field="Idempotency-Key")
    if document.data is None:
        detail = "The document that was stored with this `Idempotency-Key` was deleted."
        raise DocumentDeleted(detail, field="Idempotency-Key")
    return Found.of(document).stored


def check_precondition(precondition: Precondition, found: Found) -> None:
    """Raise `PreconditionFailed` unless a write is allowed.

    The content is hashed only if the request has a precondition.
    """
    if precondition != UNCONDITIONAL:
        precondition.check_write(found.etag)


def get(ports: Ports, key: str) -> StoredDocument:
    """Return a document. Raises `NotFound`."""
    [record] = ports.store.read(path_of(check_key(key)))
    if record.data is None:
        raise _not_found(key)
    return Found.of(record).stored


def get_many(ports: Ports, keys: Sequence[str]) -> dict[str, StoredDocument | None]:
    """Return documents by their keys, read at one instant, with None for a missing one. Raises `TooLarge`."""
    paths = [path_of(check_key(key)) for key in dict.fromkeys(keys)]
    if len(paths) > LIMITS.bulk_puts_max:
        raise TooLarge(f"One call returns at most {LIMITS.bulk_puts_max:,} documents; these are {len(paths):,}.")
    records = read_whole(ports.store, paths)
    return {record.id: None if record.data is None else Found.of(record).stored for record in records}


def find(ports: Ports, request: FindRequest) -> DocumentsShown:
    """Return a page of the documents that meet the request's conditions, of at most `LIMITS.read_bytes_max`."""
    bytes_max = CORE_LIMITS.read_bytes_max
    query = Query(COLLECTION, request.where, request.order_by, request.limit, request.after, bytes_max)
    page = ports.store.query(query)
    token = request.page_token(page[-1].id, page[-1].data or {}) if is_full(query, page) else ""
    return DocumentsShown([Found.of(record).stored.document for record in page], token)


def count(ports: Ports, request: CountRequest) -> int:
    """Return the number of documents that meet the request's conditions."""
    return ports.store.count(Query(COLLECTION, request.where))


def delete(ports: Ports, key: str, precondition: Precondition = UNCONDITIONAL) -> None:
    """Delete a document; its copies elsewhere become `link_missing`. Raises `NotFound` and `PreconditionFailed`.

    Without a precondition the document is deleted without a read. So if it was so large that the event of the deletion
    does not arrive, its copies stay until the nightly verification. With a precondition, also `If-Match: *`, the commit
    contains the task that the event would cause. A document that may have a history is read first, since its deletion
    is a version. If only the kit writes documents, every document is read first, since a deletion then has no event.
    """
    path = path_of(check_key(key))
    if precondition != UNCONDITIONAL or HISTORY.may_apply(key) or WRITERS.only_the_kit:
        _delete_if(ports, path, precondition)
        return
    try:
        ports.store.commit([Delete(path, Must.EXIST)])
    except RecordMissing as conflict:
        raise _not_found(key) from conflict


def _delete_if(ports: Ports, path: str, precondition: Precondition) -> None:
    def decide(read: tuple[Found, Snapshot | None]) -> Decision[Writes, None]:
        found, header = read
        if found.document is None:
            raise _not_found(found.key)
        check_precondition(precondition, found)
        made = deletion(found, header)
        return Decision(made.writes, None, made.effects)

    perform(ports, _DeletionRead(path), decide)


@dataclass(frozen=True, slots=True)
class _DeletionRead:
    """The read of a document, and of the header of its log if the deletion needs it."""

    path: str

    def load(self, store: Store, attempt: int) -> tuple[Found, Snapshot | None]:  # noqa: ARG002  the same each time
        found = Found.of(store.read(self.path)[0])
        return found, log_header(store, found, None)


def restore(ports: Ports, key: str, reference: Reference, precondition: Precondition = UNCONDITIONAL) -> StoredDocument:
    """Store the content of a version again, as a new version. Its links embed the targets' current content.

    Raises `NotFound` if the version does not exist or is a deletion, and `PreconditionFailed`.
    """
    content = history.read_version(ports, check_key(key), reference).content
    if content is None:
        raise NotFound(f"Document {key!r} did not exist in version {reference}.", field="version")
    return put(ports, PutRequest.from_request(key, content, precondition), "restore")


def _not_found(key: str) -> NotFound:
    return NotFound(f"Document {key!r} does not exist.", field="key")
