"""Planted faults of links: a clause of `docs/protocols/links.md` left out. See `fault.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from signalbox.core import keys as core_keys
from signalbox.core.effects import name_of
from signalbox.core.ports import Change, Conflict, Must, Ports, Snapshot, Write
from signalbox.core.problems import Problem, Unavailable
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine import copies, links
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.machine.reactions import Reaction, page_task
from signalbox.documents.model import stamped_contents as model
from signalbox.documents.model.contents import Content, Surveyed
from signalbox.documents.model.sizes import Size, size_of
from signalbox.documents.model.stamped_contents import Document, path_of
from signalbox.documents.storage import embedded_copies
from signalbox.links import storage
from signalbox.links.service import refreshes
from signalbox.testing.replaced_limits import replaced
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.links.planting import in_links, in_world
from tests.simulation.faults.points import Replacements, original
from tests.simulation.worlds.links.kinds import (
    CHAIN,
    CROWDED,
    FOREIGN,
    INDEXED,
    LENGTHY,
    NARROW,
    PAGE_COPIES,
    PLAIN,
    WIDE,
)


def _check_again_only_after_writing() -> Replacements:
    """A page reads its inputs again only when it wrote something."""
    wrote: list[bool] = [False]
    write_copies, changed_inputs = refreshes.write_copies, embedded_copies.changed_inputs

    def watched(
        ports: Ports, key: str, linking: Sequence[Snapshot], inputs: Sequence[Snapshot], hops: int
    ) -> tuple[list[str], Any]:
        embedding = embedded_copies.embedding_from(inputs)
        wrote[0] = any(refreshes.refreshed(_Silent(ports), one, embedding, hops) for one in linking)
        return write_copies(ports, key, linking, inputs, hops)

    def changed(before: Sequence[Snapshot], after: Sequence[Snapshot]) -> list[Snapshot]:
        return changed_inputs(before, after) if wrote[0] else []

    return [
        ("links.write_copies", watched),
        ("documents.changed_inputs", changed),
    ]


class _Silent(Ports):
    """Ports for computing a write without logging."""

    def __init__(self, ports: Ports) -> None:
        super().__init__(ports.store, ports.queue, ports.clock, ports.log)


def _verify_gained_links_only(before: Document | None, after: Document) -> tuple[str, ...]:
    old = set() if before is None else set(before.surveyed.link_keys)
    return tuple(key for key in after.surveyed.link_keys if key not in old)


def _mark_after_reading(ports: Ports, keys: Sequence[str], extra_paths: Sequence[str] = ()) -> tuple[Snapshot, ...]:
    read = ports.store.read(*map(path_of, keys), *extra_paths)
    for snapshot in read[: len(keys)]:
        with suppress(Conflict):
            ports.store.commit([replace(mark_write(snapshot), guard=Must.EXIST if snapshot.data else None)])
    return read


def _mark_without_guard(snapshot: Snapshot) -> Write:
    write = mark_write(snapshot)
    return replace(write, guard=Must.EXIST) if isinstance(write, Change) else write


mark_write = original("links.mark_write")


def _missing_counts_as_linked(snapshot: Snapshot, noted: Any) -> bool:
    return snapshot.data is None or is_linked(snapshot, noted)


is_linked = original("links.is_linked")


def _refresh_page_without_mark(ports: Ports, event_id: str, key: str, cursor: str, _limit: int = 0) -> None:
    found = ports.store.query(storage.linking_documents(key, cursor, PAGE_COPIES))
    if len(found) == PAGE_COPIES:
        ports.queue.create([page_task(event_id, key, found[-1].id)])
    if found:
        inputs = ports.store.read(path_of(key), *refreshes.transform_paths_in(found, [key]))
        refreshes.refresh(ports, key, found, inputs)


def _mark_only_what_differs(
    ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str], extra_paths: Sequence[str] = ()
) -> Sequence[Snapshot]:
    embedding = embedded_copies.embedding_from(ports.store.read(*embedded_copies.input_paths(document.surveyed)))
    differing = [one for one in targets if differs(key, document, embedding.only(one))]
    if differing:
        return verify_copies(ports, event_id, key, document, differing, extra_paths)
    return ports.store.read(*extra_paths) if extra_paths else ()


def differs(key: str, document: Document, embedding: Embedding) -> bool:
    """Return whether some copy in a document is not as it would be made now."""
    return links.refresh_copies(key, document, embedding) is not links.Refresh.UNCHANGED


verify_copies = original("links.verify_copies")


def _acknowledge_always(ports: Ports, event: Any) -> None:
    with suppress(Unavailable):
        fan_out(ports, event)


fan_out = original("links.fan_out")


def _count_versions(
    before: Document | None, content: Surveyed, author: Any, _: datetime, *, linked: bool, hops: int = 0
) -> Document:
    version = before.stamp.version + 1 if before and before.stamp else 1
    return Document(content, model.Stamp(version, author, content.digest, hops), linked)


def _refresh_without_size_limit(key: str, document: Document, embedding: Embedding, hops: int = 0) -> Any:
    with replaced(document_bytes_max=10**9):
        return refresh_copies(key, document, embedding, hops)


refresh_copies = original("documents.refresh_copies")


def _refresh_by_bytes_alone(key: str, document: Document, embedding: Embedding, hops: int = 0) -> Any:
    with replaced(index_entries_max=10**9):
        return refresh_copies(key, document, embedding, hops)


def _retry_permanent_errors(ports: Ports, key: str, hops: int) -> None:
    try:
        refreshes.normalize(ports, key, hops)
    except Problem as problem:
        raise Unavailable("a page that cannot be finished is retried") from problem


def _keep_marks_beyond_the_last_hop(
    key: str, content: Surveyed, embedding: Embedding, hops: int = 0, *, refuse: bool = True
) -> Surveyed:
    embedded = embed_links(key, content, embedding, hops, refuse=refuse)
    marked = {at: link for at, link in content.links if copies.is_too_large(link)}
    return embedded.with_copies(marked) if hops > LIMITS.hops_max else embedded


embed_links = original("documents.embed_links")


def _any_levels(_: Any) -> int:
    """A copy shows whatever its target shows."""
    return LIMITS.link_levels_max - 1


def _choose_by_hops() -> Replacements:
    """A document that outgrows the next one lets it fit the one after that; only the count of hops ends it."""
    return [
        ("documents.complete_levels", _any_levels),
        ("documents.fitted", _whole_copies_or_marks),
        ("documents.embed_links", _keep_marks_beyond_the_last_hop),
    ]


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


cut = original("documents.cut")


def _keys_as_long_as_ids() -> Replacements:
    """A key may be as long as Firestore's ids."""
    return [("core.key_bytes_max", core_keys.NAME_BYTES_MAX)]


FAULTS = (
    in_links("link-1", "reading the inputs again", "documents.changed_inputs", lambda *_: [], NARROW),
    Fault(
        "link-1",
        "reading the inputs again after nothing was written",
        _check_again_only_after_writing,
        in_world(NARROW),
    ),
    in_links(
        "link-2",
        "verifying changed copies, not only new links",
        "documents.changed_copies",
        _verify_gained_links_only,
    ),
    in_links("link-3", "marking a target before it is read", "links.mark_linked", _mark_after_reading, WIDE),
    in_links("link-3", "the guard of the mark", "links.mark_write", _mark_without_guard, PLAIN),
    in_links("link-3", "the note for a missing target", "links.is_linked", _missing_counts_as_linked),
    in_links("link-3", "marking the source before a page reads it", "links.refresh_page", _refresh_page_without_mark),
    in_links("link-3", "marking where the content is equal", "links.verify_copies", _mark_only_what_differs),
    in_links("link-3", "checking the note of a new document", "links.has_wanted_note", lambda *_: False),
    in_links(
        "link-4", "counting unknown as linked", "documents.counts_as_linked", lambda one: bool(one and one.linked)
    ),
    in_links(
        "link-4",
        "storing unknown as linked",
        "documents.counts_as_linked in writes",
        lambda one: bool(one and one.linked),
        FOREIGN,
    ),
    in_links("link-5", "reacting to an event without data", "documents.react_to_unknown", lambda _: Reaction()),
    in_links("link-5", "the retry of an event", "links.fan_out", _acknowledge_always),
    in_links(
        "link-6",
        "the event in a task's name",
        "documents.link_task_name",
        lambda _, work: name_of("links", *sorted(work.items())),
    ),
    in_links("link-6", "the time in a version", "documents.stamped", _count_versions),
    in_links("link-8", "marking a copy that does not fit", "documents.refresh_copies", _refresh_without_size_limit),
    in_links("link-8", "counting index entries", "documents.refresh_copies", _refresh_by_bytes_alone, INDEXED),
    in_links(
        "link-8",
        "acknowledging permanent errors",
        "links.normalize_or_report",
        _retry_permanent_errors,
        CROWDED,
    ),
    Fault("link-10", "choosing by contents, not by hops", _choose_by_hops, in_world(CHAIN)),
    in_links("link-10", "an end to the copies in a copy", "documents.cut", _cut_for_room_alone, CHAIN),
    Fault(
        "link-9",
        "keys that a query can name",
        _keys_as_long_as_ids,
        in_world(LENGTHY),
    ),
)
