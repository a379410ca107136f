"""Keep copies true: what happens after a document changed.

Firestore's own event is the outbox of a put: every write of a document, whoever made it, arrives at `fan_out`, at
least once and in any order. Most events end there without a read. The rest lead to

    reshape   another client wrote the document: embed what it links to
    verify    a put brought copies in: were the targets still so when it landed?
    pages     the document's copies elsewhere must follow: a chain of tasks, each for one page of documents

A transform has no event. Whoever changes one asks, in the same commit, for a walk: such a chain over the documents that
have links in its field.

Two rules carry the proof. A target is made known (see there) before its content is read for a copy, so no later change
of it goes unnoticed. And a page looks again at all it made copies from, sources and transforms, after it has written
(and also when it had nothing to write): if any moved, the page starts anew before its task is done, so that no old copy
it may have written stays.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from shared.operations import embedding
from shared.operations.documents import embed
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
from shared.rules.bounds import (
    GROUP_COPIES_MAX,
    LINKS_MAX,
    PAGE_COPIES_BYTES,
    PAGE_COPIES_FIRST,
    PAGE_COPIES_MAX,
    ROUNDS_MAX,
    WALK_DOCUMENTS_MAX,
)
from shared.rules.copies import Embedding
from shared.rules.documents import COLLECTION, RESERVED, Content, Document, path_of
from shared.rules.effects import Decision, Effect, name_of
from shared.rules.problems import BadValue, Problem, Unavailable

QUEUE = "links"
LINKERS = (RESERVED, "link_keys")
LINK_FIELDS = (RESERVED, "link_fields")
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
    """Compare the copies that a put brought in with what they would be made of now; what differs becomes a task.

    A task, not a write: when this event comes again, it still tells of the put, not of what the first delivery wrote.
    """
    now = embedding.given(make_known(ports, targets, embedding.transforms_for([document.content], targets)))
    for target in targets:
        if links.refresh(key, document, now.only(target)) is not links.Refresh.UNCHANGED:
            hand_on(ports, event_id, {"key": target, "document": key})


def make_known(ports: Ports, keys: Sequence[str], beside: Sequence[str] = ()) -> tuple[Snapshot, ...]:
    """Let documents know that somebody embeds them; give them as they were read, none of them read before it knew.

    What lies under the paths `beside` is read with them, and comes after them.

    One that exists is marked `linked`, in a commit of its own that is guarded by the read it follows, so that what was
    read is known to have stood under the mark. For one that does not exist a note is left where its creation will look,
    and then it is read again. Most documents know already, and cost one read.
    """
    known: dict[str, Snapshot] = {}
    noted: set[str] = set()
    waiting = list(keys)
    (*read,) = ports.store.read(*map(path_of, waiting), *beside)
    others = read[len(keys) :]
    for attempt in range(ROUNDS_MAX):
        read = list(ports.store.read(*map(path_of, waiting))) if attempt else read[: len(keys)]
        known |= {each.id: each for each in read if _knows(each, noted)}
        told = [each for each in read if each.id not in known]
        outcomes = ports.store.write_each([_word(each) for each in told]) if told else ()
        landed = [each for each, outcome in zip(told, outcomes, strict=True) if _heard(outcome)]
        known |= {each.id: each for each in landed if each.data is not None}
        noted |= {each.id for each in landed if each.data is None}
        waiting = [key for key in waiting if key not in known]
        if not waiting:
            return (*(known[key] for key in keys), *others)
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


def _unsettled(paths: Sequence[str], outcomes: Sequence[Outcome]) -> list[str]:
    """List those whose write lost its guard, or is not known to have landed."""
    pairs = zip(paths, outcomes, strict=True)
    return [path for path, outcome in pairs if isinstance(outcome, Conflict | Unavailable)]


def hand_on(ports: Ports, event_id: str, work: Mapping[str, str], **beside: int) -> None:
    """Enqueue work for `follow`."""
    ports.queue.create([task_of(event_id, work, **beside)])


def task_of(event_id: str, work: Mapping[str, str], **beside: int) -> Effect:
    """Make a task for `follow`, named after the event and the work, not what is said beside: once a change or page."""
    name = name_of("links", event_id, *sorted(work.items()))
    return Effect(name, QUEUE, "link_refresh", "follow", {"event": event_id, "work": dict(work), **beside})


def follow(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Do a task's work: refresh one document's copy of a key, or a page of the documents that embed it.

    Or a page of the documents whose links go through a transform. Raises `Unavailable` when the task should run again,
    and `BadValue` when it never could.
    """
    match payload:
        case {"work": {"key": str(key), "document": str(document)}}:
            found = ports.store.read(path_of(document))
            refresh(ports, key, found, ports.store.read(path_of(key), *_transforms(found, [key])))
        case {"event": str(event_id), "work": {"key": str(key), "cursor": str(cursor)}, "copies": int(copies)}:
            page(ports, event_id, key, cursor, copies)
        case {"event": str(event_id), "work": {"key": str(key), "cursor": str(cursor)}}:
            page(ports, event_id, key, cursor)
        case {"event": str(event_id), "work": {"transform": str(name), "cursor": str(cursor)}}:
            walk(ports, event_id, name, cursor)
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
        group = found[first : first + GROUP_COPIES_MAX]
        refresh(ports, key, group, make_known(ports, [key], _transforms(group, [key])))


def copies_after(found: Sequence[Snapshot]) -> int:
    """Say how many documents the next page may have, if they are as large as these."""
    filled = sum(values.size_bytes(snapshot.data) for snapshot in found)
    return min(PAGE_COPIES_MAX, PAGE_COPIES_BYTES * len(found) // filled)


def walk(ports: Ports, event_id: str, name: str, cursor: str) -> None:
    """Refresh the documents that have links in a transform's field and come after `cursor`, one page of them."""
    holders = Condition(LINK_FIELDS, "array_contains", name)
    after = (cursor,) if cursor else ()
    found = ports.store.query(Query(COLLECTION, (holders,), limit=WALK_DOCUMENTS_MAX, after=after))
    if len(found) == WALK_DOCUMENTS_MAX:
        hand_on(ports, event_id, {"transform": name, "cursor": found[-1].id})
    for some, keys in _groups(found, name):
        refresh(ports, "", some, make_known(ports, keys, _transforms(some, keys)))


def _groups(found: Sequence[Snapshot], name: str) -> Iterator[tuple[list[Snapshot], list[str]]]:
    """Put documents together as long as their links in a field go to few enough targets to be read at once."""
    group: list[Snapshot] = []
    keys: set[str] = set()
    for snapshot in found:
        more = {key for content in _contents([snapshot]) for key in links.keys_in(content, name)}
        if group and len(keys | more) > LINKS_MAX:
            yield group, sorted(keys)
            group, keys = [], set()
        group.append(snapshot)
        keys |= more
    if group:
        yield group, sorted(keys)


def _transforms(found: Sequence[Snapshot], keys: Sequence[str]) -> list[str]:
    return embedding.transforms_for(_contents(found), keys)


def _contents(found: Sequence[Snapshot]) -> list[Content]:
    return [content for snapshot in found if (content := documents.content_of(snapshot.data)) is not None]


def refresh(ports: Ports, key: str, linking: Sequence[Snapshot], around: Sequence[Snapshot]) -> None:
    """Bring copies up to date with what they are made from: `around`, read no earlier than the documents.

    ``key`` names the source that moved; it is empty if a transform did. Then the documents may embed each other, and
    what was written here of one is no reason to start anew: it has its own event. Raises `Unavailable` when what was
    read did not hold still.
    """
    everyone = [snapshot.path for snapshot in linking]
    beside = [snapshot.path for snapshot in around]
    hops = 1 + (_hops(around[:1]) if key else 0)
    for attempt in range(ROUNDS_MAX):
        losers, own = write_copies(ports, key, linking, around, hops)
        linking, again = _read_both(ports, losers, beside)
        if moved := [one for one in moved_since(around, again) if (one.path, one.update_time) not in own]:
            linking, again = _read_both(ports, everyone, beside)
            hops = 1 + _hops(again[:1] if key else moved)
        elif not losers:
            return
        around = again
        pause(ports, attempt)
    raise Unavailable("a document and those who embed it are written by many at once")


def _read_both(ports: Ports, ones: Sequence[str], others: Sequence[str]) -> tuple[Sequence[Snapshot], ...]:
    read = ports.store.read(*ones, *others)
    return read[: len(ones)], read[len(ones) :]


moved_since = embedding.moved


def write_copies(
    ports: Ports, key: str, linking: Sequence[Snapshot], around: Sequence[Snapshot], hops: int
) -> tuple[list[str], set[tuple[str, datetime | None]]]:
    """Write the copies that differ, each under its own guard; give those that lost theirs, and when the others landed.

    What can never be written is reported and left: retrying would not help, and the others must not wait for it.
    """
    now = embedding.given(around)
    refreshed = [(snapshot, _refreshed(ports, snapshot, now, hops)) for snapshot in linking]
    writing = [(snapshot, write) for snapshot, write in refreshed if write]
    outcomes = ports.store.write_each([write for _, write in writing]) if writing else ()
    for (snapshot, _), outcome in zip(writing, outcomes, strict=True):
        if isinstance(outcome, Problem):
            ports.log.error("a copy cannot be refreshed", document=snapshot.id, source=key, reason=outcome.detail)
    paths = [snapshot.path for snapshot, _ in writing]
    landed = {
        (path, one.update_time) for path, one in zip(paths, outcomes, strict=True) if isinstance(one, WriteResult)
    }
    return _unsettled(paths, outcomes), landed


def _hops(moved: Sequence[Snapshot]) -> int:
    """Say over how many links the farthest of some changes has come; that of a transform has come over none."""
    read = (documents.decode(one.data) for one in moved if one.path.startswith(f"{COLLECTION}/"))
    return max(map(documents.hops_of, read), default=0)


def _refreshed(ports: Ports, snapshot: Snapshot, now: Embedding, hops: int) -> Write | None:
    """Give the write that refreshes one document, or None if there is nothing (left) to write."""
    document = documents.decode(snapshot.data)
    if document is None:
        return None
    content = links.refresh(snapshot.id, document, now, hops)
    if content is links.Refresh.RESHAPE:
        _reshape_or_report(ports, snapshot.id, hops)
    if isinstance(content, links.Refresh):
        return None
    _report_failures(ports, snapshot.id, content)
    return embed(snapshot, content, "refresh", linked=links.counts_as_linked(document), hops=hops)


def _report_failures(ports: Ports, key: str, content: Content) -> None:
    for field in links.failed_fields(content):
        ports.log.error("a transform makes no object", document=key, field=field)


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
    content = documents.content_of(found.data)
    needed = embedding.needs(content) if content is not None else []

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Content]:
        now = documents.decode(read[0].data)
        if now is None or embedding.needs(now.content) != needed:
            return Decision((), {})  # deleted, or written again: that write's event is on its way
        shaped = links.shape(key, now.content, embedding.given(read[1:]), hops, refuse=False)
        linked = by_another or not now.in_shape or links.counts_as_linked(now)
        if _settled(now, shaped, linked) and links.well_listed(read[0].data or {}, shaped):
            return Decision((), {})
        return Decision((embed(read[0], shaped, "put", linked=linked, hops=hops),), shaped)

    shaped, _ = perform(ports, [path_of(key), *needed], decide)
    _report_failures(ports, key, shaped)


def _settled(document: Document, content: Content, linked: bool) -> bool:
    same = documents.digest(content) == documents.digest(document.content)
    return document.in_shape and same and linked == links.counts_as_linked(document)
