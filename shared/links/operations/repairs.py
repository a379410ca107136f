"""Compare documents with what a put of their content would store now, and repair what differs: a verification's work.

A target is made known before it is compared with its copies. What differs is brought into shape by a put of its own,
which reads all at one instant; so what merely moved between the reads here is found to be true there, and not written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from shared.core.operations.ports import Ports, Snapshot
from shared.core.rules import values
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem
from shared.documents.operations import embedding
from shared.documents.rules import documents, links
from shared.documents.rules.documents import Document
from shared.links.operations import copies as link_copies
from shared.links.operations import marks as link_marks
from shared.links.operations import normalization as link_shapes
from shared.links.rules.verifications import Finding

NAMED_MAX = 20
"""Keys in a page's log line."""


@dataclass(slots=True)
class _Page:
    """What a page finds while it looks: keys by what became of them."""

    drifted: list[str] = field(default_factory=list)
    moving: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def note(self, key: str, read: Sequence[Snapshot]) -> None:
        """Note a difference between records: lately written ones may be followed by their events still."""
        written = [snapshot.update_time for snapshot in read if snapshot.update_time]
        lately = max(snapshot.read_time for snapshot in read) - timedelta(seconds=LIMITS.verify_moving_seconds)
        (self.moving if any(time > lately for time in written) else self.drifted).append(key)


def inspect(ports: Ports, read: Sequence[Snapshot]) -> Finding:
    """Compare documents with what a put of their content would store now, and repair what differs."""
    found = _Page()
    targets = _known_targets(ports, read, found)
    transforms = _transforms(ports, read, targets)
    for snapshot in read:
        document = documents.decode(snapshot.data)
        mine = [targets[key] for key in links.link_keys(document.content)] if document else []
        if document and _differs(snapshot, document, mine, transforms):
            found.note(snapshot.id, (snapshot, *mine))
            if not link_shapes.reshape_or_report(ports, snapshot.id, _hops(mine), by_another=False):
                found.refused.append(snapshot.id)
    named = {"drifted": found.drifted[:NAMED_MAX], "refused": found.refused[:NAMED_MAX]}
    ports.log.info("documents verified", looked=len(read), moving=len(found.moving), **named)
    return Finding(len(read), len(found.drifted), len(found.moving), len(found.refused))


def _known_targets(ports: Ports, read: Sequence[Snapshot], found: _Page) -> dict[str, Snapshot]:
    """Give whom these documents embed, each read after it knew that somebody does."""
    contents = documents.contents_of(snapshot.data for snapshot in read)
    keys = sorted({key for content in contents for key in links.link_keys(content)})
    known: dict[str, Snapshot] = {}
    for first in range(0, len(keys), LIMITS.verify_targets_max):
        targets = ports.store.read(*map(documents.path_of, keys[first : first + LIMITS.verify_targets_max]))
        unknowing = _unknowing(ports, targets)
        for target in unknowing:
            found.note(target.id, [target, *(each for each in read if _embeds(each, target.id))])
        known |= {target.id: target for target in targets}
        if unknowing:
            known |= {target.id: target for target in link_marks.make_known(ports, [one.id for one in unknowing])}
    return known


def _embeds(snapshot: Snapshot, key: str) -> bool:
    document = documents.decode(snapshot.data)
    return document is not None and key in links.link_keys(document.content)


def _unknowing(ports: Ports, targets: Sequence[Snapshot]) -> list[Snapshot]:
    """List the targets that do not know that somebody embeds them: a missing one by its note."""
    missing = [target.id for target in targets if target.data is None]
    notes = ports.store.read(*map(link_marks.wanted_path, missing)) if missing else ()
    noted = {note.id for note in notes if note.data is not None}
    return [
        target
        for target in targets
        if target.id not in noted and not documents.counts_as_linked(documents.decode(target.data))
    ]


def _transforms(ports: Ports, read: Sequence[Snapshot], targets: Mapping[str, Snapshot]) -> Sequence[Snapshot]:
    """Give the transforms that copies of these targets go through in these documents."""
    paths = link_copies.transforms_of(read, list(targets))
    return ports.store.read(*paths) if paths else ()


def _differs(
    snapshot: Snapshot, document: Document, targets: Sequence[Snapshot], transforms: Sequence[Snapshot]
) -> bool:
    if not document.in_shape or not links.well_listed(snapshot.data or {}, document.content):
        return True
    embedded = embedding.given([*targets, *transforms])
    try:
        wanted = links.shape(snapshot.id, document.content, embedded, _hops(targets), refuse=False)
    except Problem:
        return True
    return values.canonical(wanted) != values.canonical(document.content)


def _hops(targets: Sequence[Snapshot]) -> int:
    """Say how far a refresh from these targets would have come: where changes come too far, marks stay."""
    return max((1 + documents.hops_of(documents.decode(target.data)) for target in targets), default=0)
