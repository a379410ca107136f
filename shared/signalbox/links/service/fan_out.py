"""Fan-out: keep copies up to date after a document has changed.

Firestore's own event is the outbox of a put: every write of a document, by any client, causes an event, which is
delivered to `fan_out` at least once, in any order. Most events end there without a read. The others lead to

    normalize  another client wrote the document: embed its links (`refreshes.py`)
    verify     a put embedded copies: compare them with their targets as they are now
    start      the document's copies elsewhere must follow: a chain of tasks, one for each page of documents

A transform has no event. Its change commits with a task that starts a walk: such a chain over the documents that have
links in its field.

The proof of correctness depends on two rules. A target is marked as linked (`storage.mark_linked`) before its content
is read for a copy, so every later change of it starts a fan-out. And a page reads all inputs of its copies again,
sources and transforms, after it has written (`refreshes.refresh`).
"""

from collections.abc import Iterator, Sequence

from signalbox.core.keys import valid_key
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import DocumentEvent, Ports, Snapshot
from signalbox.core.reads import is_full
from signalbox.documents.machine import links
from signalbox.documents.model import Document, contents_of, path_of
from signalbox.documents.storage import reads
from signalbox.history import service as history
from signalbox.links import machine, storage
from signalbox.links.limits import LIMITS
from signalbox.links.model import wanted_path
from signalbox.links.service import refreshes


def fan_out(ports: Ports, event: DocumentEvent) -> None:
    """Carry out the reaction to one event of a document. Raises `Unavailable` if the event should be redelivered."""
    before, after = Document.from_record(event.before), Document.from_record(event.after)
    if before is not None and before.history is not None and after is None:
        history.note_deletion(ports, event.key, path_of(event.key), before.history)
    if event.partial:
        [snapshot] = ports.store.read(path_of(event.key))
        after = Document.from_record(snapshot.data)
        reaction = machine.react_to_unknown(after)
    else:
        reaction = machine.react(before, after)
    if reaction.normalize:
        refreshes.normalize_or_report(ports, event.key, hops=0)
    can_be_linked = valid_key(event.key)  # another client may have used a key that no link can have
    notes = [wanted_path(event.key)] if reaction.check_wanted_note and can_be_linked else []
    if reaction.verify_targets and after:
        read = verify_copies(ports, event.id, event.key, after, reaction.verify_targets, notes)
    else:
        read = ports.store.read(*notes) if notes else ()
    if (reaction.start_fan_out and can_be_linked) or storage.has_wanted_note(read):
        ports.queue.create([machine.page_task(event.id, event.key)])


def verify_copies(
    ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str], extra_paths: Sequence[str] = ()
) -> Sequence[Snapshot]:
    """Compare the copies that a put embedded with their targets now; enqueue a task for each that differs.

    It enqueues a task and does not write itself, because a redelivery of this event still describes the put, not what
    the first delivery wrote. Returns the records at `extra_paths`, which take no round trip of their own.
    """
    transform_paths = reads.transform_paths([document.content], targets)
    extras: Sequence[Snapshot] = ()
    for read in storage.marked_in_groups(ports, targets, [*transform_paths, *extra_paths]):
        inputs, extras = read[: len(read) - len(extra_paths)], read[len(read) - len(extra_paths) :]
        embedding = reads.embedding_from(inputs)
        for target in embedding.sources:
            refreshed = links.refresh_copies(key, document, embedding.only(target))
            if refreshed is not links.Refresh.UNCHANGED:
                ports.queue.create([machine.copy_task(event_id, target, key)])
    return extras


def refresh_copy(ports: Ports, key: str, document: str) -> None:
    """Refresh one document's copy of a key."""
    linking = ports.store.read(path_of(document))
    inputs = ports.store.read(path_of(key), *refreshes.transform_paths_in(linking, [key]))
    refreshes.refresh(ports, key, linking, inputs)


def refresh_page(ports: Ports, event_id: str, key: str, cursor: str, limit: int = LIMITS.page_copies_first) -> None:
    """Refresh at most `limit` of the documents that embed a key and come after `cursor`.

    The next page is enqueued first: from then on the chain does not depend on this page.
    """
    query = storage.linking_documents(key, cursor, min(limit, LIMITS.page_copies_max))
    page = ports.store.query(query)
    if is_full(query, page):
        copies = storage.next_limit(page)
        ports.queue.create([machine.page_task(event_id, key, page[-1].id, copies)])
    for first in range(0, len(page), LIMITS.group_copies_max):
        group = page[first : first + LIMITS.group_copies_max]
        inputs = storage.mark_linked(ports, [key], refreshes.transform_paths_in(group, [key]))
        refreshes.refresh(ports, key, group, inputs)


def walk_page(ports: Ports, event_id: str, name: str, cursor: str) -> None:
    """Refresh one page of the documents that have links in a transform's field and come after `cursor`."""
    query = storage.documents_with_links(name, cursor)
    page = ports.store.query(query)
    if is_full(query, page):
        ports.queue.create([machine.next_walk_task(event_id, name, page[-1].id)])
    for group, keys in groups_of_walk(page, name):
        for inputs in storage.marked_in_groups(ports, keys, refreshes.transform_paths_in(group, keys)):
            refreshes.refresh(ports, "", group, inputs)


def groups_of_walk(page: Sequence[Snapshot], name: str) -> Iterator[tuple[list[Snapshot], list[str]]]:
    """Iterate over groups of documents whose links in a field have few enough targets to be read at once."""
    group: list[Snapshot] = []
    keys: set[str] = set()
    for snapshot in page:
        more = {key for content in contents_of([snapshot.data]) for key in links.keys_in(content, name)}
        if group and len(keys | more) > CORE_LIMITS.links_max:
            yield group, sorted(keys)
            group, keys = [], set()
        group.append(snapshot)
        keys |= more
    if group:
        yield group, sorted(keys)
