"""Verification: a walk over all documents that repairs drift, because events may be lost.

Eventarc drops an event after a hundred deliveries, a trigger may be missing for a while, and another client may
overwrite the kit's metadata. So each night documents are compared with the records that puts of their contents would
store now: up to 10,000 documents each night, and a seventh of more. A verification by hand compares all documents.

    a copy that differs from its source      normalized, as a put would
    a record without the reserved map        normalized, as a put would
    a target that is not marked as linked    marked `linked`, or noted under `wanted`, before it is compared
    a record that is not found by its links  written again with its link keys

One page runs at a time, and the commit that counts it contains the task of the next one: a walk does not flood the
queue, cannot run twice, and survives the death of any process. If a page dies between a repair and its count, its
redelivery no longer finds the repaired differences. So counts are lower bounds; each page's repairs are also in its log
line.

A target is marked as linked before it is compared with its copies. A document that differs is normalized by a separate
write, which reads all inputs at one instant. So if a difference is only due to a change between two reads of the page,
that write finds no difference and writes nothing.
"""

from collections.abc import Sequence
from dataclasses import field

from signalbox.core.effects import Decision
from signalbox.core.keys import check_key
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Must, Ports, Put, Query, Snapshot, is_full, snapshot_bytes
from signalbox.core.problems import NotFound, Problem, Unavailable
from signalbox.core.records.queries import Order
from signalbox.documents.model.stamped_contents import COLLECTION, Document, contents_of, hops_of, path_of
from signalbox.documents.storage import embedded_copies
from signalbox.links import machine, storage
from signalbox.links.limits import LIMITS
from signalbox.links.model import CURRENT, VERIFICATIONS, Finding, Verification, run_of, verification_path
from signalbox.links.service import refreshes

NEWEST_FIRST = Order(("begun_at",), descending=True)

NAMED_MAX = 20
"""The keys in a page's log line."""


# --- the walk ---


def begin(ports: Ports, operation: str, *, nightly: bool = False) -> Verification:
    """Begin a verification, or return the one that is running. The same operation begins only one.

    A `nightly` one compares the next part of the documents, others compare all of them.
    """
    run = run_of(operation)
    [pointer] = ports.store.read(CURRENT)
    begun_last = pointer.data or {}
    last, part = str(begun_last.get("run", run)), str(begun_last.get("part", run))

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Verification]:
        current, of_last, of_own, of_part = read
        if current.guard != pointer.guard:
            raise Unavailable("another verification began at the same moment")
        last_walk, own = Verification.from_record(last, of_last.data), Verification.from_record(run, of_own.data)
        now = current.read_time
        next_part = machine.next_part(run, Verification.from_record(part, of_part.data), now) if nightly else None
        decided = machine.begin(run, last_walk, own, now, next_part)
        if decided.state is None:
            return Decision((), decided.answer)
        new = Put(verification_path(run), decided.state.to_record(), Must.NOT_EXIST)
        names = {**begun_last, "run": run, **({"part": run} if nightly else {})}
        return Decision((Put(CURRENT, names, current.guard), new), decided.answer, decided.effects)

    paths = [CURRENT, verification_path(last), verification_path(run), verification_path(part)]
    return perform(ports, paths, decide)[0]


def get(ports: Ports, run: str) -> Verification:
    """Return a verification. Raises `NotFound`."""
    [snapshot] = ports.store.read(verification_path(check_key(run)))
    walk = Verification.from_record(run, snapshot.data)
    if walk is None:
        raise NotFound(f"Verification {run!r} does not exist.", field="run")
    return walk


def newest(ports: Ports) -> list[Verification]:
    """Return the last verifications, newest first."""
    found = ports.store.query(Query(VERIFICATIONS, order_by=(NEWEST_FIRST,), limit=LIMITS.verifications_listed_max))
    walks = (Verification.from_record(snapshot.id, snapshot.data) for snapshot in found)
    return [walk for walk in walks if walk]


def verify_page(ports: Ports, run: str, cursor: str) -> None:
    """Verify the documents that come after `cursor`, count them, and enqueue the next page."""
    [snapshot] = ports.store.read(verification_path(run))
    walk = Verification.from_record(run, snapshot.data)
    if walk is None or not walk.awaits(cursor):
        return
    after = (cursor,) if cursor else ()
    query = Query(COLLECTION, (), (), LIMITS.verify_page_documents_max, after, CORE_LIMITS.read_bytes_max)
    page = ports.store.query(query)
    found = inspect_page(ports, page)
    last_key, more = page[-1].id if page else cursor, is_full(query, page)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Verification | None]:
        [record] = read
        walk = Verification.from_record(run, record.data)
        decided = machine.count_page(walk, cursor, found, last_key, record.read_time, more=more)
        if decided.state is None:
            return Decision((), None)
        write = Put(verification_path(run), decided.state.to_record(), record.guard)
        return Decision((write,), decided.state, decided.effects)

    counted = perform(ports, [verification_path(run)], decide)[0]
    if counted and counted.ended_at and counted.found.drifted:
        total = counted.found
        ports.log.error("copies had drifted", run=run, drifted=total.drifted, refused=total.refused)


# --- one page ---


@dataclass(slots=True)
class _PageFindings:
    """The keys of a page's documents and targets, by the finding."""

    drifted: list[str] = field(default_factory=list)
    moving: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def note(self, key: str, read: Sequence[Snapshot]) -> None:
        """Note a key as moving or drifted. `read` are the records of the difference."""
        written = [snapshot.update_time for snapshot in read if snapshot.update_time]
        now = max(snapshot.read_time for snapshot in read)
        (self.moving if machine.is_moving(written, now) else self.drifted).append(key)


def inspect_page(ports: Ports, page: Sequence[Snapshot]) -> Finding:
    """Compare documents with the records that puts of their contents would store now, and repair those that differ."""
    found = _PageFindings()
    size = LIMITS.verify_group_documents_max
    for first in range(0, len(page), size):
        inspect(ports, page[first : first + size], found)
    named = {"drifted": found.drifted[:NAMED_MAX], "refused": found.refused[:NAMED_MAX]}
    ports.log.info("documents verified", looked=len(page), moving=len(found.moving), **named)
    return Finding(len(page), len(found.drifted), len(found.moving), len(found.refused))


def inspect(ports: Ports, page: Sequence[Snapshot], found: _PageFindings) -> None:
    """Compare a group of a page's documents, and repair those that differ."""
    targets = _marked_targets(ports, page, found)
    paths = refreshes.transform_paths_in(page, list(targets))
    transforms = ports.store.read(*paths) if paths else ()
    for snapshot in page:
        document = Document.from_record(snapshot.data)
        keys = document.surveyed.link_keys if document else []
        if not all(key in targets for key in keys):
            _repair_large(ports, snapshot, keys, found)
            continue
        own_targets = [targets[key] for key in keys]
        embedding = embedded_copies.embedding_from([*own_targets, *transforms])
        if document and machine.differs(snapshot.data or {}, document, snapshot.id, embedding, _hops(own_targets)):
            found.note(snapshot.id, (snapshot, *own_targets))
            if not refreshes.normalize_or_report(ports, snapshot.id, _hops(own_targets), by_another=False):
                found.refused.append(snapshot.id)


def _marked_targets(ports: Ports, page: Sequence[Snapshot], found: _PageFindings) -> dict[str, Snapshot]:
    """Return the targets of these documents, each read after it was marked as linked.

    If they do not fit into memory together, only some of them are returned.
    """
    contents = contents_of(snapshot.data for snapshot in page)
    waiting = sorted({key for content in contents for key in content.link_keys})
    marked: dict[str, Snapshot] = {}
    room = CORE_LIMITS.read_bytes_max
    while waiting and room > 0:
        group = _marked_group(ports, waiting, room, page, found)
        marked |= group
        room -= sum(map(snapshot_bytes, group.values()))
        waiting = [key for key in waiting if key not in group]
    return marked


def _marked_group(
    ports: Ports, waiting: Sequence[str], room: int, page: Sequence[Snapshot], found: _PageFindings
) -> dict[str, Snapshot]:
    """Return some of the waiting targets, each read after it was marked as linked."""
    paths = [path_of(key) for key in waiting[: LIMITS.verify_targets_max]]
    targets = ports.store.read_some((), paths, room)
    unmarked = storage.unmarked(ports, targets)
    for target in unmarked:
        found.note(target.id, [target, *(snapshot for snapshot in page if _embeds(snapshot, target.id))])
    marked = {target.id: target for target in targets}
    for group in storage.marked_in_groups(ports, [target.id for target in unmarked]):
        marked |= {target.id: target for target in group}
    return marked


def _repair_large(ports: Ports, snapshot: Snapshot, keys: Sequence[str], found: _PageFindings) -> None:
    """Mark the targets of a document and normalize it, if the targets do not fit into memory together."""
    waiting = list(keys)
    read, hops = [snapshot], 0
    while waiting:
        group = _marked_group(ports, waiting, CORE_LIMITS.read_bytes_max, [snapshot], found)
        waiting = [key for key in waiting if key not in group]
        hops = max(hops, _hops(list(group.values())))
        read += [replace(target, data=None) for target in group.values()]
    try:
        if refreshes.normalize(ports, snapshot.id, hops, by_another=False):
            found.note(snapshot.id, read)
    except Problem as problem:
        refreshes.report_refusal(ports, snapshot.id, problem)
        found.note(snapshot.id, read)
        found.refused.append(snapshot.id)


def _embeds(snapshot: Snapshot, key: str) -> bool:
    document = Document.from_record(snapshot.data)
    return document is not None and key in document.surveyed.link_keys


def _hops(targets: Sequence[Snapshot]) -> int:
    """Return the hops of a refresh from these targets.

    A refresh with more than `hops_max` hops leaves outputs of transforms unchanged.
    """
    return max((1 + hops_of(Document.from_record(target.data)) for target in targets), default=0)
