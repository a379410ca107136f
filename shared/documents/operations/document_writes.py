"""The one way to make a document's guarded write, and the document as callers see it once that write has landed."""

from dataclasses import dataclass

from shared.core.operations.ports import Put, Snapshot
from shared.documents.operations.stored_documents import StoredDocument, tag_of_stamp
from shared.documents.rules import documents, links
from shared.documents.rules.documents import Author, Content, Document


@dataclass(frozen=True, slots=True)
class DocumentWrite:
    """A write, guarded by the read it follows; the content it stores, and that as callers see it."""

    write: Put
    content: Content
    stored: StoredDocument


def put_write(snapshot: Snapshot, embedded: Content) -> DocumentWrite:
    """Return the write by which a user replaces what was read. Raises a `Problem` for what cannot be stored."""
    linked = documents.linked_after_put(Document.from_record(snapshot.data))
    return document_write(snapshot, embedded, "put", linked=linked)


def document_write(
    snapshot: Snapshot, content: Content, author: Author, *, linked: bool, hops: int = 0
) -> DocumentWrite:
    """Return the write that replaces what was read by `content`, whose links are embedded already.

    Raises `TooLarge` when no record can hold it.
    """
    before = Document.from_record(snapshot.data)
    after = documents.stamped(before, content, author, snapshot.read_time, linked=linked, hops=hops)
    assert after.stamp is not None, "stamped above"
    record = after.to_record(links.link_keys(content), links.link_fields(content))
    json = documents.to_json(snapshot.id, content)
    stored = StoredDocument(json, tag_of_stamp(after.stamp), created=before is None)
    return DocumentWrite(Put(snapshot.path, record, snapshot.guard), content, stored)
