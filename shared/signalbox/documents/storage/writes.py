"""The guarded writes of a document: its replacement, its deletion, and the other writes and tasks of the same commit.

All operations that write documents make their writes here. Each write is guarded by the read that it is made from. If
the catalogue declares a history, the new versions are writes of the same commit. If the document is so large that the
event of the write may not arrive, the commit contains a task that does the work of the event (`follow_up`). The task
may run in addition to the event.

If only the kit writes documents, writes have no events. The commit contains the tasks that the event would cause, and
for a new document the guard that no document wants it: then the write is lost, and the next attempt reads the note.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from signalbox.core import outbox
from signalbox.core.authors import AUTHOR
from signalbox.core.effects import Effect, name_of
from signalbox.core.kit_names import LINK_REFRESH, LINKS_QUEUE
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.ports import Conflict, Delete, Must, Outcome, Ports, Put, Snapshot, Write
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.times import microseconds
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine import reactions
from signalbox.documents.machine.reactions import WRITERS
from signalbox.documents.model import stamped_contents
from signalbox.documents.model.contents import Content, Surveyed
from signalbox.documents.model.stamped_contents import (
    RESERVED,
    Author,
    Document,
    StoredDocument,
    counts_as_linked,
    document_json,
    wanted_path,
)
from signalbox.documents.storage.records import Found
from signalbox.history import model as history_model
from signalbox.history.machine import kept_versions as history
from signalbox.history.machine.kept_versions import Recorded, State
from signalbox.history.model import HISTORY, Action, HistoryRule, Mark


@dataclass(frozen=True, slots=True)
class DocumentWrite:
    """A guarded write of a document, with the other writes and the tasks of its commit."""

    write: Put
    content: Surveyed
    """The content that is written."""
    stored: StoredDocument
    """The document as callers see it after the commit."""
    size_bytes: int
    """The size of the names and values that are written."""
    effects: tuple[Effect, ...] = ()
    """Tasks. There are some only if the write has no event, if its event may be too large to arrive, or if versions are
    to be deleted.
    """
    versions: tuple[Write, ...] = ()
    """Writes of versions, in the same commit."""
    guards: tuple[Write, ...] = ()
    """Preconditions that write nothing."""

    @property
    def writes(self) -> tuple[Write, ...]:
        """All writes, the document first."""
        return (self.write, *self.versions, *self.guards)


@dataclass(frozen=True, slots=True)
class Deletion:
    """The writes and effects of a deletion."""

    writes: tuple[Write, ...]
    effects: tuple[Effect, ...]


def put_write(
    before: Found, embedded: Surveyed, action: Action = "put", header: Snapshot | None = None
) -> DocumentWrite:
    """Return the write by which a user replaces the document as read.

    Raises a `Problem` if the content cannot be stored. `header` is the header of the document's log, if the write needs
    it (`records.needs_header`).
    """
    linked = counts_as_linked(before.document) or before.wanted
    return document_write(before, embedded, "put", linked=linked, action=action, header=header)


def document_write(
    before: Found,
    content: Surveyed,
    author: Author,
    *,
    linked: bool,
    hops: int = 0,
    action: Action = "put",
    header: Snapshot | None = None,
) -> DocumentWrite:
    """Return the write that replaces the document as read with `content`.

    The content already has the copies of its links. Raises `TooLarge` if no record can contain it.
    """
    read, document = before.record, before.document
    after = stamped_contents.stamped(document, content, author, read.read_time, linked=linked, hops=hops)
    assert after.stamp is not None, "stamped above"
    etag, recorded = after.stamp.etag, Recorded(mark=after.history)
    if author == "put":
        rule = HISTORY.rule_of(before.key, before.content, content.content)
        recorded = _recorded(before, content.bare().content, action, rule, header) if rule else Recorded()
        after = replace(after, history=recorded.mark)
    record = after.to_record()
    stored = StoredDocument(document_json(before.key, content.content), etag, created=document is None)
    effects = (*_link_tasks(before, after, record), *history.compaction_task(before.key, recorded))
    write = Put(read.path, record, read.guard)
    versions = version_writes(before.key, recorded, header)
    return DocumentWrite(write, content, stored, after.record_bytes(record), effects, versions, unwanted_guard(before))


def deletion(before: Found, header: Snapshot | None = None) -> Deletion:
    """Return the writes that delete an existing document, guarded by its read.

    `header` is the header of the document's log, if the deletion needs it (`records.needs_header`).
    """
    write = Delete(before.record.path, before.record.guard)
    rule = HISTORY.rule_of(before.key, before.content)
    tasks = _link_tasks(before, None, None)
    if rule is None:
        return Deletion((write, *_end_of_log(before)), tasks)
    recorded = _recorded(before, None, "delete", rule, header)
    assert recorded.mark, "a deletion is a version"
    kept = recorded.mark.in_header().to_record()
    last = () if header else (Put(history_model.header_path(before.key), kept),)
    writes = (write, *version_writes(before.key, recorded, header), *last)
    return Deletion(writes, (*tasks, *history.compaction_task(before.key, recorded)))


def _end_of_log(before: Found) -> tuple[Write, ...]:
    """Return the writes that record a deletion in a log that is no longer kept.

    There are none if documents have events, since the deletion's event records it.
    """
    mark = before.document.history if before.document else None
    if mark is None or not WRITERS.only_the_kit:
        return ()
    recorded = history.ended_elsewhere(mark)
    assert recorded.mark, "the log continues from its mark"
    header = Put(history_model.header_path(before.key), recorded.mark.in_header().to_record())
    return (*version_writes(before.key, recorded), header)


def _recorded(
    before: Found, after: Content | None, action: Action, rule: HistoryRule, header: Snapshot | None
) -> Recorded:
    document, read = before.document, before.record
    mark = document.history if document else None
    assert mark or header, "a log whose document has no mark continues from its header"
    mark = mark or Mark.from_record(header and header.data)
    content = document.surveyed.bare().content if document else None
    read_time = max(read.read_time, header.read_time) if header and document is None else read.read_time
    state = State(content, mark, read.update_time, read_time)
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


def _link_tasks(before: Found, after: Document | None, record: Mapping[str, Any] | None) -> tuple[Effect, ...]:
    """Return the tasks of a write that leaves `after`, stored as `record`, or of a deletion."""
    if not WRITERS.only_the_kit:
        return follow_up(before.record, record)
    return own_tasks(before, after, record)


def own_tasks(before: Found, after: Document | None, record: Mapping[str, Any] | None) -> tuple[Effect, ...]:
    """Return the tasks that follow from a write, if it has no event."""
    reaction = reactions.react_to_own_write(before.document, after, whole=before.whole)
    return reactions.reaction_tasks(_event_id(before.record, record), before.key, reaction)


def unwanted_guard(before: Found) -> tuple[Write, ...]:
    """Return the guard which ensures that no document embeds the key of a new document."""
    if before.document is not None or not WRITERS.only_the_kit:
        return ()
    return (Delete(wanted_path(before.key), None if before.wanted else Must.NOT_EXIST),)


def _event_id(before: Snapshot, after: Mapping[str, Any] | None) -> str:
    """Return an id of the write that leaves `after`, or of a deletion.

    No other write of any document has the same id.
    """
    version = "deleted" if after is None else after[RESERVED]["version"]
    replaced = "" if before.update_time is None else microseconds(before.update_time)
    return name_of("follow up", before.path, replaced, version)


def follow_up(before: Snapshot, after: Mapping[str, Any] | None) -> tuple[Effect, ...]:
    """Return the tasks of the write that leaves `after`, or of a deletion. A small document needs no tasks.

    The task does the same as an event without data.
    """
    if not (after and "large" in after[RESERVED]) and not stamped_contents.is_large(before.data):
        return ()
    event_id = _event_id(before, after)
    payload = {"event": event_id, "work": {"written": before.id}}
    return (Effect(name_of("links", event_id), LINKS_QUEUE, LINK_REFRESH, "written", payload),)


def write_each(ports: Ports, made: Sequence[DocumentWrite]) -> tuple[Outcome, ...]:
    """Write each document separately, and return the outcomes in order.

    Documents without versions, effects and guards share one call. Every other document takes a commit. If only the kit
    writes documents, most of them have effects or guards; then they are committed in groups.
    """
    together = [each.write for each in made if not _has_more(each)]
    outcomes = iter(ports.store.write_each(together) if together else ())
    rest = [each for each in made if _has_more(each)]
    groups = _groups(rest) if WRITERS.only_the_kit else ([each] for each in rest)
    committed = iter([outcome for group in groups for outcome in _committed_group(ports, group)])
    return tuple(next(committed) if _has_more(each) else next(outcomes) for each in made)


def _has_more(made: DocumentWrite) -> bool:
    return bool(made.effects or made.versions or made.guards)


def _groups(made: Sequence[DocumentWrite]) -> Iterator[list[DocumentWrite]]:
    """Iterate over groups of writes that one commit may contain."""
    group: list[DocumentWrite] = []
    total = 0
    for each in made:
        is_full = len(group) == LIMITS.commit_documents_max or total + each.size_bytes > LIMITS.commit_bytes_max
        if group and is_full:
            yield group
            group, total = [], 0
        group.append(each)
        total += each.size_bytes
    if group:
        yield group


def _committed_group(ports: Ports, group: Sequence[DocumentWrite]) -> list[Outcome]:
    """Commit some documents together. If the commit fails because of one document, commit each separately."""
    if len(group) == 1:
        return [_committed(ports, group[0])]
    writes = [write for each in group for write in each.writes]
    try:
        results = outbox.commit(ports, writes, [effect for each in group for effect in each.effects]).results
    except (Conflict, Problem):
        return [_committed(ports, each) for each in group]
    except Unavailable as error:
        return [error for _ in group]
    firsts = accumulate((len(each.writes) for each in group[:-1]), initial=0)
    return [results[first] for first in firsts]


def _committed(ports: Ports, made: DocumentWrite) -> Outcome:
    try:
        return outbox.commit(ports, made.writes, made.effects).results[0]
    except (Conflict, Problem, Unavailable) as error:
        return error
