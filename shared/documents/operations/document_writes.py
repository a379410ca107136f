"""The one way to make a document's guarded write, and the document as callers see it once that write has landed."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.core.operations import outbox
from shared.core.operations.ports import Conflict, Outcome, Ports, Put, Snapshot
from shared.core.rules.effects import Effect
from shared.core.rules.problems import Problem, Unavailable
from shared.documents.operations.follow_ups import follow_up
from shared.documents.operations.stored_documents import StoredDocument, tag_of_stamp
from shared.documents.rules import documents, links
from shared.documents.rules.documents import Author, Content, Document


@dataclass(frozen=True, slots=True)
class DocumentWrite:
    """A write, guarded by the read it follows; the content it stores, and that as callers see it.

    ``effects`` are to be committed with it: none, unless its event is so large that it may not arrive.
    """

    write: Put
    content: Content
    stored: StoredDocument
    effects: tuple[Effect, ...] = ()


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
    return DocumentWrite(Put(snapshot.path, record, snapshot.guard), content, stored, follow_up(snapshot, record))


def write_each(ports: Ports, made: Sequence[DocumentWrite]) -> tuple[Outcome, ...]:
    """Write documents, each on its own; return their outcomes in order. Those with effects take a commit each."""
    together = [each.write for each in made if not each.effects]
    outcomes = iter(ports.store.write_each(together) if together else ())
    return tuple(_committed(ports, each) if each.effects else next(outcomes) for each in made)


def _committed(ports: Ports, made: DocumentWrite) -> Outcome:
    try:
        return outbox.commit(ports, [made.write], made.effects).results[0]
    except (Conflict, Problem, Unavailable) as error:
        return error
