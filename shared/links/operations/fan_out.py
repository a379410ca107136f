"""Fan-out: keep copies up to date after a document has changed.

Firestore's own event is the outbox of a put: every write of a document, by any client, arrives at `fan_out`, at least
once and in any order. Most events end there without a read. The rest lead to

    normalize  another client wrote the document: embed what it links to (`normalization.py`)
    verify     a put brought in copies: were their targets unchanged when it landed?
    pages      the document's copies elsewhere must follow: a chain of tasks, one a page (`fan_out_pages.py`)

A transform has no event. A change of one commits with a task that starts a walk: such a chain over the documents that
have links in its field.

Two rules carry the correctness proof. A target is marked as linked (`marks.py`) before its content is read for a copy,
so no later change of it goes unnoticed. And a page reads all inputs of its copies again, sources and transforms, after
it has written (`copies.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.core.operations.ports import DocumentEvent, Ports, Snapshot
from shared.core.rules import keys
from shared.core.rules.problems import BadValue
from shared.documents.operations import link_inputs
from shared.documents.rules import refreshes
from shared.documents.rules.documents import COLLECTION, Document, path_of
from shared.history.operations import compaction
from shared.links.operations import copies, fan_out_pages, marks, normalization, tasks
from shared.links.rules import events


def fan_out(ports: Ports, event: DocumentEvent) -> None:
    """Carry out the reaction to one event of a document. Raises `Unavailable` when the event should be redelivered."""
    before, after = Document.from_record(event.before), Document.from_record(event.after)
    if before is not None and before.history is not None and after is None:
        compaction.note_deletion(ports, event.key, path_of(event.key), before.history)
    if event.partial:
        [snapshot] = ports.store.read(path_of(event.key))
        after = Document.from_record(snapshot.data)
        reaction = events.react_to_unknown(after)
    else:
        reaction = events.react(before, after)
    if reaction.normalize:
        normalization.normalize_or_report(ports, event.key, hops=0)
    can_be_linked = keys.valid_key(event.key)  # another client may have given a key that no link can have
    notes = [marks.wanted_path(event.key)] if reaction.check_wanted_note and can_be_linked else []
    if reaction.verify_targets and after:
        read = verify_copies(ports, event.id, event.key, after, reaction.verify_targets, notes)
    else:
        read = ports.store.read(*notes) if notes else ()
    if (reaction.start_fan_out and can_be_linked) or marks.has_wanted_note(read):
        tasks.enqueue(ports, event.id, {"key": event.key, "cursor": ""})


def verify_copies(
    ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str], extra_paths: Sequence[str] = ()
) -> Sequence[Snapshot]:
    """Compare the copies that a put brought in with their targets now; enqueue a task for each that differs.

    A task, not a write: a redelivery of this event still describes the put, not what the first delivery wrote. Returns
    the records at `extra_paths`, which cost no round trip of their own.
    """
    transform_paths = link_inputs.transform_paths([document.content], targets)
    extras: Sequence[Snapshot] = ()
    for read in marks.marked_in_groups(ports, targets, [*transform_paths, *extra_paths]):
        inputs, extras = read[: len(read) - len(extra_paths)], read[len(read) - len(extra_paths) :]
        embedding = link_inputs.embedding_from(inputs)
        for target in embedding.sources:
            refreshed = refreshes.refresh_copies(key, document, embedding.only(target))
            if refreshed is not refreshes.Refresh.UNCHANGED:
                tasks.enqueue(ports, event_id, {"key": target, "document": key})
    return extras


def run_link_task(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Refresh one document's copy of a key, or a page of the documents that embed a key or use a transform.

    Or carry out the reaction to a write of a large document, as to an event of it that came without its data, or
    shorten a history.

    Raises `Unavailable` (transient: retry), or `BadValue` for a payload that is invalid.
    """
    match payload:
        case {"work": {"compact": str(_), **bounds} as work} if bounds:
            compaction.run(ports, work)
        case {"event": str(event_id), "work": {"written": str(key)}}:
            fan_out(ports, DocumentEvent(event_id, COLLECTION, key, path_of(key), None, None))
        case {"work": {"key": str(key), "document": str(document)}}:
            found = ports.store.read(path_of(document))
            inputs = ports.store.read(path_of(key), *copies.transform_paths(found, [key]))
            copies.refresh(ports, key, found, inputs)
        case {"event": str(event_id), "work": {"key": str(key), "cursor": str(cursor)}, "copies": int(limit)}:
            fan_out_pages.refresh_page(ports, event_id, key, cursor, limit)
        case {"event": str(event_id), "work": {"key": str(key), "cursor": str(cursor)}}:
            fan_out_pages.refresh_page(ports, event_id, key, cursor)
        case {"event": str(event_id), "work": {"transform": str(name), "cursor": str(cursor)}}:
            fan_out_pages.walk_page(ports, event_id, name, cursor)
        case _:
            raise BadValue("Invalid payload of a link task.")
