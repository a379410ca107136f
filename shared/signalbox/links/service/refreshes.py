"""Refresh copies in documents, and normalize documents.

A refresh replaces copies under the guards of their documents. After it has written, or if it had nothing to write, it
reads all inputs of its copies again, sources and transforms. If any of them has changed, it starts over before its
task is acknowledged. So it leaves no stale copy that it may have written.

To normalize a document is to store what a put of its present content would have stored.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from signalbox.core.effects import Decision
from signalbox.core.limits import LIMITS
from signalbox.core.perform import Writes, pause, perform
from signalbox.core.ports import Conflict, Outcome, Ports, Snapshot, WriteResult
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.record_values import map_bytes
from signalbox.documents import model as documents
from signalbox.documents.machine import links
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.model import COLLECTION, Content, Document, digest_of, hops_of, path_of
from signalbox.documents.storage import reads
from signalbox.documents.storage.reads import DocumentRead, Found, Loaded
from signalbox.documents.storage.writes import DocumentWrite, document_write, write_each

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
    paths = reads.input_paths(found.content) if found.content is not None else []

    def decide(read: Loaded) -> Decision[Writes, Content]:
        now = read.own.document
        if now is None or reads.input_paths(now.content) != paths:
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
    return reads.transform_paths(contents, keys)


def refresh(ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot]) -> None:
    """Refresh the copies in some documents from `inputs`, which were read no earlier than the documents.

    `key` is the source that changed; it is empty if a transform changed. Then the documents may embed each other, and a
    write of this call is not a reason to start over: that write has its own event. Raises `Unavailable` if the inputs
    keep changing.
    """
    first = inputs
    left = _refresh(ports, key, linking, inputs, 1 + (_hops(inputs[:1]) if key else 0))
    while left:
        inputs, linking = _read_both(ports, [record.path for record in first], left)
        changed = [now for then, now in zip(first, inputs, strict=True) if then.update_time != now.update_time]
        unread = _unread(left, linking)
        left = [*unread, *_refresh(ports, key, linking, inputs, 1 + _hops(inputs[:1] if key else changed))]


def _refresh(ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot], hops: int) -> list[str]:
    """Refresh documents as `refresh` does; return those that have become too large to be read together."""
    paths = [snapshot.path for snapshot in linking]
    input_paths = [snapshot.path for snapshot in inputs]
    left: list[str] = []
    for attempt in range(LIMITS.rounds_max):
        waiting, own = write_copies(ports, key, linking, inputs, hops)
        again, linking = _read_both(ports, input_paths, waiting)
        changed = [now for now in reads.changed_inputs(inputs, again) if (now.path, now.update_time) not in own]
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


def _read_both(ports: Ports, inputs: Sequence[str], linking: Sequence[str]) -> tuple[Sequence[Snapshot], ...]:
    """Read inputs, and as many documents as fit into memory."""
    read = ports.store.read_some(inputs, linking, LIMITS.read_bytes_max)
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
    embedding = reads.embedding_from(inputs)
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
        if total >= LIMITS.read_bytes_max:
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
