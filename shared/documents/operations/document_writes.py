"""The one way to make a document's guarded write, and the document as callers see it once that write has landed.

Where the catalogue asks for a history, the versions that a write makes are writes of the same commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.core.operations import outbox
from shared.core.operations.ports import Conflict, Delete, Must, Outcome, Ports, Put, Snapshot, Write
from shared.core.rules.effects import Effect
from shared.core.rules.problems import Problem, Unavailable
from shared.documents.operations.follow_ups import follow_up
from shared.documents.operations.stored_documents import StoredDocument, tag_of_stamp
from shared.documents.rules import documents, links
from shared.documents.rules.documents import Author, Content, Document
from shared.history.rules import entries, versions
from shared.history.rules.authors import AUTHOR
from shared.history.rules.entries import Action, Mark
from shared.history.rules.selection import HISTORY, HistoryRule
from shared.history.rules.versions import Recorded, State


@dataclass(frozen=True, slots=True)
class DocumentWrite:
    """A write, guarded by the read it follows; the content it stores, and that as callers see it.

    ``versions`` are written with it, ``effects`` committed with it: none, unless its event is so large that it may not
    arrive, or a history is to be shortened.
    """

    write: Put
    content: Content
    stored: StoredDocument
    effects: tuple[Effect, ...] = ()
    versions: tuple[Write, ...] = ()

    @property
    def writes(self) -> tuple[Write, ...]:
        """Return all that is written, the document first."""
        return (self.write, *self.versions)


@dataclass(frozen=True, slots=True)
class Deletion:
    """The writes and effects of a deletion."""

    writes: tuple[Write, ...]
    effects: tuple[Effect, ...]


def put_write(
    snapshot: Snapshot, embedded: Content, action: Action = "put", header: Snapshot | None = None
) -> DocumentWrite:
    """Return the write by which a user replaces what was read. Raises a `Problem` for what cannot be stored.

    `header` is that of the document's log, if it needs it (`goes_on_from_header`).
    """
    linked = documents.linked_after_put(Document.from_record(snapshot.data))
    return document_write(snapshot, embedded, "put", linked=linked, action=action, header=header)


def goes_on_from_header(snapshot: Snapshot, content: Content | None) -> bool:
    """Return whether a write of `content` (None: a deletion) needs the header of a log: the document has no mark."""
    if not HISTORY.rules or (snapshot.data is None and content is None):
        return False
    before = Document.from_record(snapshot.data)
    if before is not None and before.history is not None:
        return False
    return HISTORY.rule_of(snapshot.id, before.content if before else None, content) is not None


def document_write(
    snapshot: Snapshot,
    content: Content,
    author: Author,
    *,
    linked: bool,
    hops: int = 0,
    action: Action = "put",
    header: Snapshot | None = None,
) -> DocumentWrite:
    """Return the write that replaces what was read by `content`, whose links are embedded already.

    Raises `TooLarge` when no record can hold it.
    """
    before = Document.from_record(snapshot.data)
    after = documents.stamped(before, content, author, snapshot.read_time, linked=linked, hops=hops)
    stamp = after.stamp
    assert stamp is not None, "stamped above"
    recorded = Recorded(mark=after.history)
    if author == "put":
        rule = HISTORY.rule_of(snapshot.id, before.content if before else None, content)
        recorded = _recorded(snapshot, before, links.bare(content), action, rule, header) if rule else Recorded()
        after = replace(after, history=recorded.mark)
    record = after.to_record(links.link_keys(content), links.link_fields(content))
    json = documents.to_json(snapshot.id, content)
    stored = StoredDocument(json, tag_of_stamp(stamp), created=before is None)
    effects = (*follow_up(snapshot, record), *versions.compaction_task(snapshot.id, recorded))
    write = Put(snapshot.path, record, snapshot.guard)
    return DocumentWrite(write, content, stored, effects, version_writes(snapshot.id, recorded, header))


def deletion(snapshot: Snapshot, header: Snapshot | None = None) -> Deletion:
    """Return what deletes a document that was read and exists, under the guard of that read.

    `header` is that of the document's log, if it needs it (`goes_on_from_header`).
    """
    before, write = Document.from_record(snapshot.data), Delete(snapshot.path, snapshot.guard)
    rule = HISTORY.rule_of(snapshot.id, before.content if before else None)
    if rule is None:
        return Deletion((write,), follow_up(snapshot, None))
    recorded = _recorded(snapshot, before, None, "delete", rule, header)
    assert recorded.mark, "a deletion is a version"
    kept = recorded.mark.in_header().to_record()
    last = () if header else (Put(entries.header_path(snapshot.id), kept),)
    writes = (write, *version_writes(snapshot.id, recorded, header), *last)
    return Deletion(writes, (*follow_up(snapshot, None), *versions.compaction_task(snapshot.id, recorded)))


def _recorded(
    snapshot: Snapshot,
    before: Document | None,
    after: Content | None,
    action: Action,
    rule: HistoryRule,
    header: Snapshot | None = None,
) -> Recorded:
    mark = before.history if before else None
    assert mark or header, "what has no mark goes on from the header"
    mark = mark or Mark.from_record(header and header.data)
    content = links.bare(before.content) if before else None
    state = State(content, mark, snapshot.update_time, snapshot.read_time)
    return versions.record(state, after, action, AUTHOR.get(), rule)


def version_writes(key: str, recorded: Recorded, header: Snapshot | None = None) -> tuple[Write, ...]:
    """Return the writes of new versions, of which none may be there, and of the header that they go on from."""
    collection = entries.collection_of(key)
    writes = [
        Put(f"{collection}/{entries.id_of(entry.version)}", entry.to_record(), Must.NOT_EXIST)
        for entry in recorded.entries
    ]
    if header is not None and recorded.mark is not None:
        writes.append(Put(header.path, recorded.mark.in_header().to_record(), header.guard))
    return tuple(writes)


def write_each(ports: Ports, made: Sequence[DocumentWrite]) -> tuple[Outcome, ...]:
    """Write documents, each on its own; return their outcomes in order. Those with more to write take a commit each."""
    together = [each.write for each in made if not _has_more(each)]
    outcomes = iter(ports.store.write_each(together) if together else ())
    return tuple(_committed(ports, each) if _has_more(each) else next(outcomes) for each in made)


def _has_more(made: DocumentWrite) -> bool:
    return bool(made.effects or made.versions)


def _committed(ports: Ports, made: DocumentWrite) -> Outcome:
    try:
        return outbox.commit(ports, made.writes, made.effects).results[0]
    except (Conflict, Problem, Unavailable) as error:
        return error
