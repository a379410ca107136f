"""Planted faults of puts and merges: a clause of `docs/protocols/links.md` left out. See `fault.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from signalbox.core.ports import Ports
from signalbox.documents.model.stamped_contents import Author, StoredDocument, path_of
from signalbox.documents.requests import UNCONDITIONAL, PutRequest
from signalbox.documents.service.bulk import BulkPut
from signalbox.documents.storage import writes
from signalbox.documents.storage.records import Found
from signalbox.documents.storage.writes import DocumentWrite
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.links.planting import in_links, in_world
from tests.simulation.faults.points import Replacements, original
from tests.simulation.worlds.links.kinds import FOREIGN, VERSATILE


def _unguarded_put(*read: Any, **header: Any) -> DocumentWrite:
    made = put_write(*read, **header)
    return replace(made, write=replace(made.write, guard=None))


put_write = writes.put_write


def _unguarded_write_of(author: Author) -> Callable[..., DocumentWrite]:
    """Return `document_write` without the guard of an author's writes: "refresh", or "put" for a normalization."""

    def unguarded(before: Any, content: Any, by: Author, **metadata: Any) -> DocumentWrite:
        made = document_write(before, content, by, **metadata)
        return replace(made, write=replace(made.write, guard=None)) if by == author else made

    return unguarded


document_write = writes.document_write


def _check_precondition_before_the_put(ports: Ports, request: PutRequest) -> StoredDocument:
    request.precondition.check_write(Found.of(ports.store.read(path_of(request.key))[0]).etag)
    return put(ports, replace(request, precondition=UNCONDITIONAL))


put = original("documents.put")


def _embed_what_the_call_brings() -> Replacements:
    """The documents of a call embed what the call brings, stored or not."""

    def read(call: BulkPut, keys: Any) -> None:
        read_of_call(call, keys)
        call._sources |= {key: content.content for key, content in call._contents.items()}

    return [
        ("documents.BulkPut.read", read),
        ("documents.waves", lambda targets: [list(targets)]),
    ]


def _read_losers_without_targets(call: BulkPut, keys: Any) -> None:
    """A document that lost its guard is read again, and embeds what was read at first."""
    if not call._found:
        read_of_call(call, keys)
        return
    read = call._ports.store.read(*map(path_of, keys))
    call._found |= {snapshot.id: Found.of(snapshot) for snapshot in read}


read_of_call = original("documents.BulkPut.read")


FAULTS = (
    in_links("document-1", "the guard of a refresh", "links.document_write", _unguarded_write_of("refresh")),
    in_links(
        "document-1",
        "the guard of a normalization",
        "links.document_write",
        _unguarded_write_of("put"),
        FOREIGN,
    ),
    in_links("document-1", "the guard of a put", "documents.put_write in documents", _unguarded_put),
    in_links("document-1", "the guard of a merge", "documents.put_write in patches", _unguarded_put, VERSATILE),
    in_links("document-1", "the guard of a bulk put", "documents.put_write in bulk", _unguarded_put, VERSATILE),
    in_links(
        "document-2",
        "a precondition at the commit",
        "documents.put",
        _check_precondition_before_the_put,
        VERSATILE,
    ),
    Fault(
        "bulk-1",
        "embedding what is stored, not what the call brings",
        _embed_what_the_call_brings,
        in_world(VERSATILE),
    ),
    in_links(
        "bulk-2",
        "reading targets again for a lost guard",
        "documents.BulkPut.read",
        _read_losers_without_targets,
        VERSATILE,
    ),
)
