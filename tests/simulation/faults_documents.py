"""Planted faults of puts and merges: a clause of `docs/protocols/links.md` left out. See `faults.py`."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations.ports import Ports
from shared.documents.operations import bulk as document_bulk
from shared.documents.operations import document_writes
from shared.documents.operations import documents as operations
from shared.documents.operations import patches as document_patches
from shared.documents.operations.bulk import _BulkPut
from shared.documents.operations.document_writes import DocumentWrite
from shared.documents.operations.stored_documents import StoredDocument, etag_of
from shared.documents.rules import bulk
from shared.documents.rules.documents import path_of
from shared.documents.rules.preconditions import UNCONDITIONAL
from shared.documents.rules.requests import PutRequest
from shared.links.operations import copies as link_copies
from shared.links.operations import normalization
from tests.simulation import links_world
from tests.simulation.faults import Fault, in_links
from tests.simulation.links_kinds import FOREIGN, VERSATILE


def _unguarded_put(*read: Any, **header: Any) -> DocumentWrite:
    made = put_write(*read, **header)
    return replace(made, write=replace(made.write, guard=None))


put_write = document_writes.put_write


def _unguarded_write(*read: Any, **metadata: Any) -> DocumentWrite:
    made = document_write(*read, **metadata)
    return replace(made, write=replace(made.write, guard=None))


document_write = document_writes.document_write


def _check_precondition_before_the_put(ports: Ports, request: PutRequest) -> StoredDocument:
    request.precondition.check_write(etag_of(ports.store.read(path_of(request.key))[0]))
    return put(ports, replace(request, precondition=UNCONDITIONAL))


put = operations.put


def _embed_what_the_call_brings() -> AbstractContextManager[Any]:
    """The documents of a call embed what the call brings, stored or not."""

    def read(call: _BulkPut, keys: Any) -> None:
        read_of_call(call, keys)
        call._sources |= call._contents

    stack = ExitStack()
    stack.enter_context(mock.patch.object(_BulkPut, "_read", read))
    stack.enter_context(mock.patch.object(bulk, "waves", lambda targets: [list(targets)]))
    return stack


def _read_losers_without_targets(call: _BulkPut, keys: Any) -> None:
    """A document that lost its guard is read again, and embeds what was read at first."""
    if not call._found:
        read_of_call(call, keys)
        return
    read = call._ports.store.read(*map(path_of, keys))
    call._found |= {snapshot.id: snapshot for snapshot in read}


read_of_call = _BulkPut._read


FAULTS = (
    in_links("document-1", "the guard of a refresh", link_copies, "document_write", _unguarded_write),
    in_links("document-1", "the guard of a normalization", normalization, "document_write", _unguarded_write, FOREIGN),
    in_links("document-1", "the guard of a put", operations, "put_write", _unguarded_put),
    in_links("document-1", "the guard of a merge", document_patches, "put_write", _unguarded_put, VERSATILE),
    in_links("document-1", "the guard of a bulk put", document_bulk, "put_write", _unguarded_put, VERSATILE),
    in_links(
        "document-2",
        "a precondition at the commit",
        operations,
        "put",
        _check_precondition_before_the_put,
        VERSATILE,
    ),
    Fault(
        "bulk-1",
        "embedding what is stored, not what the call brings",
        _embed_what_the_call_brings,
        partial(links_world.run, kinds=VERSATILE),
    ),
    in_links(
        "bulk-2", "reading targets again for a lost guard", _BulkPut, "_read", _read_losers_without_targets, VERSATILE
    ),
)
