"""Planted faults of transformed links: a clause of `docs/protocols/links.md` left out. See `fault.py`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from signalbox.core.ports import Ports, Snapshot, is_full
from signalbox.documents.machine import copies
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.model import stamped_contents as model
from signalbox.documents.model.contents import Content
from signalbox.documents.model.stamped_contents import Document
from signalbox.documents.storage import embedded_copies
from signalbox.links import machine, storage
from signalbox.links.service import refreshes
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.links.copies import differs
from tests.simulation.faults.links.planting import in_links, in_world
from tests.simulation.faults.points import Replacements, always, original
from tests.simulation.worlds.links.kinds import (
    FIELDS,
    LOOSE,
    MUTUAL,
    ROUND,
    SAME_OUTPUT,
    TO_AND_FRO,
    TRANSFORMED,
    TRANSFORMS,
)


def _verify_by_sources_alone(
    ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str], extra_paths: Sequence[str] = ()
) -> Sequence[Snapshot]:
    """The output of any transform passes for that of the present one."""
    read = storage.mark_linked(ports, targets, extra_paths)
    sources = embedded_copies.embedding_from(read[: len(targets)]).sources
    for target in targets:
        embeddings = (Embedding({target: sources[target]}, one) for one in ANY_TRANSFORMS)
        if all(differs(key, document, one) for one in embeddings):
            ports.queue.create([machine.copy_task(event_id, target, key)])
    return read[len(targets) :]


PLAIN_TRANSFORMS = (None, *(one for one in TRANSFORMS if isinstance(one, dict)))
"""Without the selector that turns a target's mark into a mark: it would pass for an untransformed copy."""

ANY_TRANSFORMS = [{"x": x, "y": y} for x, y in product(PLAIN_TRANSFORMS, repeat=2)]


def _changed_sources_alone(before: Sequence[Snapshot], after: Sequence[Snapshot]) -> list[Snapshot]:
    return [one for one in changed_inputs(before, after) if one.path.startswith(f"{model.COLLECTION}/")]


changed_inputs = original("documents.changed_inputs")


def _copy_at_any_hop(*where: Any, hops: int = 0, refuse: bool = False) -> Content:
    return copies.copy_at(*where, refuse=refuse)


def _transform_at_any_hop() -> Replacements:
    """The output of a transform is refreshed however far away the change was."""
    return [("documents.copy_at", _copy_at_any_hop)]


def _embedding_without_transforms(read: Sequence[Snapshot]) -> Embedding:
    return Embedding(embedding_from(read).sources, dict.fromkeys(FIELDS))


embedding_from = original("documents.embedding_from")


def _walk_page_without_marks(ports: Ports, event_id: str, name: str, cursor: str) -> None:
    query = storage.documents_with_links(name, cursor)
    found = ports.store.query(query)
    if is_full(query, found):
        ports.queue.create([machine.next_walk_task(event_id, name, found[-1].id)])
    for group, keys in refreshes.groups_of_walk(found, name):
        paths = [*map(model.path_of, keys), *refreshes.transform_paths_in(group, keys)]
        refreshes.refresh(ports, "", group, ports.store.read(*paths))


def _read_both_once(ports: Ports, inputs: Sequence[str], linking: Sequence[str]) -> tuple[Any, ...]:
    """A document that is also an input is returned among the inputs alone."""
    read, found, unread = read_both(ports, inputs, linking)
    alone = [snapshot for snapshot in found if snapshot.path not in inputs]
    return read, alone, [*unread, *(path for path in linking if path in inputs and path not in unread)]


read_both = original("links.read_both")


FAULTS = (
    Fault(
        "transform-2",
        "documents of a walk that are also its inputs",
        always(("links.read_both", _read_both_once), ("links.pause_or_give_up", lambda *_: None)),
        in_world(MUTUAL),
    ),
    in_links(
        "link-3",
        "marking targets before a walk reads them",
        "links.walk_page",
        _walk_page_without_marks,
        SAME_OUTPUT,
    ),
    in_links("link-7", "verifying transforms", "links.verify_copies", _verify_by_sources_alone, LOOSE),
    in_links("link-7", "reading transforms again", "documents.changed_inputs", _changed_sources_alone, TO_AND_FRO),
    in_links(
        "transform-1",
        "transforms where copies are refreshed",
        "documents.embedding_from",
        _embedding_without_transforms,
        TRANSFORMED,
    ),
    in_links("transform-2", "the walk of a transform", "transforms.walk_from", lambda _: (), TRANSFORMED),
    Fault(
        "transform-3",
        "an end to growth round a cycle",
        _transform_at_any_hop,
        in_world(ROUND),
    ),
)
