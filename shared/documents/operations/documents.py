"""Put, get, delete and find documents.

A put reads the document, its links' targets and the transforms of their fields at one instant, embeds them, and commits
under its own guard. It writes no other record: copies elsewhere are refreshed by the event that this write causes (see
`shared/links/operations/fan_out.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Delete, Must, Ports, Query, RecordMissing, Snapshot, Store
from shared.core.operations.record_sizes import is_full
from shared.core.rules import keys
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NotFound, TooLarge
from shared.documents.operations import link_inputs
from shared.documents.operations.document_reads import DocumentRead, Loaded, log_header, read_whole
from shared.documents.operations.document_writes import deletion, put_write
from shared.documents.operations.stored_documents import StoredDocument, check_precondition
from shared.documents.rules.documents import COLLECTION, Content, path_of
from shared.documents.rules.preconditions import UNCONDITIONAL, Precondition
from shared.documents.rules.queries import CountRequest, FindRequest
from shared.documents.rules.requests import PutRequest
from shared.history.rules.entries import Action
from shared.history.rules.selection import HISTORY


def put(ports: Ports, request: PutRequest, action: Action = "put") -> StoredDocument:
    """Store a document, replacing what its key held. Raises a `Problem` for what cannot be stored."""

    def decide(read: Loaded) -> Decision[Writes, StoredDocument]:
        check_precondition(request.precondition, read.own)
        made = put_write(read.own, read.embed(request.content), action, read.header)
        return Decision(made.writes, made.stored, made.effects)

    inputs = link_inputs.input_paths(request.content)
    return perform(ports, DocumentRead(request.key, inputs, lambda _: request.content), decide)[0]


def get(ports: Ports, key: str) -> StoredDocument:
    """Return a document. Raises `NotFound`."""
    [snapshot] = ports.store.read(path_of(keys.check_key(key)))
    if snapshot.data is None:
        raise _not_found(key)
    return StoredDocument.from_snapshot(snapshot)


def get_many(ports: Ports, wanted: Sequence[str]) -> dict[str, StoredDocument | None]:
    """Return documents by their keys, as of one instant; None where there is none. Raises `TooLarge`."""
    paths = [path_of(keys.check_key(key)) for key in dict.fromkeys(wanted)]
    if len(paths) > LIMITS.bulk_puts_max:
        raise TooLarge(f"One call returns at most {LIMITS.bulk_puts_max:,} documents; these are {len(paths):,}.")
    read = read_whole(ports.store, paths)
    return {one.id: None if one.data is None else StoredDocument.from_snapshot(one) for one in read}


def delete(ports: Ports, key: str, precondition: Precondition = UNCONDITIONAL) -> None:
    """Delete a document; its copies elsewhere become `link_missing`. Raises `NotFound` and `PreconditionFailed`.

    Without a precondition it is deleted unread. So if it was so large that this event does not arrive, its copies wait
    for the nightly verification; with one, also `If-Match: *`, the commit holds the task that the event would start.
    A document that may have a history is read first: the deletion is a version.
    """
    path = path_of(keys.check_key(key))
    if precondition != UNCONDITIONAL or HISTORY.may_apply(key):
        _delete_if(ports, path, precondition)
        return
    try:
        ports.store.commit([Delete(path, Must.EXIST)])
    except RecordMissing as conflict:
        raise _not_found(key) from conflict


def _delete_if(ports: Ports, path: str, precondition: Precondition) -> None:
    def decide(read: tuple[Snapshot, Snapshot | None]) -> Decision[Writes, None]:
        found, header = read
        if found.data is None:
            raise _not_found(found.id)
        check_precondition(precondition, found)
        made = deletion(found, header)
        return Decision(made.writes, None, made.effects)

    perform(ports, _DeletionRead(path), decide)


@dataclass(frozen=True, slots=True)
class _DeletionRead:
    """Reads a document, and the header of its log if its deletion needs it."""

    path: str

    def load(self, store: Store, attempt: int) -> tuple[Snapshot, Snapshot | None]:  # noqa: ARG002  as in each attempt
        [found] = store.read(self.path)
        return found, log_header(store, found, None)


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """One page of a query; `next_page_token` is empty on the last."""

    documents: list[Content]
    next_page_token: str = ""


def find(ports: Ports, request: FindRequest) -> DocumentPage:
    """Return a page of the documents that hold or embed what the request asks for, at most `LIMITS.read_bytes_max`."""
    query = Query(COLLECTION, request.where, request.order_by, request.limit, request.after, LIMITS.read_bytes_max)
    page = ports.store.query(query)
    token = request.page_token(page[-1].id, page[-1].data or {}) if is_full(query, page) else ""
    return DocumentPage([StoredDocument.from_snapshot(one).document for one in page], token)


def count(ports: Ports, request: CountRequest) -> int:
    """Return the number of documents that meet the request's conditions."""
    return ports.store.count(Query(COLLECTION, request.where))


def _not_found(key: str) -> NotFound:
    return NotFound(f"Document {key!r} does not exist.", field="key")
