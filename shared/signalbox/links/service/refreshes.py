"""Keep copies up to date after a document has changed: fan-out, refresh of copies, normalization.

Firestore's own event is the outbox of a put: every write of a document, by any client, causes an event, which is
delivered to `fan_out` at least once, in any order. Most events end there without a read. The others lead to

    normalize  another client wrote the document: store what a put of its present content would have stored
    verify a put embedded copies: compare them with the present targets
    start      the document's copies elsewhere must follow: a chain of tasks, one for each page of documents

A transform has no event. Its change commits with a task that starts a walk: such a chain over the documents that have
links in its field.

A refresh replaces copies under the guards of their documents. After it has written, or if it had nothing to write, it
reads all inputs of its copies again, sources and transforms. If any of them has changed, it starts over before its
task is acknowledged. So it leaves no stale copy that it may have written.

The proof of correctness depends on two rules. A target is marked as linked (`storage.mark_linked`) before its content
is read for a copy, so every later change of it starts a fan-out. And a page reads all inputs of its copies again after
it has written (`refresh`).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime

from signalbox.core.effects import Decision
from signalbox.core.keys import valid_key
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import Writes, pause, perform
from signalbox.core.ports import Conflict, DocumentEvent, Ports, Snapshot, WriteResult, is_full
from signalbox.core.problems import Problem, Unavailable
from signalbox.documents.machine import links, reactions
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.model import stamped_contents as documents
from signalbox.documents.model.contents import Surveyed
from signalbox.documents.model.stamped_contents import COLLECTION, Document, contents_of, hops_of, path_of, wanted_path
from signalbox.documents.service.dependents import delete_late_dependent
from signalbox.documents.storage import embedded_copies
from signalbox.documents.storage.embedded_copies import DocumentRead, Loaded
from signalbox.documents.storage.records import Found
from signalbox.documents.storage.writes import DocumentWrite, document_write, write_each
from signalbox.history import service as history
from signalbox.links import machine, storage
from signalbox.links.limits import LIMITS

NOTHING = Surveyed({})
"""The content of a document that does not exist."""

Landed = set[tuple[str, datetime | None]]
"""Paths of writes, and the times of their commits."""


# --- normalize ---


def normalize_or_report(ports: Ports, key: str, hops: int, *, by_another: bool = True) -> bool:
    """Normalize a document, and return whether that succeeded.

    A permanent error is logged and not raised, since a retry would not help.
    """
    try:
        normalize(ports, key, hops, by_another=by_another)
    except Problem as problem:
        report_refusal(ports, key, problem)
        return False
    return True


def report_refusal(ports: Ports, key: str, problem: Problem) -> None:
    """Log why a document cannot be normalized."""
    ports.log.error("document normalization rejected", document=key, reason=problem.detail)


def normalize(ports: Ports, key: str, hops: int = 0, *, by_another: bool = True) -> bool:
    """Embed the links of a document, as a put of its present content would; return whether anything was written.

    If another client wrote the document (`by_another`), or seems to have written it, the document counts as linked from
    now on: that client did not keep `linked`.
    """
    document = Document.from_record(ports.store.read(path_of(key))[0].data)
    paths = embedded_copies.input_paths(document.surveyed) if document else []

    def decide(read: Loaded) -> Decision[Writes, Surveyed]:
        now = read.own.document
        if now is None or embedded_copies.input_paths(now.surveyed) != paths:
            return Decision((), NOTHING)  # deleted, or written again: the event of that write follows
        embedded = read.embed(now.surveyed, hops, refuse=False)
        was_linked = documents.counts_as_linked(now)
        linked = by_another or not now.stamp_matches or was_linked
        is_stored = now.stamp_matches and embedded.digest == now.surveyed.digest and linked == was_linked
        if is_stored and links.link_index_matches(read.own.record.data or {}, embedded):
            return Decision((), NOTHING)
        made = document_write(read.own, embedded, "put", linked=linked, hops=hops, header=read.header)
        return Decision(made.writes, embedded, made.effects)

    def content_of(own: Found) -> Surveyed:
        return own.document.surveyed if own.document else NOTHING

    reading = DocumentRead(key, paths, content_of, hops, refuse=False)
    embedded, committed = perform(ports, reading, decide)
    report_failures(ports, key, embedded)
    return committed is not None


def report_failures(ports: Ports, key: str, content: Surveyed) -> None:
    """Log the places where the output of a transform is not an object."""
    for field in links.failed_fields(content):
        ports.log.error("transform output is not an object", document=key, field=field)


# --- refresh ---


def transform_paths_in(linking: Sequence[Snapshot], keys: Sequence[str]) -> list[str]:
    """Return the paths of the transforms that apply to copies of these keys in these documents."""
    contents = contents_of(snapshot.data for snapshot in linking)
    return embedded_copies.transform_paths(contents, keys)


def refresh(
    ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot], *, timed: bool = False
) -> None:
    """Refresh the copies in some documents from `inputs`, which were read no earlier than the documents.

    `key` is the source that changed. It is empty if a transform changed: then the documents may embed each other, and a
    write of this call is not a reason to start over, since it has its own event.

    Documents that do not fit into memory with the inputs are refreshed in further groups. A group counts as an attempt
    if no fewer documents are left after it. If `timed`, the line of the request has `copy_seconds`: the seconds from
    the source's write to that of the last copy. Raises `Unavailable` if the inputs keep changing.
    """
    first = inputs
    left = _refresh(ports, key, linking, inputs, 1 + (_hops(inputs[:1]) if key else 0), timed)
    attempt = 0
    while left:
        inputs, linking, unread = storage.read_both(ports, [record.path for record in first], left)
        changed = [now for then, now in zip(first, inputs, strict=True) if then.update_time != now.update_time]
        again = _refresh(ports, key, linking, inputs, 1 + _hops(inputs[:1] if key else changed), timed)
        if len(unread) + len(again) >= len(left):
            storage.pause_or_give_up(ports, attempt)
            attempt += 1
        left = [*unread, *again]


def _refresh(
    ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot], hops: int, timed: bool
) -> list[str]:
    """Refresh documents as `refresh` does. Return the documents that have become too large to be read together."""
    paths = [snapshot.path for snapshot in linking]
    input_paths = [snapshot.path for snapshot in inputs]
    left: list[str] = []
    for attempt in range(CORE_LIMITS.rounds_max):
        waiting, own = write_copies(ports, key, linking, inputs, hops)
        times = [time for _, time in own if time is not None]
        if timed and times and (written_at := inputs[0].update_time) is not None:
            ports.log.note(copy_seconds=(max(times) - written_at).total_seconds())
        again, linking, unread = storage.read_both(ports, input_paths, waiting)
        changed = [
            now for now in embedded_copies.changed_inputs(inputs, again) if (now.path, now.update_time) not in own
        ]
        if changed:
            again, linking, unread = storage.read_both(ports, input_paths, paths)
            hops = 1 + _hops(again[:1] if key else changed)
        elif not waiting:
            return left
        left, paths = left + unread, [path for path in paths if path not in unread]
        inputs = again
        pause(ports, attempt)
    raise Unavailable("a document and those that embed it are written by many clients at once")


def _hops(changed: Sequence[Snapshot]) -> int:
    """Return the largest hop count of some changes. The hop count of a transform's change is 0."""
    read = (Document.from_record(record.data) for record in changed if record.path.startswith(f"{COLLECTION}/"))
    return max(map(hops_of, read), default=0)


def write_copies(
    ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot], hops: int
) -> tuple[list[str], Landed]:
    """Write the copies that differ, in groups that fit into memory. Each document is written under its own guard.

    Return the documents that lost their guard or whose write may not have been committed. Also return the commits. A
    permanent error is logged, and the copies that the store refuses are replaced by marks. A retry would not help, and
    the other documents must not wait for it.
    """
    embedding = embedded_copies.embedding_from(inputs)
    losers: list[str] = []
    landed: Landed = set()
    waiting = deque(linking)
    while waiting:
        group: dict[str, DocumentWrite] = {}
        group_bytes = 0
        while waiting and group_bytes < CORE_LIMITS.read_bytes_max:
            snapshot = waiting.popleft()
            if (made := refreshed(ports, snapshot, embedding, hops)) is not None:
                group[snapshot.path] = made
                group_bytes += made.size_bytes
        refused = []
        for path, outcome in zip(group, write_each(ports, list(group.values())), strict=True):
            if isinstance(outcome, WriteResult):
                landed.add((path, outcome.update_time))
            elif isinstance(outcome, Problem):
                refused.append(path)
                name = path.rpartition("/")[2]
                ports.log.error("copy refresh rejected", document=name, source=key, reason=outcome.detail)
            else:
                losers.append(path)
        if refused:
            _mark_refused(ports, [snapshot for snapshot in linking if snapshot.path in refused], embedding, hops)
    return losers, landed


def refreshed(ports: Ports, snapshot: Snapshot, embedding: Embedding, hops: int) -> DocumentWrite | None:
    """Return the write that refreshes one document, or None if nothing is left to write."""
    found = Found.of(snapshot)
    if found.document is None:
        return None
    content = links.refresh_copies(found.key, found.document, embedding, hops)
    if content is links.Refresh.NORMALIZE:
        normalize_or_report(ports, found.key, hops)
    if isinstance(content, links.Refresh):
        return None
    report_failures(ports, found.key, content)
    linked = documents.counts_as_linked(found.document)
    return document_write(found, content, "refresh", linked=linked, hops=hops)


def _mark_refused(ports: Ports, refused: Sequence[Snapshot], embedding: Embedding, hops: int) -> None:
    """Replace the copies that the store refuses by marks, so that no old copy stays. Raises `Unavailable`."""
    marking = []
    for found in map(Found.of, refused):
        assert found.document is not None, "it has just been refreshed"
        content = links.mark_copies(found.document.surveyed, embedding)
        linked = documents.counts_as_linked(found.document)
        with suppress(Problem):  # the store would refuse the marks also
            marking.append(document_write(found, content, "refresh", linked=linked, hops=hops))
    if any(isinstance(outcome, Conflict | Unavailable) for outcome in write_each(ports, marking)):
        raise Unavailable("a document whose copies are refused was written meanwhile")


# --- fan-out ---


def fan_out(ports: Ports, event: DocumentEvent) -> None:
    """Carry out the reaction to one event of a document. Raises `Unavailable` if the event should be redelivered."""
    before, after = Document.from_record(event.before), Document.from_record(event.after)
    if before is not None and before.history is not None and after is None:
        history.note_deletion(ports, event.key, path_of(event.key), before.history)
    if event.partial:
        [snapshot] = ports.store.read(path_of(event.key))
        after = Document.from_record(snapshot.data)
        reaction = reactions.react_to_unknown(after)
    else:
        reaction = reactions.react(before, after)
    if reaction.normalize:
        normalize_or_report(ports, event.key, hops=0)
    can_be_linked = valid_key(event.key)  # another client may have used a key that no link can have
    notes = [wanted_path(event.key)] if reaction.check_wanted_note and can_be_linked else []
    if reaction.verify_targets and after:
        read = verify_copies(ports, event.id, event.key, after, reaction.verify_targets, notes)
    else:
        read = ports.store.read(*notes) if notes else ()
    if (reaction.start_fan_out and can_be_linked) or storage.has_wanted_note(read):
        ports.queue.create([reactions.page_task(event.id, event.key)])


def verify_written(ports: Ports, event_id: str, key: str, targets: Sequence[str]) -> None:
    """Compare the copies of `targets`, which a put changed, with the present targets.

    This is the check after a put that has no event. The document is compared as it is now: a later write that changed a
    copy has its own task. If another client has written the document since, the document is normalized.
    """
    document = Document.from_record(ports.store.read(path_of(key))[0].data)
    if document is None:
        return
    if not document.stamp_matches:
        normalize_or_report(ports, key, hops=0)
        return
    if compared := [target for target in targets if target in document.surveyed.link_keys]:
        verify_copies(ports, event_id, key, document, compared)


def verify_copies(
    ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str], extra_paths: Sequence[str] = ()
) -> Sequence[Snapshot]:
    """Compare the copies that a put embedded with the present targets; enqueue a task for each copy that differs.

    It does not write the copies itself, because a redelivery of this event would still describe the put and not the
    writes of the first delivery. Returns the records at `extra_paths`, which are read in the same round trip.
    """
    transform_paths = embedded_copies.transform_paths([document.surveyed], targets)
    extras: Sequence[Snapshot] = ()
    for read in storage.marked_in_groups(ports, targets, [*transform_paths, *extra_paths]):
        inputs, extras = read[: len(read) - len(extra_paths)], read[len(read) - len(extra_paths) :]
        embedding = embedded_copies.embedding_from(inputs)
        for target in embedding.sources:
            refreshed = links.refresh_copies(key, document, embedding.only(target))
            if refreshed is not links.Refresh.UNCHANGED:
                ports.queue.create([machine.copy_task(event_id, target, key)])
    return extras


def refresh_copy(ports: Ports, key: str, document: str) -> None:
    """Refresh one document's copy of a key.

    Delete the document instead if it depends on that key and was put too late.
    """
    linking = ports.store.read(path_of(document))
    inputs = ports.store.read(path_of(key), *transform_paths_in(linking, [key]))
    if inputs[0].data is None and delete_late_dependent(ports, linking[0], key):
        return
    refresh(ports, key, linking, inputs)


def refresh_page(ports: Ports, event_id: str, key: str, cursor: str, limit: int = LIMITS.page_copies_first) -> None:
    """Refresh at most `limit` of the documents that embed a key and come after `cursor`.

    The next page is enqueued first: from then on the chain does not depend on this page.
    """
    query = storage.linking_documents(key, cursor, min(limit, LIMITS.page_copies_max))
    page = ports.store.query(query)
    if is_full(query, page):
        copies = storage.next_limit(page)
        ports.queue.create([reactions.page_task(event_id, key, page[-1].id, copies)])
    for first in range(0, len(page), LIMITS.group_copies_max):
        group = page[first : first + LIMITS.group_copies_max]
        inputs = storage.mark_linked(ports, [key], transform_paths_in(group, [key]))
        refresh(ports, key, group, inputs, timed=True)


def walk_page(ports: Ports, event_id: str, name: str, cursor: str) -> None:
    """Refresh one page of the documents that have links in a transform's field and come after `cursor`."""
    query = storage.documents_with_links(name, cursor)
    page = ports.store.query(query)
    if is_full(query, page):
        ports.queue.create([machine.next_walk_task(event_id, name, page[-1].id)])
    for group, keys in groups_of_walk(page, name):
        for inputs in storage.marked_in_groups(ports, keys, transform_paths_in(group, keys)):
            refresh(ports, "", group, inputs)


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
