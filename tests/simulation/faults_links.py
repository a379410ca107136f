"""Planted faults of links: a clause of `docs/protocols/links.md` left out. See `faults.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations.ports import Change, Conflict, Must, Ports, Snapshot, Write
from shared.core.rules import keys
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, Unavailable
from shared.documents.operations import link_inputs
from shared.documents.rules import copies, documents, links, refreshes
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import Content, Document, path_of
from shared.documents.rules.fitting import fits_with_any_marks
from shared.documents.rules.sizes import Size, size_of
from shared.links.operations import copies as link_copies
from shared.links.operations import fan_out as operations
from shared.links.operations import fan_out_pages, marks, normalization, tasks
from shared.links.rules import events
from tests.simulation import links_world
from tests.simulation.faults import Fault, in_links
from tests.simulation.links_kinds import CHAIN, CROWDED, FOREIGN, INDEXED, LENGTHY, NARROW, PAGE_COPIES, PLAIN, WIDE


def _check_again_only_after_writing() -> AbstractContextManager[Any]:
    """A page reads its inputs again only when it wrote something."""
    wrote: list[bool] = [False]
    write_copies, changed_inputs = link_copies.write_copies, link_inputs.changed_inputs

    def watched(
        ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot], hops: int
    ) -> tuple[list[str], Any]:
        embedding = link_inputs.embedding_from(inputs)
        wrote[0] = any(link_copies._refreshed(_Silent(ports), one, embedding, hops) for one in linking)
        return write_copies(ports, key, linking, inputs, hops)

    def changed(before: Sequence[Snapshot], after: Sequence[Snapshot]) -> list[Snapshot]:
        return changed_inputs(before, after) if wrote[0] else []

    stack = ExitStack()
    stack.enter_context(mock.patch.object(link_copies, "write_copies", watched))
    stack.enter_context(mock.patch.object(link_inputs, "changed_inputs", changed))
    return stack


class _Silent(Ports):
    """Ports for computing a write without logging."""

    def __init__(self, ports: Ports) -> None:
        super().__init__(ports.store, ports.queue, ports.clock, ports.log)


def _verify_gained_links_only(before: Document | None, after: Document) -> tuple[str, ...]:
    old = set() if before is None else set(links.link_keys(before.content))
    return tuple(key for key in links.link_keys(after.content) if key not in old)


def _mark_after_reading(ports: Ports, keys: Sequence[str], extra_paths: Sequence[str] = ()) -> tuple[Snapshot, ...]:
    read = ports.store.read(*map(path_of, keys), *extra_paths)
    for snapshot in read[: len(keys)]:
        with suppress(Conflict):
            ports.store.commit([replace(mark_write(snapshot), guard=Must.EXIST if snapshot.data else None)])
    return read


def _mark_without_guard(snapshot: Snapshot) -> Write:
    write = mark_write(snapshot)
    return replace(write, guard=Must.EXIST) if isinstance(write, Change) else write


mark_write = marks._mark_write


def _missing_counts_as_linked(snapshot: Snapshot, noted: Any) -> bool:
    return snapshot.data is None or is_linked(snapshot, noted)


is_linked = marks._is_linked


def _refresh_page_without_mark(ports: Ports, event_id: str, key: str, cursor: str, _limit: int = 0) -> None:
    found = ports.store.query(fan_out_pages.linking_documents(key, cursor, PAGE_COPIES))
    if len(found) == PAGE_COPIES:
        tasks.enqueue(ports, event_id, {"key": key, "cursor": found[-1].id})
    if found:
        inputs = ports.store.read(path_of(key), *link_copies.transform_paths(found, [key]))
        link_copies.refresh(ports, key, found, inputs)


def _mark_only_what_differs(
    ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str], extra_paths: Sequence[str] = ()
) -> Sequence[Snapshot]:
    embedding = link_inputs.embedding_from(ports.store.read(*link_inputs.input_paths(document.content)))
    differing = [one for one in targets if differs(key, document, embedding.only(one))]
    if differing:
        return verify_copies(ports, event_id, key, document, differing, extra_paths)
    return ports.store.read(*extra_paths) if extra_paths else ()


def differs(key: str, document: Document, embedding: Embedding) -> bool:
    """Return whether some copy in a document is not as it would be made now."""
    return refreshes.refresh_copies(key, document, embedding) is not refreshes.Refresh.UNCHANGED


verify_copies = operations.verify_copies


def _acknowledge_always(ports: Ports, event: Any) -> None:
    with suppress(Unavailable):
        fan_out(ports, event)


fan_out = operations.fan_out


def _name_without_event(ports: Ports, event_id: str, work: Mapping[str, str], **context: int) -> None:
    name = name_of("links", *sorted(work.items()))
    payload = {"event": event_id, "work": dict(work), **context}
    ports.queue.create([Effect(name, "links", "link_refresh", "refresh", payload)])


def _count_versions(
    before: Document | None, content: Content, author: Any, _: datetime, *, linked: bool, hops: int = 0
) -> Document:
    version = before.stamp.version + 1 if before and before.stamp else 1
    return Document(content, documents.Stamp(version, author, documents.digest(content), hops), linked)


def _refresh_without_size_limit(key: str, document: Document, embedding: Embedding, hops: int = 0) -> Any:
    with LIMITS.replaced(document_bytes_max=10**9):
        return refresh_copies(key, document, embedding, hops)


refresh_copies = refreshes.refresh_copies


def _fits_in_bytes(content: Content, size: Size) -> bool:
    return fits_with_any_marks(content, Size(size.bytes))


def _retry_permanent_errors(ports: Ports, key: str, hops: int) -> None:
    try:
        normalization.normalize(ports, key, hops)
    except Problem as problem:
        raise Unavailable("a page that cannot be finished is retried") from problem


def _keep_marks_beyond_the_last_hop(
    key: str, content: Content, embedding: Embedding, hops: int = 0, *, refuse: bool = True
) -> Content:
    embedded = embed_links(key, content, embedding, hops, refuse=refuse)
    marked = {at: link for at, link in links.links(content) if copies.is_too_large(link)}
    return links.with_copies(embedded, marked) if hops > LIMITS.hops_max else embedded


embed_links = links.embed_links


def _any_levels(_: Any) -> int:
    """A copy shows whatever its target shows."""
    return LIMITS.link_levels_max - 1


def _choose_by_hops() -> AbstractContextManager[Any]:
    """A document that outgrows the next one lets it fit the one after that; only the count of hops ends it."""
    stack = ExitStack()
    stack.enter_context(mock.patch.object(copies, "complete_levels", _any_levels))
    stack.enter_context(mock.patch.object(links, "fitted", _whole_copies_or_marks))
    stack.enter_context(mock.patch.object(links, "embed_links", _keep_marks_beyond_the_last_hop))
    return stack


def _whole_copies_or_marks(made: Mapping[Any, Content], above: str, room: Size) -> dict[Any, Content]:
    chosen: dict[Any, Content] = {}
    for at, copy in made.items():
        mark = {"key": copy["key"], "link_too_large": True}
        growth = size_of(copy) - size_of(mark)
        chosen[at] = copy if growth.fits_into(room) else mark
        room -= growth if growth.fits_into(room) else Size()
    return chosen


def _cut_for_room_alone(copy: Content, above: str, levels: int, mark: str) -> Content:
    return cut(copy, above, 99 if mark == "link_too_deep" else levels, mark)


cut = copies.cut


def _keys_as_long_as_ids() -> AbstractContextManager[Any]:
    """A key may be as long as Firestore lets an id be."""
    return LIMITS.replaced(key_bytes_max=keys.NAME_BYTES_MAX)


FAULTS = (
    in_links("link-1", "reading the inputs again", link_inputs, "changed_inputs", lambda *_: [], NARROW),
    Fault(
        "link-1",
        "reading the inputs again after nothing was written",
        _check_again_only_after_writing,
        partial(links_world.run, kinds=NARROW),
    ),
    in_links(
        "link-2",
        "verifying changed copies, not only new links",
        events,
        "_changed_copies",
        _verify_gained_links_only,
    ),
    in_links("link-3", "marking a target before it is read", marks, "mark_linked", _mark_after_reading, WIDE),
    in_links("link-3", "the guard of the mark", marks, "_mark_write", _mark_without_guard, PLAIN),
    in_links("link-3", "the note for a missing target", marks, "_is_linked", _missing_counts_as_linked),
    in_links(
        "link-3", "marking the source before a page reads it", fan_out_pages, "refresh_page", _refresh_page_without_mark
    ),
    in_links("link-3", "marking where the content is equal", operations, "verify_copies", _mark_only_what_differs),
    in_links("link-3", "checking the note of a new document", marks, "has_wanted_note", lambda *_: False),
    in_links(
        "link-4", "counting unknown as linked", documents, "counts_as_linked", lambda one: bool(one and one.linked)
    ),
    in_links(
        "link-4",
        "storing unknown as linked",
        documents,
        "linked_after_put",
        lambda one: bool(one and one.linked),
        FOREIGN,
    ),
    in_links("link-5", "reacting to an event without data", events, "react_to_unknown", lambda _: events.Reaction()),
    in_links("link-5", "the retry of an event", operations, "fan_out", _acknowledge_always),
    in_links("link-6", "the event in a task's name", tasks, "enqueue", _name_without_event),
    in_links("link-6", "the time in a version", documents, "stamped", _count_versions),
    in_links("link-8", "marking a copy that does not fit", refreshes, "refresh_copies", _refresh_without_size_limit),
    in_links("link-8", "counting index entries", refreshes, "fits_with_any_marks", _fits_in_bytes, INDEXED),
    in_links(
        "link-8",
        "acknowledging permanent errors",
        normalization,
        "normalize_or_report",
        _retry_permanent_errors,
        CROWDED,
    ),
    Fault("link-10", "choosing by contents, not by hops", _choose_by_hops, partial(links_world.run, kinds=CHAIN)),
    in_links("link-10", "an end to the copies in a copy", copies, "cut", _cut_for_room_alone, CHAIN),
    Fault(
        "link-9",
        "keys that a query can name",
        _keys_as_long_as_ids,
        partial(links_world.run, kinds=LENGTHY),
    ),
)
