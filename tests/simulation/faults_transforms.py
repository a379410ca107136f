"""Planted faults of transformed links: a clause of `docs/protocols/links.md` left out. See `faults.py`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import product
from typing import Any
from unittest import mock

from shared.core.operations.ports import Ports, Snapshot
from shared.core.operations.record_sizes import is_full
from shared.documents.operations import link_inputs
from shared.documents.rules import copies, documents, links, refreshes
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import Content, Document
from shared.links.operations import copies as link_copies
from shared.links.operations import fan_out as operations
from shared.links.operations import fan_out_pages, marks, tasks
from shared.transforms.operations import transforms
from tests.simulation import links_world
from tests.simulation.faults import Fault, in_links
from tests.simulation.faults_links import differs
from tests.simulation.links_kinds import FIELDS, LOOSE, ROUND, SAME_OUTPUT, TO_AND_FRO, TRANSFORMED, TRANSFORMS


def _verify_by_sources_alone(
    ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str], extra_paths: Sequence[str] = ()
) -> Sequence[Snapshot]:
    """The output of any transform passes for that of the present one."""
    read = marks.mark_linked(ports, targets, extra_paths)
    sources = link_inputs.embedding_from(read[: len(targets)]).sources
    for target in targets:
        embeddings = (Embedding({target: sources[target]}, one) for one in ANY_TRANSFORMS)
        if all(differs(key, document, one) for one in embeddings):
            tasks.enqueue(ports, event_id, {"key": target, "document": key})
    return read[len(targets) :]


PLAIN_TRANSFORMS = (None, *(one for one in TRANSFORMS if isinstance(one, dict)))
"""Without the selector that turns a target's mark into a mark: it would pass for an untransformed copy."""

ANY_TRANSFORMS = [{"x": x, "y": y} for x, y in product(PLAIN_TRANSFORMS, repeat=2)]


def _changed_sources_alone(before: Sequence[Snapshot], after: Sequence[Snapshot]) -> list[Snapshot]:
    return [one for one in changed_inputs(before, after) if one.path.startswith(f"{documents.COLLECTION}/")]


changed_inputs = link_inputs.changed_inputs


def _copy_at_any_hop(*where: Any, hops: int = 0, refuse: bool = False) -> Content:
    return copies.copy_at(*where, refuse=refuse)


def _transform_at_any_hop() -> AbstractContextManager[Any]:
    """The output of a transform is refreshed however far away the change was."""
    stack = ExitStack()
    for module in (links, refreshes):
        stack.enter_context(mock.patch.object(module, "copy_at", _copy_at_any_hop))
    return stack


def _embedding_without_transforms(read: Sequence[Snapshot]) -> Embedding:
    return Embedding(embedding_from(read).sources, dict.fromkeys(FIELDS))


embedding_from = link_inputs.embedding_from


def _walk_page_without_marks(ports: Ports, event_id: str, name: str, cursor: str) -> None:
    query = fan_out_pages.documents_with_links(name, cursor)
    found = ports.store.query(query)
    if is_full(query, found):
        tasks.enqueue(ports, event_id, {"transform": name, "cursor": found[-1].id})
    for group, keys in fan_out_pages._groups(found, name):
        paths = [*map(documents.path_of, keys), *link_copies.transform_paths(group, keys)]
        link_copies.refresh(ports, "", group, ports.store.read(*paths))


FAULTS = (
    in_links(
        "link-3",
        "marking targets before a walk reads them",
        fan_out_pages,
        "walk_page",
        _walk_page_without_marks,
        SAME_OUTPUT,
    ),
    in_links("link-7", "verifying transforms", operations, "verify_copies", _verify_by_sources_alone, LOOSE),
    in_links("link-7", "reading transforms again", link_inputs, "changed_inputs", _changed_sources_alone, TO_AND_FRO),
    in_links(
        "transform-1",
        "transforms where copies are refreshed",
        link_inputs,
        "embedding_from",
        _embedding_without_transforms,
        TRANSFORMED,
    ),
    in_links("transform-2", "the walk of a transform", transforms, "walk_from", lambda _: (), TRANSFORMED),
    Fault(
        "transform-3",
        "an end to growth round a cycle",
        _transform_at_any_hop,
        partial(links_world.run, kinds=ROUND),
    ),
)
