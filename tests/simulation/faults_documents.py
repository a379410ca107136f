"""Clauses of putting and merging documents to leave out, one at a time; `faults.py` says what that is for."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations.ports import Ports, Put, Snapshot
from shared.documents.operations import bulk as document_bulk
from shared.documents.operations import documents as operations
from shared.documents.operations import patches as document_patches
from shared.documents.rules import bulk
from shared.documents.rules.documents import Content, path_of
from shared.documents.rules.preconditions import UNCONDITIONAL, Precondition
from shared.links.operations import copies as link_copies
from shared.links.operations import normalization as link_shapes
from tests.simulation import links_world
from tests.simulation.faults import Fault, in_links
from tests.simulation.links_kinds import FOREIGN, VERSATILE


def _always_guarded_by_nothing(snapshot: Snapshot, content: Content, *rest: Any, **more: Any) -> Put:
    return replace(embed(snapshot, content, *rest, **more), guard=None)


embed = operations.embed


def _condition_at_the_read_only(
    ports: Ports, key: str, body: Any, precondition: Precondition = UNCONDITIONAL
) -> operations.Stored:
    precondition.check_write(operations.etag_of(ports.store.read(path_of(key))[0]))
    return put(ports, key, body)


put = operations.put


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


FAULTS = (
    in_links("guard", "the guard of a copy's write", link_copies, "embed", _always_guarded_by_nothing),
    in_links("guard", "the guard of bringing into shape", link_shapes, "embed", _always_guarded_by_nothing, FOREIGN),
    in_links("guard", "the guard of a put", operations, "embed", _always_guarded_by_nothing),
    in_links("guard", "the guard of a merge", document_patches, "embed", _always_guarded_by_nothing, VERSATILE),
    in_links("guard", "the guard of a put of many", document_bulk, "embed", _always_guarded_by_nothing, VERSATILE),
    in_links("condition", "a condition at the commit", operations, "put", _condition_at_the_read_only, VERSATILE),
    Fault(
        "bulk",
        "embedding what is stored, not what is meant to be",
        _all_at_once_as_they_were_meant,
        partial(links_world.run, kinds=VERSATILE),
    ),
    in_links("bulk", "reading targets again with who lost", document_bulk._Load, "_read", _losers_alone, VERSATILE),
)
