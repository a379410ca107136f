"""Clauses of the links' protocol to leave out, one at a time; `faults.py` says what that is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations.ports import Change, Conflict, Must, Ports, Snapshot, Write
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, Unavailable
from shared.documents.operations import embedding
from shared.documents.rules import documents, links
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import Content, Document, path_of
from shared.links.operations import (
    copies as link_copies,
)
from shared.links.operations import fan_out as operations
from shared.links.operations import (
    marks as link_marks,
)
from shared.links.operations import (
    normalization as link_shapes,
)
from shared.links.operations import (
    pages as link_pages,
)
from shared.links.operations import (
    tasks as link_tasks,
)
from shared.links.rules import events as link_events
from tests.simulation import links_world
from tests.simulation.faults import Fault, in_links
from tests.simulation.links_kinds import CROWDED, FOREIGN, NARROW, OUTGROWING, PAGE_COPIES, PLAIN, WIDE


def _only_after_writing() -> AbstractContextManager[Any]:
    """A page looks at its source again only when it wrote something."""
    wrote: list[bool] = [False]
    write_copies, moved = link_copies.write_copies, embedding.moved

    def watched(
        ports: Ports, key: str, linking: Sequence[Snapshot], around: Sequence[Snapshot], hops: int
    ) -> tuple[list[str], Any]:
        now = embedding.given(around)
        wrote[0] = any(link_copies._refreshed(_Mute(ports), one, now, hops) for one in linking)
        return write_copies(ports, key, linking, around, hops)

    stack = ExitStack()
    stack.enter_context(mock.patch.object(link_copies, "write_copies", watched))
    stack.enter_context(mock.patch.object(embedding, "moved", lambda one, other: moved(one, other) if wrote[0] else []))
    return stack


def _gained_only(before: Document | None, after: Document) -> tuple[str, ...]:
    old = set() if before is None else set(links.link_keys(before.content))
    return tuple(key for key in links.link_keys(after.content) if key not in old)


def _mark_after_reading(ports: Ports, keys: Sequence[str], beside: Sequence[str] = ()) -> tuple[Snapshot, ...]:
    read = ports.store.read(*map(path_of, keys), *beside)
    for snapshot in read[: len(keys)]:
        with suppress(Conflict):
            ports.store.commit([replace(word(snapshot), guard=Must.EXIST if snapshot.data else None)])
    return read


def _mark_without_guard(snapshot: Snapshot) -> Write:
    made = word(snapshot)
    return replace(made, guard=Must.EXIST) if isinstance(made, Change) else made


word = link_marks._word


def _no_note(snapshot: Snapshot, noted: Any) -> bool:
    return snapshot.data is None or knows(snapshot, noted)


knows = link_marks._knows


def _page_without_word(ports: Ports, event_id: str, key: str, cursor: str, _copies: int = 0) -> None:
    found = ports.store.query(link_pages.linkers(key, cursor, PAGE_COPIES))
    if len(found) == PAGE_COPIES:
        link_tasks.hand_on(ports, event_id, {"key": key, "cursor": found[-1].id})
    if found:
        link_copies.refresh(ports, key, found, ports.store.read(path_of(key), *link_copies.transforms_of(found, [key])))


def _mark_only_what_differs(ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str]) -> None:
    now = embedding.given(ports.store.read(*embedding.needs(document.content)))
    differ = [one for one in targets if differs(key, document, now.only(one))]
    if differ:
        verify(ports, event_id, key, document, differ)


def differs(key: str, document: Document, now: Embedding) -> bool:
    """Tell whether some copy in a document is not as it would be made now."""
    return links.refresh(key, document, now) is not links.Refresh.UNCHANGED


verify = operations.verify


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


def _refresh_without_bound(key: str, document: Document, now: Embedding, hops: int = 0) -> Any:
    with LIMITS.replaced(document_bytes_max=10**9):
        return refresh(key, document, now, hops)


refresh = links.refresh


def _give_up_at_the_first_refusal(ports: Ports, key: str, hops: int) -> None:
    try:
        link_shapes.reshape(ports, key, hops)
    except Problem as problem:
        raise Unavailable("a page that cannot be finished is tried again") from problem


def _unmark_however_far(key: str, content: Content, now: Embedding, _: int = 0, *, refuse: bool = True) -> Content:
    return shape(key, content, now, refuse=refuse)


shape = links.shape


class _Mute(Ports):
    """Ports for asking what would be written, without writing it."""

    def __init__(self, ports: Ports) -> None:
        super().__init__(ports.store, ports.queue, ports.clock, ports.log)


FAULTS = (
    in_links("link-1", "looking at the source again", embedding, "moved", lambda *_: [], NARROW),
    Fault(
        "link-1",
        "looking again after nothing was written",
        _only_after_writing,
        partial(links_world.run, kinds=NARROW),
    ),
    in_links(
        "link-2", "verifying copies that changed, not only gained ones", link_events, "_moved_copies", _gained_only
    ),
    in_links(
        "link-3", "marking a target before its content is read", link_marks, "make_known", _mark_after_reading, WIDE
    ),
    in_links(
        "link-3", "the guard that ties the mark to what was read", link_marks, "_word", _mark_without_guard, PLAIN
    ),
    in_links("link-3", "a note for a target that is missing", link_marks, "_knows", _no_note),
    in_links("link-3", "making the source known before a page reads it", link_pages, "page", _page_without_word),
    in_links("link-3", "marking where the content is equal", operations, "verify", _mark_only_what_differs),
    in_links("link-3", "looking whether a new document is wanted", link_marks, "wanted", lambda *_: False),
    in_links(
        "link-4", "counting the unknown as linked", documents, "counts_as_linked", lambda one: bool(one and one.linked)
    ),
    in_links(
        "link-4",
        "storing the unknown as linked",
        documents,
        "linked_after_put",
        lambda one: bool(one and one.linked),
        FOREIGN,
    ),
    in_links(
        "link-5",
        "reading what an event does not say",
        link_events,
        "react_to_unknown",
        lambda _: link_events.Reaction(),
    ),
    in_links("link-5", "asking for an event again", operations, "fan_out", _acknowledge_whatever_happened),
    in_links("link-6", "the event in a page's name", link_tasks, "hand_on", _named_without_the_event),
    in_links("link-6", "the time in a new life's version", documents, "written", _versions_by_counting),
    in_links("link-8", "marking what does not fit", links, "refresh", _refresh_without_bound),
    in_links(
        "link-8",
        "leaving what can never be written",
        link_shapes,
        "reshape_or_report",
        _give_up_at_the_first_refusal,
        CROWDED,
    ),
    in_links("link-8", "an end to documents outgrowing each other", links, "shape", _unmark_however_far, OUTGROWING),
)
