"""Refresh copies under the guards of their documents, until the inputs of the copies have not changed meanwhile.

After it has written, and also when it had nothing to write, a refresh reads all inputs of its copies again, sources and
transforms. If any has changed, it starts over before its task is acknowledged: so no stale copy that it may have
written remains.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from shared.core.operations.perform import pause
from shared.core.operations.ports import Conflict, Outcome, Ports, Snapshot, WriteResult
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, Unavailable
from shared.core.rules.record_values import map_bytes
from shared.documents.operations import link_inputs
from shared.documents.operations.document_writes import DocumentWrite, document_write, write_each
from shared.documents.rules import documents, refreshes
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import COLLECTION, Document
from shared.links.operations import normalization

Landed = set[tuple[str, datetime | None]]
"""Paths of writes, and when they landed."""


def transform_paths(found: Sequence[Snapshot], keys: Sequence[str]) -> list[str]:
    """Return the paths of the transforms that copies of these keys go through in these records."""
    contents = documents.contents_of(snapshot.data for snapshot in found)
    return link_inputs.transform_paths(contents, keys)


def refresh(ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot]) -> None:
    """Refresh the copies in some documents from `inputs`, which were read no earlier than the documents.

    ``key`` names the source that changed; it is empty if a transform did. Then the documents may embed each other, and
    what this call itself wrote in one is no reason to start over: that write has its own event. Raises `Unavailable`
    when the inputs kept changing.
    """
    first = inputs
    left = _refresh(ports, key, linking, inputs, 1 + (_hops(inputs[:1]) if key else 0))
    while left:
        inputs, linking = _read_both(ports, [one.path for one in first], left)
        changed = [now for then, now in zip(first, inputs, strict=True) if then.update_time != now.update_time]
        unread = _unread(left, linking)
        left = [*unread, *_refresh(ports, key, linking, inputs, 1 + _hops(inputs[:1] if key else changed))]


def _refresh(ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot], hops: int) -> list[str]:
    """Refresh documents as `refresh` does; return those that have become too large to be held together."""
    held = [snapshot.path for snapshot in linking]
    input_paths = [snapshot.path for snapshot in inputs]
    left: list[str] = []
    for attempt in range(LIMITS.rounds_max):
        waiting, own = write_copies(ports, key, linking, inputs, hops)
        again, linking = _read_both(ports, input_paths, waiting)
        changed = [one for one in link_inputs.changed_inputs(inputs, again) if (one.path, one.update_time) not in own]
        if changed:
            waiting = held
            again, linking = _read_both(ports, input_paths, waiting)
            hops = 1 + _hops(again[:1] if key else changed)
        elif not waiting:
            return left
        unread = _unread(waiting, linking)
        left, held = left + unread, [path for path in held if path not in unread]
        inputs = again
        pause(ports, attempt)
    raise Unavailable("a document and those that embed it are written by many clients at once")


def _read_both(ports: Ports, inputs: Sequence[str], documents: Sequence[str]) -> tuple[Sequence[Snapshot], ...]:
    """Read inputs, and as many documents as can be held together."""
    read = ports.store.read_some(inputs, documents, LIMITS.read_bytes_max)
    return read[: len(inputs)], read[len(inputs) :]


def _unread(paths: Sequence[str], read: Sequence[Snapshot]) -> list[str]:
    found = {snapshot.path for snapshot in read}
    return [path for path in paths if path not in found]


def write_copies(
    ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot], hops: int
) -> tuple[list[str], Landed]:
    """Write the copies that differ, each document under its own guard; return those that lost it, and what landed.

    A permanent error is logged, and a mark takes the place of the copies that the store refuses. A retry would not
    help, and the other documents must not wait for it.
    """
    embedding = link_inputs.embedding_from(inputs)
    losers: list[str] = []
    landed: Landed = set()
    for made in _in_groups(_refreshed(ports, snapshot, embedding, hops) for snapshot in linking):
        paths = [each.write.path for each in made]
        outcomes = write_each(ports, made)
        for path, outcome in zip(paths, outcomes, strict=True):
            if isinstance(outcome, Problem):
                name = path.rpartition("/")[2]
                ports.log.error("copy refresh rejected", document=name, source=key, reason=outcome.detail)
        refused = {path for path, outcome in zip(paths, outcomes, strict=True) if isinstance(outcome, Problem)}
        if refused:
            _mark_refused(ports, [one for one in linking if one.path in refused], embedding, hops)
        losers += _losers(paths, outcomes)
        pairs = zip(paths, outcomes, strict=True)
        landed |= {(path, outcome.update_time) for path, outcome in pairs if isinstance(outcome, WriteResult)}
    return losers, landed


def _mark_refused(ports: Ports, refused: Sequence[Snapshot], embedding: Embedding, hops: int) -> None:
    """Mark copies that the store refuses, so that none stays as it was. Raises `Unavailable` where that is not done."""
    marking = [made for one in refused if (made := _marks(one, embedding, hops)) is not None]
    outcomes = write_each(ports, marking)
    if any(isinstance(outcome, Conflict | Unavailable) for outcome in outcomes):
        raise Unavailable("a document whose copies are refused was written meanwhile")


def _marks(snapshot: Snapshot, embedding: Embedding, hops: int) -> DocumentWrite | None:
    """Return the write that puts marks in place of copies, or None if it would be refused too."""
    document = Document.from_record(snapshot.data)
    assert document is not None, "it has just been refreshed"
    try:
        content = refreshes.mark_copies(document.content, embedding)
        linked = documents.counts_as_linked(document)
        return document_write(snapshot, content, "refresh", linked=linked, hops=hops)
    except Problem:
        return None


def _in_groups(made: Iterable[DocumentWrite | None]) -> Iterator[list[DocumentWrite]]:
    """Iterate over groups of those writes that are any, so large that they can be held together."""
    group: list[DocumentWrite] = []
    total = 0
    for each in made:
        if each is not None:
            group.append(each)
            total += map_bytes(each.write.data)
        if total >= LIMITS.read_bytes_max:
            yield group
            group, total = [], 0
    if group:
        yield group


def _losers(paths: Sequence[str], outcomes: Sequence[Outcome]) -> list[str]:
    """Return those whose write lost its guard, or is not known to have landed."""
    pairs = zip(paths, outcomes, strict=True)
    return [path for path, outcome in pairs if isinstance(outcome, Conflict | Unavailable)]


def _hops(changed: Sequence[Snapshot]) -> int:
    """Return the largest hop count of some changes; that of a transform is 0."""
    read = (Document.from_record(one.data) for one in changed if one.path.startswith(f"{COLLECTION}/"))
    return max(map(documents.hops_of, read), default=0)


def _refreshed(ports: Ports, snapshot: Snapshot, embedding: Embedding, hops: int) -> DocumentWrite | None:
    """Return the write that refreshes one document, or None if there is nothing (left) to write."""
    document = Document.from_record(snapshot.data)
    if document is None:
        return None
    content = refreshes.refresh_copies(snapshot.id, document, embedding, hops)
    if content is refreshes.Refresh.NORMALIZE:
        normalization.normalize_or_report(ports, snapshot.id, hops)
    if isinstance(content, refreshes.Refresh):
        return None
    normalization.report_failures(ports, snapshot.id, content)
    linked = documents.counts_as_linked(document)
    return document_write(snapshot, content, "refresh", linked=linked, hops=hops)
