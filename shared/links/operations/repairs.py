"""The work of a verification: compare documents with what a put of their content would store now, and repair them.

A target is marked as linked before it is compared with its copies. What differs is normalized by a write of its own,
which reads all inputs at one instant; so a difference that only comes from a change between the reads here is found to
be none there, and not written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from shared.core.operations.ports import Ports, Snapshot
from shared.core.operations.record_sizes import size_bytes
from shared.core.rules import values
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem
from shared.documents.operations import link_inputs
from shared.documents.rules import documents, links
from shared.documents.rules.documents import Document
from shared.links.operations import copies, marks, normalization
from shared.links.rules.verifications import Finding

NAMED_MAX = 20
"""Keys in a page's log line."""


@dataclass(slots=True)
class _PageFindings:
    """Keys of a page by what was found."""

    drifted: list[str] = field(default_factory=list)
    moving: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def note(self, key: str, read: Sequence[Snapshot]) -> None:
        """Note a difference between records; if any was written lately, its event may still be on its way."""
        written = [snapshot.update_time for snapshot in read if snapshot.update_time]
        lately = max(snapshot.read_time for snapshot in read) - timedelta(seconds=LIMITS.verify_moving_seconds)
        (self.moving if any(time > lately for time in written) else self.drifted).append(key)


def inspect(ports: Ports, read: Sequence[Snapshot]) -> Finding:
    """Compare documents with what a put of their content would store now, and repair what differs."""
    found = _PageFindings()
    targets = _marked_targets(ports, read, found)
    transforms = _transforms(ports, read, targets)
    for snapshot in read:
        document = Document.from_record(snapshot.data)
        keys = links.link_keys(document.content) if document else []
        if not all(key in targets for key in keys):
            _repair_large(ports, snapshot, keys, found)
            continue
        mine = [targets[key] for key in keys]
        if document and _differs(snapshot, document, mine, transforms):
            found.note(snapshot.id, (snapshot, *mine))
            if not normalization.normalize_or_report(ports, snapshot.id, _hops(mine), by_another=False):
                found.refused.append(snapshot.id)
    named = {"drifted": found.drifted[:NAMED_MAX], "refused": found.refused[:NAMED_MAX]}
    ports.log.info("documents verified", looked=len(read), moving=len(found.moving), **named)
    return Finding(len(read), len(found.drifted), len(found.moving), len(found.refused))


def _marked_targets(ports: Ports, read: Sequence[Snapshot], found: _PageFindings) -> dict[str, Snapshot]:
    """Return targets of these documents, each read under its mark: all, if they can be held together."""
    contents = documents.contents_of(snapshot.data for snapshot in read)
    waiting = sorted({key for content in contents for key in links.link_keys(content)})
    marked: dict[str, Snapshot] = {}
    room = LIMITS.read_bytes_max
    while waiting and room > 0:
        group = _marked_group(ports, waiting, room, read, found)
        marked |= group
        room -= sum(map(size_bytes, group.values()))
        waiting = [key for key in waiting if key not in group]
    return marked


def _marked_group(
    ports: Ports, waiting: Sequence[str], room: int, read: Sequence[Snapshot], found: _PageFindings
) -> dict[str, Snapshot]:
    """Return some of the targets that wait, each read under its mark."""
    paths = [documents.path_of(key) for key in waiting[: LIMITS.verify_targets_max]]
    targets = ports.store.read_some((), paths, room)
    unmarked = _unmarked(ports, targets)
    for target in unmarked:
        found.note(target.id, [target, *(each for each in read if _embeds(each, target.id))])
    marked = {target.id: target for target in targets}
    for again in marks.marked_in_groups(ports, [one.id for one in unmarked]):
        marked |= {target.id: target for target in again}
    return marked


def _repair_large(ports: Ports, snapshot: Snapshot, keys: Sequence[str], found: _PageFindings) -> None:
    """Mark the targets of a document whose targets cannot be held together, and normalize it."""
    waiting = list(keys)
    read, hops = [snapshot], 0
    while waiting:
        group = _marked_group(ports, waiting, LIMITS.read_bytes_max, [snapshot], found)
        waiting = [key for key in waiting if key not in group]
        hops = max(hops, _hops(list(group.values())))
        read += [replace(target, data=None) for target in group.values()]
    try:
        if normalization.normalize(ports, snapshot.id, hops, by_another=False):
            found.note(snapshot.id, read)
    except Problem as problem:
        normalization.report(ports, snapshot.id, problem)
        found.note(snapshot.id, read)
        found.refused.append(snapshot.id)


def _embeds(snapshot: Snapshot, key: str) -> bool:
    document = Document.from_record(snapshot.data)
    return document is not None and key in links.link_keys(document.content)


def _unmarked(ports: Ports, targets: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the targets that are not marked as linked; the mark of a missing one is its note."""
    missing = [target.id for target in targets if target.data is None]
    notes = ports.store.read(*map(marks.wanted_path, missing)) if missing else ()
    noted = {note.id for note in notes if note.data is not None}
    return [
        target
        for target in targets
        if target.id not in noted and not documents.counts_as_linked(Document.from_record(target.data))
    ]


def _transforms(ports: Ports, read: Sequence[Snapshot], targets: Mapping[str, Snapshot]) -> Sequence[Snapshot]:
    """Return the transforms that copies of these targets go through in these documents."""
    paths = copies.transform_paths(read, list(targets))
    return ports.store.read(*paths) if paths else ()


def _differs(
    snapshot: Snapshot, document: Document, targets: Sequence[Snapshot], transforms: Sequence[Snapshot]
) -> bool:
    if not document.stamp_matches or not links.link_index_matches(snapshot.data or {}, document.content):
        return True
    embedding = link_inputs.embedding_from([*targets, *transforms])
    try:
        expected = links.embed_links(snapshot.id, document.content, embedding, _hops(targets), refuse=False)
    except Problem:
        return True
    return values.canonical(expected) != values.canonical(document.content)


def _hops(targets: Sequence[Snapshot]) -> int:
    """Return the hops of a refresh from these targets: beyond the limit, outputs of transforms stay."""
    return max((1 + documents.hops_of(Document.from_record(target.data)) for target in targets), default=0)
