"""Keep copies true: what happens after a document changed.

Firestore's own event is the outbox of a put: every write of a document, whoever made it, arrives at `fan_out`, at
least once and in any order. Most events end there without a read. The rest lead to

    reshape   another client wrote the document: embed what it links to (`link_shapes.py`)
    verify    a put brought copies in: were the targets still so when it landed?
    pages     the document's copies elsewhere must follow: a chain of tasks, each for one page (`link_pages.py`)

A transform has no event. Whoever changes one asks, in the same commit, for a walk: such a chain over the documents that
have links in its field.

Two rules carry the proof. A target is made known (`link_marks.py`) before its content is read for a copy, so no later
change of it goes unnoticed. And a page looks again at all it made copies from, sources and transforms, after it has
written (`link_copies.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.core.operations.ports import DocumentEvent, Ports
from shared.core.rules.problems import BadValue
from shared.documents.operations import embedding
from shared.documents.rules import documents, links
from shared.documents.rules.documents import Document, path_of
from shared.links.operations import (
    copies as link_copies,
)
from shared.links.operations import (
    marks as link_marks,
)
from shared.links.operations import (
    normalization as link_shapes,
)
from shared.links.operations import (
    pages as link_pages,
)
from shared.links.operations import (
    tasks as link_tasks,
)
from shared.links.rules import events as link_events


def fan_out(ports: Ports, event: DocumentEvent) -> None:
    """Do what one event of a document calls for. Raises `Unavailable` when the event should come again."""
    before, after = documents.decode(event.before), documents.decode(event.after)
    if event.partial:
        [snapshot] = ports.store.read(path_of(event.key))
        after = documents.decode(snapshot.data)
        reaction = link_events.react_to_unknown(after)
    else:
        reaction = link_events.react(before, after)
    if reaction.reshape:
        link_shapes.reshape_or_report(ports, event.key, hops=0)
    if reaction.verify and after:
        verify(ports, event.id, event.key, after, reaction.verify)
    if reaction.pages or (reaction.look and link_marks.wanted(ports, event.key)):
        link_tasks.hand_on(ports, event.id, {"key": event.key, "cursor": ""})


def verify(ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str]) -> None:
    """Compare the copies that a put brought in with what they would be made of now; what differs becomes a task.

    A task, not a write: when this event comes again, it still tells of the put, not of what the first delivery wrote.
    """
    now = embedding.given(link_marks.make_known(ports, targets, embedding.transforms_for([document.content], targets)))
    for target in targets:
        if links.refresh(key, document, now.only(target)) is not links.Refresh.UNCHANGED:
            link_tasks.hand_on(ports, event_id, {"key": target, "document": key})


def follow(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Do a task's work: refresh one document's copy of a key, or a page of the documents that embed it.

    Or a page of the documents whose links go through a transform. Raises `Unavailable` when the task should run again,
    and `BadValue` when it never could.
    """
    match payload:
        case {"work": {"key": str(key), "document": str(document)}}:
            found = ports.store.read(path_of(document))
            around = ports.store.read(path_of(key), *link_copies.transforms_of(found, [key]))
            link_copies.refresh(ports, key, found, around)
        case {"event": str(event_id), "work": {"key": str(key), "cursor": str(cursor)}, "copies": int(copies)}:
            link_pages.page(ports, event_id, key, cursor, copies)
        case {"event": str(event_id), "work": {"key": str(key), "cursor": str(cursor)}}:
            link_pages.page(ports, event_id, key, cursor)
        case {"event": str(event_id), "work": {"transform": str(name), "cursor": str(cursor)}}:
            link_pages.walk(ports, event_id, name, cursor)
        case _:
            raise BadValue("This payload is neither a page's nor a document's.")
