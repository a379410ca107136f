"""Faults to plant: the kit with one clause of its protocol left out. The simulation must notice each of them.

A fault replaces a function of the kit by one that lacks the clause, for as long as it is planted. One that goes
unnoticed means that the simulation has lost its sight, or the clause its reason; either is worth knowing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from unittest import mock

from shared.operations import document_bulk, document_patches, outbox
from shared.operations import documents as document_operations
from shared.operations import links as operations
from shared.operations.ports import Change, Committed, Conflict, Delete, Must, Ports, Put, Query, Snapshot, Write
from shared.rules import bulk, documents, links
from shared.rules.documents import Content, Document, path_of
from shared.rules.effects import Effect, name_of
from shared.rules.preconditions import UNCONDITIONAL, Precondition
from shared.rules.problems import Problem, Unavailable
from tests.simulation import links_world, outbox_world
from tests.simulation.links_world import KINDS, Kinds


@dataclass(frozen=True, slots=True)
class Fault:
    """A clause left out. `plant` leaves it out while it is entered; `run` is the world that must notice."""

    clause: str
    without: str
    plant: Callable[[], AbstractContextManager[Any]]
    run: Callable[[int], None]

    def __str__(self) -> str:
        return f"{self.clause}: {self.without}"


def _links(clause: str, without: str, module: object, name: str, instead: Any, kinds: Kinds = KINDS) -> Fault:
    """A fault of the links, noticed in worlds of these kinds."""
    plant = partial(mock.patch.object, module, name, instead)
    return Fault(clause, without, plant, partial(links_world.run, kinds=kinds))


def _outbox(clause: str, without: str, module: object, name: str, instead: Any) -> Fault:
    return Fault(clause, without, partial(mock.patch.object, module, name, instead), outbox_world.run)


PLAIN = tuple(kind for kind in KINDS if not (kind.narrow or kind.crowded or kind.versatile))
FOREIGN = tuple(kind for kind in KINDS if kind.foreign and not kind.versatile)
NARROW = tuple(kind for kind in KINDS if kind.narrow)
CROWDED = tuple(kind for kind in KINDS if kind.crowded)
VERSATILE = tuple(kind for kind in KINDS if kind.versatile)

# --- links ---


def _only_after_writing() -> AbstractContextManager[Any]:
    """A page looks at its source again only when it wrote something."""
    wrote: list[bool] = [False]
    write_copies, moved_since = operations.write_copies, operations.moved_since

    def watched(ports: Ports, key: str, embedding: Sequence[Snapshot], source: Snapshot) -> list[Snapshot]:
        document = documents.decode(source.data)
        wrote[0] = any(operations._refreshed(_Mute(ports), one, key, document) for one in embedding)
        return write_copies(ports, key, embedding, source)

    return mock.patch.multiple(
        operations, write_copies=watched, moved_since=lambda one, other: wrote[0] and moved_since(one, other)
    )


def _gained_only(before: Document | None, after: Document) -> tuple[str, ...]:
    old = set() if before is None else set(links.link_keys(before.content))
    return tuple(key for key in links.link_keys(after.content) if key not in old)


def _mark_after_reading(ports: Ports, keys: Sequence[str]) -> dict[str, Snapshot]:
    read = ports.store.read(*map(path_of, keys))
    for snapshot in read:
        with suppress(Conflict):
            ports.store.commit([replace(operations._word(snapshot), guard=Must.EXIST if snapshot.data else None)])
    return {snapshot.id: snapshot for snapshot in read}


def _mark_without_guard(snapshot: Snapshot) -> Write:
    word = operations_word(snapshot)
    return replace(word, guard=Must.EXIST) if isinstance(word, Change) else word


operations_word = operations._word


def _no_note(snapshot: Snapshot, noted: Any) -> bool:
    return snapshot.data is None or knows(snapshot, noted)


knows = operations._knows


def _page_without_word(ports: Ports, event_id: str, key: str, cursor: str, _copies: int = 0) -> None:
    found = ports.store.query(operations.linkers(key, cursor, links_world.PAGE_COPIES))
    if len(found) == links_world.PAGE_COPIES:
        operations.hand_on(ports, event_id, {"key": key, "cursor": found[-1].id})
    if found:
        operations.refresh(ports, key, (*found, *ports.store.read(path_of(key))))


def _mark_only_what_differs(ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str]) -> None:
    contents = document_operations.sources(targets, ports.store.read(*map(path_of, targets)))
    differ = [one for one in targets if links.refresh(key, document, one, contents[one]) is not links.Refresh.UNCHANGED]
    if differ:
        verify(ports, event_id, key, document, differ)


verify = operations.verify


def _always_guarded_by_nothing(snapshot: Snapshot, content: Content, *rest: Any, **more: Any) -> Put:
    return replace(embed(snapshot, content, *rest, **more), guard=None)


embed = document_operations.embed


def _acknowledge_whatever_happened(ports: Ports, event: Any) -> None:
    with suppress(Unavailable):
        fan_out(ports, event)


fan_out = operations.fan_out


def _named_without_the_event(ports: Ports, event_id: str, work: Mapping[str, str], **beside: int) -> None:
    name = name_of("links", *sorted(work.items()))
    payload = {"event": event_id, "work": dict(work), **beside}
    ports.queue.create([Effect(name, "links", "link_refresh", "follow", payload)])


def _versions_by_counting(
    before: Document | None, content: Content, author: Any, _: datetime, *, linked: bool, hops: int = 0
) -> Document:
    version = before.stamp.version + 1 if before and before.stamp else 1
    return Document(content, documents.Stamp(version, author, documents.digest(content), hops), linked)


def _refresh_without_bound(key: str, document: Document, source_key: str, source: Content | None) -> Any:
    with mock.patch.object(links, "DOCUMENT_BYTES_MAX", 10**9):
        return refresh(key, document, source_key, source)


refresh = links.refresh


def _give_up_at_the_first_refusal(ports: Ports, key: str, hops: int) -> None:
    try:
        operations.reshape(ports, key, hops)
    except Problem as problem:
        raise Unavailable("a page that cannot be finished is tried again") from problem


def _unmark_however_far(key: str, content: Content, sources: links.Sources, _: int = 0) -> Content:
    return shape(key, content, sources)


shape = links.shape


def _condition_at_the_read_only(
    ports: Ports, key: str, body: Any, precondition: Precondition = UNCONDITIONAL
) -> document_operations.Stored:
    precondition.check_write(document_operations.etag_of(ports.store.read(path_of(key))[0]))
    return put(ports, key, body)


put = document_operations.put


def _all_at_once_as_they_were_meant() -> AbstractContextManager[Any]:
    """The documents of a call embed what the call brings, stored or not."""
    read_all = document_bulk._Load._read

    def read(load: document_bulk._Load, keys: Any) -> None:
        read_all(load, keys)
        load._sources |= load._contents

    stack = ExitStack()
    stack.enter_context(mock.patch.object(document_bulk._Load, "_read", read))
    stack.enter_context(mock.patch.object(bulk, "waves", lambda targets: [list(targets)]))
    return stack


def _losers_alone(load: document_bulk._Load, keys: Any) -> None:
    """Who lost is read again, and embeds what was read at first."""
    if not load._found:
        read_of_load(load, keys)
        return
    read = load._ports.store.read(*map(path_of, keys))
    load._found |= {snapshot.id: snapshot for snapshot in read}


read_of_load = document_bulk._Load._read


class _Mute(Ports):
    """Ports for asking what would be written, without writing it."""

    def __init__(self, ports: Ports) -> None:
        super().__init__(ports.store, ports.queue, ports.clock, ports.log)


LINK_FAULTS = (
    _links("link-1", "looking at the source again", operations, "moved_since", lambda *_: False, NARROW),
    Fault(
        "link-1",
        "looking again after nothing was written",
        _only_after_writing,
        partial(links_world.run, kinds=NARROW),
    ),
    _links("link-2", "verifying copies that changed, not only gained ones", links, "_moved_copies", _gained_only),
    _links("link-3", "marking a target before its content is read", operations, "make_known", _mark_after_reading),
    _links("link-3", "the guard that ties the mark to what was read", operations, "_word", _mark_without_guard, PLAIN),
    _links("link-3", "a note for a target that is missing", operations, "_knows", _no_note),
    _links("link-3", "making the source known before a page reads it", operations, "page", _page_without_word),
    _links("link-3", "marking where the content is equal", operations, "verify", _mark_only_what_differs),
    _links("link-3", "looking whether a new document is wanted", operations, "wanted", lambda *_: False),
    _links("link-4", "counting the unknown as linked", links, "counts_as_linked", lambda one: bool(one and one.linked)),
    _links(
        "link-4",
        "storing the unknown as linked",
        documents,
        "linked_after_put",
        lambda one: bool(one and one.linked),
        FOREIGN,
    ),
    _links("link-5", "reading what an event does not say", links, "react_to_unknown", lambda _: links.Reaction()),
    _links("link-5", "asking for an event again", operations, "fan_out", _acknowledge_whatever_happened),
    _links("link-6", "the event in a page's name", operations, "hand_on", _named_without_the_event),
    _links("link-6", "the time in a new life's version", documents, "written", _versions_by_counting),
    _links("link-8", "marking what does not fit", links, "refresh", _refresh_without_bound),
    _links(
        "link-8",
        "leaving what can never be written",
        operations,
        "_reshape_or_report",
        _give_up_at_the_first_refusal,
        CROWDED,
    ),
    _links("link-8", "an end to documents outgrowing each other", links, "shape", _unmark_however_far, CROWDED),
    _links("guard", "the guard of a copy's write", operations, "embed", _always_guarded_by_nothing),
    _links("guard", "the guard of a put", document_operations, "embed", _always_guarded_by_nothing),
    _links("guard", "the guard of a merge", document_patches, "embed", _always_guarded_by_nothing, VERSATILE),
    _links("guard", "the guard of a put of many", document_bulk, "embed", _always_guarded_by_nothing, VERSATILE),
    _links(
        "condition", "a condition at the commit", document_operations, "put", _condition_at_the_read_only, VERSATILE
    ),
    Fault(
        "bulk",
        "embedding what is stored, not what is meant to be",
        _all_at_once_as_they_were_meant,
        partial(links_world.run, kinds=VERSATILE),
    ),
    _links("bulk", "reading targets again with who lost", document_bulk._Load, "_read", _losers_alone, VERSATILE),
)


# --- the outbox ---


def _hand_over_first(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    ports.queue.create(effects)
    return ports.store.commit(writes)


def _without_a_record(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    ports.queue.create(effects)
    return committed


def _record_in_a_commit_of_its_own(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = ports.store.commit(writes)
    record = f"{outbox.COLLECTION}/{ports.store.new_id()}"
    ports.store.commit([Put(record, outbox.encode(effects), Must.NOT_EXIST)])
    outbox.hand_over(ports, record, effects)
    return committed


def _forget_first(ports: Ports, record: str, effects: Sequence[Effect]) -> None:
    ports.store.commit([Delete(record)])
    ports.queue.create(effects)


def _forget_even_if_refused(ports: Ports, record: str, effects: Sequence[Effect]) -> None:
    with suppress(Unavailable):
        ports.queue.create(effects)
    ports.store.commit([Delete(record)])


def _hand_over_under_new_names(ports: Ports, record: str, effects: Sequence[Effect]) -> None:
    hand_over(ports, record, [replace(effect, name=ports.store.new_id()) for effect in effects])


hand_over = outbox.hand_over


def _time_to_live(ports: Ports) -> int:
    """What a time-to-live policy would do: records that are old go, whatever they hold."""
    for snapshot in ports.store.query(Query(outbox.COLLECTION)):
        if outbox._left_behind(snapshot):
            ports.store.commit([Delete(snapshot.path)])
    return 0


OUTBOX_FAULTS = (
    _outbox("outbox", "committing before handing over", outbox, "commit", _hand_over_first),
    _outbox("outbox", "a record of what to hand over", outbox, "commit", _without_a_record),
    _outbox("outbox", "the record in the same commit", outbox, "commit", _record_in_a_commit_of_its_own),
    _outbox("outbox", "handing over before forgetting", outbox, "hand_over", _forget_first),
    _outbox("outbox", "keeping what the queue refuses", outbox, "hand_over", _forget_even_if_refused),
    _outbox("outbox", "the same names each time", outbox, "hand_over", _hand_over_under_new_names),
    _outbox("outbox", "keeping old records (a time-to-live policy)", outbox, "sweep", _time_to_live),
    _outbox("outbox", "the sweeper", outbox, "sweep", lambda _: 0),
)

FAULTS = LINK_FAULTS + OUTBOX_FAULTS
