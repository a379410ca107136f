"""The guarded writes of a document: its replacement, its deletion, and what is committed with them.

All operations that write documents make their writes here. Each write is guarded by the read that it is made from. If
the catalogue declares a history, the new versions are writes of the same commit. If the document is so large that the
event of the write may not arrive, the commit contains a task that does what the event would call for (`follow_up`). The
task may run in addition to the event.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from signalbox.core import outbox
from signalbox.core.effects import Effect, name_of
from signalbox.core.identity import AUTHOR
from signalbox.core.names import LINK_REFRESH, LINKS_QUEUE
from signalbox.core.ports import Conflict, Delete, Must, Outcome, Ports, Put, Snapshot, Write
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.times import microseconds
from signalbox.documents import model
from signalbox.documents.machine.links import bare, link_fields, link_keys
from signalbox.documents.model import RESERVED, Author, Content, StoredDocument, document_json
from signalbox.documents.storage.reads import Found
from signalbox.history import machine as history
from signalbox.history import model as history_model
from signalbox.history.machine import Recorded, State
from signalbox.history.model import HISTORY, Action, HistoryRule, Mark


@dataclass(frozen=True, slots=True)
class DocumentWrite:
    """A guarded write, the content that it stores, and the document as callers see it after the commit.

    `versions` are written in the same commit, `effects` are committed with it. There are no effects unless the write's
    event is so large that it may not arrive, or a history is to be shortened.
    """

    write: Put
    content: Content
    stored: StoredDocument
    effects: tuple[Effect, ...] = ()
    versions: tuple[Write, ...] = ()

    @property
    def writes(self) -> tuple[Write, ...]:
        """All writes, the document first."""
        return (self.write, *self.versions)


@dataclass(frozen=True, slots=True)
class Deletion:
    """The writes and effects of a deletion."""

    writes: tuple[Write, ...]
    effects: tuple[Effect, ...]


def put_write(
    before: Found, embedded: Content, action: Action = "put", header: Snapshot | None = None
) -> DocumentWrite:
    """Return the write by which a user replaces what was read. Raises a `Problem` if the content cannot be stored.

    `header` is that of the document's log, if the write needs it (`reads.needs_header`).
    """
    linked = model.linked_after_put(before.document)
    return document_write(before, embedded, "put", linked=linked, action=action, header=header)


def document_write(
    before: Found,
    content: Content,
    author: Author,
    *,
    linked: bool,
    hops: int = 0,
    action: Action = "put",
    header: Snapshot | None = None,
) -> DocumentWrite:
    """Return the write that replaces what was read by `content`, which already contains the copies of its links.

    Raises `TooLarge` if no record can contain it.
    """
    read, document = before.record, before.document
    after = model.stamped(document, content, author, read.read_time, linked=linked, hops=hops)
    assert after.stamp is not None, "stamped above"
    etag, recorded = after.stamp.etag, Recorded(mark=after.history)
    if author == "put":
        rule = HISTORY.rule_of(before.key, before.content, content)
        recorded = _recorded(before, bare(content), action, rule, header) if rule else Recorded()
        after = replace(after, history=recorded.mark)
    record = after.to_record(link_keys(content), link_fields(content))
    stored = StoredDocument(document_json(before.key, content), etag, created=document is None)
    effects = (*follow_up(read, record), *history.compaction_task(before.key, recorded))
    write = Put(read.path, record, read.guard)
    return DocumentWrite(write, content, stored, effects, version_writes(before.key, recorded, header))


def deletion(before: Found, header: Snapshot | None = None) -> Deletion:
    """Return the writes that delete an existing document, guarded by its read.

    `header` is that of the document's log, if the deletion needs it (`reads.needs_header`).
    """
    write = Delete(before.record.path, before.record.guard)
    rule = HISTORY.rule_of(before.key, before.content)
    if rule is None:
        return Deletion((write,), follow_up(before.record, None))
    recorded = _recorded(before, None, "delete", rule, header)
    assert recorded.mark, "a deletion is a version"
    kept = recorded.mark.in_header().to_record()
    last = () if header else (Put(history_model.header_path(before.key), kept),)
    writes = (write, *version_writes(before.key, recorded, header), *last)
    return Deletion(writes, (*follow_up(before.record, None), *history.compaction_task(before.key, recorded)))


def _recorded(
    before: Found, after: Content | None, action: Action, rule: HistoryRule, header: Snapshot | None
) -> Recorded:
    document, read = before.document, before.record
    mark = document.history if document else None
    assert mark or header, "a log whose document has no mark continues from its header"
    mark = mark or Mark.from_record(header and header.data)
    content = bare(document.content) if document else None
    state = State(content, mark, read.update_time, read.read_time)
    return history.record(state, after, action, AUTHOR.get(), rule)


def version_writes(key: str, recorded: Recorded, header: Snapshot | None = None) -> tuple[Write, ...]:
    """Return the writes of new versions, which must not exist, and of the header that they continue from."""
    collection = history_model.collection_of(key)
    writes = [
        Put(path, data, Must.NOT_EXIST)
        for entry in recorded.entries
        for path, data in entry.to_records(f"{collection}/{history_model.id_of(entry.version)}").items()
    ]
    if header is not None and recorded.mark is not None:
        writes.append(Put(header.path, recorded.mark.in_header().to_record(), header.guard))
    return tuple(writes)


def follow_up(before: Snapshot, after: Mapping[str, Any] | None) -> tuple[Effect, ...]:
    """Return the tasks of the write that leaves `after`, or of a deletion. A small document needs none.

    The task does what an event without data calls for.
    """
    if not model.is_large(before.data) and not model.is_large(after):
        return ()
    version = "deleted" if after is None else after[RESERVED]["version"]
    replaced = "" if before.update_time is None else microseconds(before.update_time)
    event_id = name_of("follow up", before.path, replaced, version)
    payload = {"event": event_id, "work": {"written": before.id}}
    return (Effect(name_of("links", event_id), LINKS_QUEUE, LINK_REFRESH, "written", payload),)


def write_each(ports: Ports, made: Sequence[DocumentWrite]) -> tuple[Outcome, ...]:
    """Write each document on its own, and return the outcomes in order.

    A document with versions or effects takes a commit, all others take one call together.
    """
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
