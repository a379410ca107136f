"""Keep copies true: what happens after a document changed.

Firestore's own event is the outbox of a put: every write of a document, whoever made it, arrives at `fan_out`, at
least once and in any order. Most events end there without a read. The rest lead to

    reshape   another client wrote the document: embed what it links to
    verify    a put brought copies in: were the targets still so when it landed?
    pages     the document's copies elsewhere must follow: a chain of tasks, each for one page of documents

Two rules carry the proof. A target is made known (see there) before its content is read for a copy, so no later change
of it goes unnoticed. And a page looks at its source again after it has written (and also when it had nothing to write):
if the source moved, the page starts anew before its task is done, so that no old copy it may have written stays.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from shared.operations.documents import embed, sources
from shared.operations.perform import Writes, pause, perform
from shared.operations.ports import (
    AlreadyExists,
    Change,
    Condition,
    Conflict,
    DocumentEvent,
    Must,
    Outcome,
    Ports,
    Put,
    Query,
    Snapshot,
    Write,
    WriteResult,
)
from shared.rules import documents, links, values
from shared.rules.bounds import GROUP_COPIES_MAX, PAGE_COPIES_BYTES, PAGE_COPIES_FIRST, PAGE_COPIES_MAX, ROUNDS_MAX
from shared.rules.documents import COLLECTION, RESERVED, Content, Document, path_of
from shared.rules.effects import Decision, Effect, name_of
from shared.rules.problems import BadValue, Problem, Unavailable

QUEUE = "links"
LINKERS = (RESERVED, "link_keys")
LINKED = (RESERVED, "linked")
WANTED = "wanted"


def fan_out(ports: Ports, event: DocumentEvent) -> None:
    """Do what one event of a document calls for. Raises `Unavailable` when the event should come again."""
    before, after = documents.decode(event.before), documents.decode(event.after)
    if event.partial:
        [snapshot] = ports.store.read(path_of(event.key))
        after = documents.decode(snapshot.data)
        reaction = links.react_to_unknown(after)
    else:
        reaction = links.react(before, after)
    if reaction.reshape:
        _reshape_or_report(ports, event.key, hops=0)
    if reaction.verify and after:
        verify(ports, event.id, event.key, after, reaction.verify)
    if reaction.pages or (reaction.look and wanted(ports, event.key)):
        hand_on(ports, event.id, {"key": event.key, "cursor": ""})


def wanted(ports: Ports, key: str) -> bool:
    """Tell whether anybody may embed a new document: whoever did so before it was there has left a note."""
    [note] = ports.store.read(wanted_path(key))
    return note.data is not None


def wanted_path(key: str) -> str:
    """Give the place of the note that somebody embeds a key under which nothing lies."""
    return f"{WANTED}/{key}"


def linkers(key: str, after: str, limit: int) -> Query:
    """Ask for the documents that embed a key, by their own keys."""
    return Query(COLLECTION, (Condition(LINKERS, "array_contains", key),), limit=limit, after=(after,) if after else ())


def verify(ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str]) -> None:
    """Compare the copies that a put brought in with their targets as they are now; what differs becomes a task.

    A task, not a write: when this event comes again, it still tells of the put, not of what the first delivery wrote.
    """
    for target, source in make_known(ports, targets).items():
        if links.refresh(key, document, target, documents.content_of(source.data)) is not links.Refresh.UNCHANGED:
            hand_on(ports, event_id, {"key": target, "document": key})


def make_known(ports: Ports, keys: Sequence[str]) -> dict[str, Snapshot]:
    """Let documents know that somebody embeds them; give them as they were read, none of them read before it knew.

    One that exists is marked `linked`, in a commit of its own that is guarded by the read it follows, so that what was
    read is known to have stood under the mark. For one that does not exist a note is left where its creation will look,
    and then it is read again. Most documents know already, and cost one read.
    """
    known: dict[str, Snapshot] = {}
    noted: set[str] = set()
    waiting = list(keys)
    for attempt in range(ROUNDS_MAX):
        read = ports.store.read(*map(path_of, waiting))
        known |= {each.id: each for each in read if _knows(each, noted)}
        told = [each for each in read if each.id not in known]
        outcomes = ports.store.write_each([_word(each) for each in told]) if told else ()
        landed = [each for each, outcome in zip(told, outcomes, strict=True) if _heard(outcome)]
        known |= {each.id: each for each in landed if each.data is not None}
        noted |= {each.id for each in landed if each.data is None}
        waiting = [key for key in waiting if key not in known]
        if not waiting:
            return known
        pause(ports, attempt)
    raise Unavailable("a link's target is written by many at once")


def _knows(snapshot: Snapshot, noted: Container[str]) -> bool:
    document = documents.decode(snapshot.data)
    return snapshot.id in noted if document is None else document.linked is not False


def _word(snapshot: Snapshot) -> Write:
    """Make the write that lets a document, or its creation, know."""
    if snapshot.data is None:
        return Put(wanted_path(snapshot.id), {}, Must.NOT_EXIST)
    return Change(snapshot.path, {LINKED: True}, snapshot.guard)


def _heard(outcome: Outcome) -> bool:
    """Tell whether the word stands: a note may have stood before."""
    return isinstance(outcome, WriteResult | AlreadyExists)


def _unsettled(snapshots: Sequence[Snapshot], outcomes: Sequence[Outcome]) -> list[Snapshot]:
    """List those whose write lost its guard, or is not known to have landed."""
    pairs = zip(snapshots, outcomes, strict=True)
    return [snapshot for snapshot, outcome in pairs if isinstance(outcome, Conflict | Unavailable)]


def hand_on(ports: Ports, event_id: str, work: Mapping[str, str], **beside: int) -> None:
    """Enqueue work for `follow`, named after the event and the work, not what is said beside: once a change or page."""
    name = name_of("links", event_id, *sorted(work.items()))
    payload = {"event": event_id, "work": dict(work), **beside}
    ports.queue.create([Effect(name, QUEUE, "link_refresh", "follow", payload)])


def follow(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Do a task's work: refresh one document's copy of a key, or a page of the documents that embed it.

    Raises `Unavailable` when the task should run again, and `BadValue` when it never could.
    """
    match payload:
        case {"work": {"key": str(key), "document": str(document)}}:
            refresh(ports, key, ports.store.read(path_of(document), path_of(key)))
        case {"event": str(event_id), "work": {"key": str(key), "cursor": str(cursor)}, "copies": int(copies)}:
            page(ports, event_id, key, cursor, copies)
        case {"event": str(event_id), "work": {"key": str(key), "cursor": str(cursor)}}:
            page(ports, event_id, key, cursor)
        case _:
            raise BadValue("This payload is neither a page's nor a document's.")


def page(ports: Ports, event_id: str, key: str, cursor: str, copies: int = PAGE_COPIES_FIRST) -> None:
    """Refresh the documents that embed a key and come after `cursor`, at most so many of them.

    The next page is enqueued first: from then on the chain does not depend on this page.
    """
    copies = min(copies, PAGE_COPIES_MAX)
    found = ports.store.query(linkers(key, cursor, copies))
    if len(found) == copies:
        hand_on(ports, event_id, {"key": key, "cursor": found[-1].id}, copies=copies_after(found))
    for first in range(0, len(found), GROUP_COPIES_MAX):
        refresh(ports, key, (*found[first : first + GROUP_COPIES_MAX], make_known(ports, [key])[key]))


def copies_after(found: Sequence[Snapshot]) -> int:
    """Say how many documents the next page may have, if they are as large as these."""
    filled = sum(values.size_bytes(snapshot.data) for snapshot in found)
    return min(PAGE_COPIES_MAX, PAGE_COPIES_BYTES * len(found) // filled)


def refresh(ports: Ports, key: str, read: Sequence[Snapshot]) -> None:
    """Bring the copies of `key` up to date; the last of `read` is the source, read no earlier than the others.

    Raises `Unavailable` when the source, or who embeds it, did not hold still.
    """
    everyone = [snapshot.path for snapshot in read[:-1]]
    *embedding, source = read
    for attempt in range(ROUNDS_MAX):
        losers = [snapshot.path for snapshot in write_copies(ports, key, embedding, source)]
        *embedding, again = ports.store.read(*losers, source.path)
        if moved_since(source, again):
            *embedding, again = ports.store.read(*everyone, source.path)
        elif not losers:
            return
        source = again
        pause(ports, attempt)
    raise Unavailable("a document and those who embed it are written by many at once")


def moved_since(before: Snapshot, after: Snapshot) -> bool:
    """Tell whether a source's content is another than when it was read."""
    return not links.same_content(documents.decode(before.data), documents.decode(after.data))


def write_copies(ports: Ports, key: str, embedding: Sequence[Snapshot], source: Snapshot) -> list[Snapshot]:
    """Write the copies that differ, each under its own guard; give those that lost theirs.

    What can never be written is reported and left: retrying would not help, and the others must not wait for it.
    """
    document = documents.decode(source.data)
    refreshed = [(snapshot, _refreshed(ports, snapshot, key, document)) for snapshot in embedding]
    writing = [(snapshot, write) for snapshot, write in refreshed if write]
    outcomes = ports.store.write_each([write for _, write in writing]) if writing else ()
    for (snapshot, _), outcome in zip(writing, outcomes, strict=True):
        if isinstance(outcome, Problem):
            ports.log.error("a copy cannot be refreshed", document=snapshot.id, source=key, reason=outcome.detail)
    return _unsettled([snapshot for snapshot, _ in writing], outcomes)


def _refreshed(ports: Ports, snapshot: Snapshot, key: str, source: Document | None) -> Write | None:
    """Give the write that refreshes one document, or None if there is nothing (left) to write."""
    document = documents.decode(snapshot.data)
    if document is None:
        return None
    hops = 1 + documents.hops_of(source)
    content = links.refresh(snapshot.id, document, key, None if source is None else source.content)
    if content is links.Refresh.RESHAPE:
        _reshape_or_report(ports, snapshot.id, hops)
    if isinstance(content, links.Refresh):
        return None
    return embed(snapshot, content, "refresh", linked=links.counts_as_linked(document), hops=hops)


def _reshape_or_report(ports: Ports, key: str, hops: int) -> None:
    try:
        reshape(ports, key, hops)
    except Problem as problem:
        ports.log.error("a document cannot be brought into shape", document=key, reason=problem.detail)


def reshape(ports: Ports, key: str, hops: int = 0, *, by_another: bool = True) -> None:
    """Embed what a document links to, as a put of its present content would. Unchanged, it is not written.

    If it is known to be written `by_another`, or looks so, it counts as linked from here on: whoever wrote it did not
    know of `linked`.
    """
    [found] = ports.store.read(path_of(key))
    document = documents.decode(found.data)
    targets = links.link_keys(document.content) if document else []

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        now = documents.decode(read[0].data)
        if now is None or links.link_keys(now.content) != targets:
            return Decision((), None)  # deleted, or written again: that write's event is on its way
        content = links.shape(key, now.content, sources(targets, read[1:]), hops)
        linked = by_another or not now.in_shape or links.counts_as_linked(now)
        shaped = embed(read[0], content, "put", linked=linked, hops=hops)
        settled = _settled(now, content, linked) and links.well_listed(read[0].data or {}, content)
        return Decision((shaped,) if not settled else (), None)

    perform(ports, [path_of(one) for one in (key, *targets)], decide)


def _settled(document: Document, content: Content, linked: bool) -> bool:
    same = documents.digest(content) == documents.digest(document.content)
    return document.in_shape and same and linked == links.counts_as_linked(document)
