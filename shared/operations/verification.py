"""Walk over all documents and repair what drifted: the net below events, which may be lost.

Eventarc gives an event up after a day, a trigger may be missing for a while, and another client may write what the kit
keeps for itself. So each night all documents are compared with what a put of their content would store now:

    a copy that is not its source        reshaped, as a put would
    a record without the kit's map       the same
    a target that does not know          marked `linked`, or noted under `wanted`, before it is compared
    a record that is not found by links  written anew with its link keys

One page is at work at a time, and the commit that counts it asks for the next: a walk is no flood, cannot double, and
goes on after any process died. A page that dies between a repair and its count does not find the same again, so counts
are lower bounds; each page's repairs are also in its log line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from shared.operations import links as copies
from shared.operations.documents import sources
from shared.operations.perform import Writes, perform
from shared.operations.ports import Must, Order, Ports, Put, Query, Snapshot
from shared.rules import documents, links, values
from shared.rules import verifications as rules
from shared.rules.bounds import (
    VERIFICATIONS_LISTED_MAX,
    VERIFY_MOVING_SECONDS,
    VERIFY_PAGE,
    VERIFY_TARGETS_MAX,
)
from shared.rules.documents import Document
from shared.rules.effects import Decision
from shared.rules.problems import BadValue, NotFound, Problem, Unavailable
from shared.rules.verifications import Finding, Verification

NEWEST_FIRST = Order(("begun_at",), descending=True)
NAMED_MAX = 20
"""Keys in a page's log line."""


def begin(ports: Ports, operation: str) -> dict[str, Any]:
    """Begin a walk, or give the one that walks. The same operation begins one walk, however often it is asked for."""
    run = rules.run_of(operation)
    [pointer] = ports.store.read(rules.CURRENT)
    last = str((pointer.data or {}).get("run", run))

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Verification]:
        current, mine = rules.decode(last, read[1].data), rules.decode(run, read[2].data)
        if read[0].guard != pointer.guard:
            raise Unavailable("another verification began at the same moment")
        going_on = mine or (current if current and current.walks(read[0].read_time) else None)
        if going_on:
            return Decision((), going_on)
        begun = Verification(run, read[0].read_time, read[0].read_time)
        new = Put(rules.path_of(run), rules.encode(begun), Must.NOT_EXIST)
        return Decision((Put(rules.CURRENT, {"run": run}, read[0].guard), new), begun, (begun.task(),))

    return perform(ports, [rules.CURRENT, rules.path_of(last), rules.path_of(run)], decide)[0].shown()


def get(ports: Ports, run: str) -> dict[str, Any]:
    """Give the report of a walk. Raises `NotFound`."""
    [snapshot] = ports.store.read(rules.path_of(documents.check_key(run)))
    verification = rules.decode(run, snapshot.data)
    if verification is None:
        raise NotFound(f"There is no verification {run!r}.", field="run")
    return verification.shown()


def newest(ports: Ports) -> list[dict[str, Any]]:
    """Give the reports of the last walks, newest first."""
    found = ports.store.query(Query(rules.COLLECTION, order_by=(NEWEST_FIRST,), limit=VERIFICATIONS_LISTED_MAX))
    reports = (rules.decode(snapshot.id, snapshot.data) for snapshot in found)
    return [report.shown() for report in reports if report]


def follow(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Do a task's page. Raises `Unavailable` when it should run again, and `BadValue` when it never could."""
    match payload:
        case {"run": str(run), "cursor": str(cursor)}:
            page(ports, run, cursor)
        case _:
            raise BadValue("This payload is no page of a verification.")


def page(ports: Ports, run: str, cursor: str) -> None:
    """Look at the documents that come after `cursor`, count them, and ask for the next page."""
    [snapshot] = ports.store.read(rules.path_of(run))
    if _awaits(rules.decode(run, snapshot.data), cursor) is None:
        return
    after = (cursor,) if cursor else ()
    read = ports.store.query(Query(documents.COLLECTION, limit=VERIFY_PAGE, after=after))
    found = inspect(ports, read)
    last_key = read[-1].id if read else cursor

    def decide(now: tuple[Snapshot, ...]) -> Decision[Writes, bool]:
        waiting = _awaits(rules.decode(run, now[0].data), cursor)
        if waiting is None:
            return Decision((), False)
        counted = waiting.page(found, last_key, now[0].read_time, more=len(read) == VERIFY_PAGE)
        effects = () if counted.ended_at else (counted.task(),)
        return Decision((Put(rules.path_of(run), rules.encode(counted), now[0].guard),), True, effects)

    perform(ports, [rules.path_of(run)], decide)


def _awaits(verification: Verification | None, cursor: str) -> Verification | None:
    """Give the walk if its next page is the one after `cursor`; None: that page is counted, or the walk is gone."""
    waits = verification is not None and verification.ended_at is None and verification.cursor == cursor
    return verification if waits else None


@dataclass(slots=True)
class _Page:
    """What a page finds while it looks: keys by what became of them."""

    drifted: list[str] = field(default_factory=list)
    moving: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def note(self, key: str, read: Sequence[Snapshot]) -> None:
        """Note a difference between records: lately written ones may be followed by their events still."""
        written = [snapshot.update_time for snapshot in read if snapshot.update_time]
        lately = max(snapshot.read_time for snapshot in read) - timedelta(seconds=VERIFY_MOVING_SECONDS)
        (self.moving if any(time > lately for time in written) else self.drifted).append(key)


def inspect(ports: Ports, read: Sequence[Snapshot]) -> Finding:
    """Compare documents with what a put of their content would store now, and repair what differs."""
    found = _Page()
    targets = _known_targets(ports, read, found)
    for snapshot in read:
        document = documents.decode(snapshot.data)
        mine = [targets[key] for key in links.link_keys(document.content)] if document else []
        if document and _differs(snapshot, document, mine):
            found.note(snapshot.id, (snapshot, *mine))
            _repair(ports, snapshot.id, mine, found)
    named = {"drifted": found.drifted[:NAMED_MAX], "refused": found.refused[:NAMED_MAX]}
    ports.log.info("documents verified", looked=len(read), moving=len(found.moving), **named)
    return Finding(len(read), len(found.drifted), len(found.moving), len(found.refused))


def _known_targets(ports: Ports, read: Sequence[Snapshot], found: _Page) -> dict[str, Snapshot]:
    """Give whom these documents embed, each read after it knew that somebody does."""
    contents = (document.content for snapshot in read if (document := documents.decode(snapshot.data)))
    keys = sorted({key for content in contents for key in links.link_keys(content)})
    known: dict[str, Snapshot] = {}
    for first in range(0, len(keys), VERIFY_TARGETS_MAX):
        targets = ports.store.read(*map(documents.path_of, keys[first : first + VERIFY_TARGETS_MAX]))
        unknowing = _unknowing(ports, targets)
        for target in unknowing:
            found.note(target.id, [target, *(each for each in read if _embeds(each, target.id))])
        known |= {target.id: target for target in targets}
        known |= copies.make_known(ports, [target.id for target in unknowing]) if unknowing else {}
    return known


def _embeds(snapshot: Snapshot, key: str) -> bool:
    document = documents.decode(snapshot.data)
    return document is not None and key in links.link_keys(document.content)


def _unknowing(ports: Ports, targets: Sequence[Snapshot]) -> list[Snapshot]:
    """List the targets that do not know that somebody embeds them: a missing one by its note."""
    missing = [target.id for target in targets if target.data is None]
    notes = ports.store.read(*map(copies.wanted_path, missing)) if missing else ()
    noted = {note.id for note in notes if note.data is not None}
    return [
        target
        for target in targets
        if target.id not in noted and not links.counts_as_linked(documents.decode(target.data))
    ]


def _differs(snapshot: Snapshot, document: Document, targets: Sequence[Snapshot]) -> bool:
    if not document.in_shape or not links.well_listed(snapshot.data or {}, document.content):
        return True
    embedded = sources([target.id for target in targets], targets)
    try:
        wanted = links.shape(snapshot.id, document.content, embedded, _hops(targets))
    except Problem:
        return True
    return values.canonical(wanted) != values.canonical(document.content)


def _hops(targets: Sequence[Snapshot]) -> int:
    """Say how far a refresh from these targets would have come: where changes come too far, marks stay."""
    return max((1 + documents.hops_of(documents.decode(target.data)) for target in targets), default=0)


def _repair(ports: Ports, key: str, targets: Sequence[Snapshot], found: _Page) -> None:
    try:
        copies.reshape(ports, key, _hops(targets), by_another=False)
    except Problem as problem:
        found.refused.append(key)
        ports.log.error("a document cannot be brought into shape", document=key, reason=problem.detail)
