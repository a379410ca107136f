"""Keep copies up to date after a document has changed: fan-out, refresh of copies, normalization.

Firestore's own event is the outbox of a put: every write of a document, by any client, causes an event, which is
delivered to `fan_out` at least once, in any order. Most events end there without a read. The others lead to

    normalize  another client wrote the document: store what a put of its present content would have stored
    verify     a put embedded copies: compare them with their targets as they are now
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

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from signalbox.core.effects import Decision
from signalbox.core.keys import valid_key
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import Writes, pause, perform
from signalbox.core.ports import Conflict, DocumentEvent, Outcome, Ports, Snapshot, WriteResult, is_full
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.record_values import map_bytes
from signalbox.documents.machine import links, reactions
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.model import stamped_contents as documents
from signalbox.documents.model.stamped_contents import (
    COLLECTION,
    Content,
    Document,
    contents_of,
    digest_of,
    hops_of,
    path_of,
    wanted_path,
)
from signalbox.documents.service.dependents import delete_late_dependent
from signalbox.documents.storage import embedded_copies
from signalbox.documents.storage.embedded_copies import DocumentRead, Loaded
from signalbox.documents.storage.records import Found
from signalbox.documents.storage.writes import DocumentWrite, document_write, write_each
from signalbox.history import service as history
from signalbox.links import machine, storage
from signalbox.links.limits import LIMITS

Landed = set[tuple[str, datetime | None]]
"""Paths of writes, and the times of their commits."""


# --- normalize ---


def normalize_or_report(ports: Ports, key: str, hops: int, *, by_another: bool = True) -> bool:
    """Normalize a document; log a permanent error, since a retry would not help. Return whether it is normalized."""
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
    found = Found.of(ports.store.read(path_of(key))[0])
    paths = embedded_copies.input_paths(found.content) if found.content is not None else []

    def decide(read: Loaded) -> Decision[Writes, Content]:
        now = read.own.document
        if now is None or embedded_copies.input_paths(now.content) != paths:
            return Decision((), {})  # deleted, or written again: the event of that write follows
        embedded = read.embed(now.content, hops, refuse=False)
        linked = by_another or not now.stamp_matches or documents.counts_as_linked(now)
        if _is_stored(now, embedded, linked) and links.link_index_matches(read.own.record.data or {}, embedded):
            return Decision((), {})
        made = document_write(read.own, embedded, "put", linked=linked, hops=hops, header=read.header)
        return Decision(made.writes, embedded, made.effects)

    reading = DocumentRead(key, paths, lambda own: own.content or {}, hops, refuse=False)
    embedded, committed = perform(ports, reading, decide)
    report_failures(ports, key, embedded)
    return committed is not None


def _is_stored(document: Document, content: Content, linked: bool) -> bool:
    same = digest_of(content) == digest_of(document.content)
    return document.stamp_matches and same and linked == documents.counts_as_linked(document)


def report_failures(ports: Ports, key: str, content: Content) -> None:
    """Log the places where the output of a transform is not an object."""
    for field in links.failed_fields(content):
        ports.log.error("transform output is not an object", document=key, field=field)


# --- refresh ---


def transform_paths_in(linking: Sequence[Snapshot], keys: Sequence[str]) -> list[str]:
    """Return the paths of the transforms that apply to copies of these keys in these documents."""
    contents = documents.contents_of(snapshot.data for snapshot in linking)
    return embedded_copies.transform_paths(contents, keys)


def refresh(
    ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot], *, timed: bool = False
) -> None:
    """Refresh the copies in some documents from `inputs`, which were read no earlier than the documents.

    `key` is the source that changed; it is empty if a transform changed. Then the documents may embed each other, and a
    write of this call is not a reason to start over: that write has its own event. Raises `Unavailable` if the inputs
    keep changing. Documents that do not fit into memory with the inputs are refreshed in further groups; a group after
    which no fewer documents are left counts as an attempt. If `timed`, the line of the request has the seconds from the
    source's write to that of the last copy, as `copy_seconds`.
    """
    first = inputs
    left = _refresh(ports, key, linking, inputs, 1 + (_hops(inputs[:1]) if key else 0), timed)
    attempt = 0
    while left:
        inputs, linking = _read_both(ports, [record.path for record in first], left)
        changed = [now for then, now in zip(first, inputs, strict=True) if then.update_time != now.update_time]
        unread = _unread(left, linking)
        again = _refresh(ports, key, linking, inputs, 1 + _hops(inputs[:1] if key else changed), timed)
        if len(unread) + len(again) >= len(left):
            _count_attempt(ports, attempt)
            attempt += 1
        left = [*unread, *again]


def _count_attempt(ports: Ports, attempt: int) -> None:
    """Sleep before the next attempt. Raises `Unavailable` after the last one."""
    if attempt >= CORE_LIMITS.rounds_max:
        raise Unavailable("documents that embed a changed one are written by many clients at once")
    pause(ports, attempt)


def _refresh(
    ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot], hops: int, timed: bool
) -> list[str]:
    """Refresh documents as `refresh` does; return those that have become too large to be read together."""
    paths = [snapshot.path for snapshot in linking]
    input_paths = [snapshot.path for snapshot in inputs]
    left: list[str] = []
    for attempt in range(CORE_LIMITS.rounds_max):
        waiting, own = write_copies(ports, key, linking, inputs, hops)
        if timed:
            _note_age(ports, inputs[0], own)
        again, linking = _read_both(ports, input_paths, waiting)
        changed = [
            now for now in embedded_copies.changed_inputs(inputs, again) if (now.path, now.update_time) not in own
        ]
        if changed:
            waiting = paths
            again, linking = _read_both(ports, input_paths, waiting)
            hops = 1 + _hops(again[:1] if key else changed)
        elif not waiting:
            return left
        unread = _unread(waiting, linking)
        left, paths = left + unread, [path for path in paths if path not in unread]
        inputs = again
        pause(ports, attempt)
    raise Unavailable("a document and those that embed it are written by many clients at once")


def _note_age(ports: Ports, source: Snapshot, landed: Landed) -> None:
    """Note the seconds from the write of a source to that of the last of its copies that were written."""
    times = [time for _, time in landed if time is not None]
    if times and source.update_time is not None:
        ports.log.note(copy_seconds=(max(times) - source.update_time).total_seconds())


def _read_both(ports: Ports, inputs: Sequence[str], linking: Sequence[str]) -> tuple[Sequence[Snapshot], ...]:
    """Read inputs, and as many documents as fit into memory. A document may also be one of the inputs."""
    read = ports.store.read_some(inputs, linking, CORE_LIMITS.read_bytes_max)
    return read[: len(inputs)], read[len(inputs) :]


def _unread(paths: Sequence[str], read: Sequence[Snapshot]) -> list[str]:
    found = {snapshot.path for snapshot in read}
    return [path for path in paths if path not in found]


def write_copies(
    ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot], hops: int
) -> tuple[list[str], Landed]:
    """Write the copies that differ, each document under its own guard; return those that lost it, and the commits.

    A permanent error is logged, and the copies that the store refuses are replaced by marks. A retry would not help,
    and the other documents must not wait for it.
    """
    embedding = embedded_copies.embedding_from(inputs)
    losers: list[str] = []
    landed: Landed = set()
    for made in _in_groups(_refreshed(ports, snapshot, embedding, hops) for snapshot in linking):
        paths = [write.write.path for write in made]
        outcomes = write_each(ports, made)
        for path, outcome in zip(paths, outcomes, strict=True):
            if isinstance(outcome, Problem):
                name = path.rpartition("/")[2]
                ports.log.error("copy refresh rejected", document=name, source=key, reason=outcome.detail)
        refused = {path for path, outcome in zip(paths, outcomes, strict=True) if isinstance(outcome, Problem)}
        if refused:
            _mark_refused(ports, [snapshot for snapshot in linking if snapshot.path in refused], embedding, hops)
        losers += _losers(paths, outcomes)
        pairs = zip(paths, outcomes, strict=True)
        landed |= {(path, outcome.update_time) for path, outcome in pairs if isinstance(outcome, WriteResult)}
    return losers, landed


def _mark_refused(ports: Ports, refused: Sequence[Snapshot], embedding: Embedding, hops: int) -> None:
    """Replace the copies that the store refuses by marks, so that no old copy stays. Raises `Unavailable`."""
    marking = [made for snapshot in refused if (made := _marks(Found.of(snapshot), embedding, hops)) is not None]
    outcomes = write_each(ports, marking)
    if any(isinstance(outcome, Conflict | Unavailable) for outcome in outcomes):
        raise Unavailable("a document whose copies are refused was written meanwhile")


def _marks(found: Found, embedding: Embedding, hops: int) -> DocumentWrite | None:
    """Return the write that puts marks in place of copies, or None if it would be refused too."""
    assert found.document is not None, "it has just been refreshed"
    try:
        content = links.mark_copies(found.document.content, embedding)
        linked = documents.counts_as_linked(found.document)
        return document_write(found, content, "refresh", linked=linked, hops=hops)
    except Problem:
        return None


def _in_groups(made: Iterable[DocumentWrite | None]) -> Iterator[list[DocumentWrite]]:
    """Iterate over groups of the writes that are not None, of a size that fits into memory."""
    group: list[DocumentWrite] = []
    total = 0
    for write in made:
        if write is not None:
            group.append(write)
            total += map_bytes(write.write.data)
        if total >= CORE_LIMITS.read_bytes_max:
            yield group
            group, total = [], 0
    if group:
        yield group


def _losers(paths: Sequence[str], outcomes: Sequence[Outcome]) -> list[str]:
    """Return the paths whose write lost its guard, or may not have been committed."""
    pairs = zip(paths, outcomes, strict=True)
    return [path for path, outcome in pairs if isinstance(outcome, Conflict | Unavailable)]


def _hops(changed: Sequence[Snapshot]) -> int:
    """Return the largest hop count of some changes. That of a transform is 0."""
    read = (Document.from_record(record.data) for record in changed if record.path.startswith(f"{COLLECTION}/"))
    return max(map(hops_of, read), default=0)


def _refreshed(ports: Ports, snapshot: Snapshot, embedding: Embedding, hops: int) -> DocumentWrite | None:
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
    """Compare copies that a put changed, those of `targets`, with their targets now; for a put that has no event.

    The document is compared as it is now: a later write that changed a copy has a task of its own. If another client
    has written it since, it is normalized.
    """
    document = Document.from_record(ports.store.read(path_of(key))[0].data)
    if document is None:
        return
    if not document.stamp_matches:
        normalize_or_report(ports, key, hops=0)
        return
    embedded = set(links.link_keys(document.content))
    if compared := [target for target in targets if target in embedded]:
        verify_copies(ports, event_id, key, document, compared)


def verify_copies(
    ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str], extra_paths: Sequence[str] = ()
) -> Sequence[Snapshot]:
    """Compare the copies that a put embedded with their targets now; enqueue a task for each that differs.

    It enqueues a task and does not write itself, because a redelivery of this event still describes the put, not what
    the first delivery wrote. Returns the records at `extra_paths`, which take no round trip of their own.
    """
    transform_paths = embedded_copies.transform_paths([document.content], targets)
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
    """Refresh one document's copy of a key, or delete the document if it depends on that key and came too late."""
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
