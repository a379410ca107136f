"""Faults to plant: histories without one clause of their protocol (docs/protocols/history.md)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations import outbox
from shared.core.operations.ports import Committed, Ports, Snapshot, Store, Write
from shared.core.rules.effects import Effect
from shared.documents.operations import document_reads, document_writes, restores
from shared.documents.operations import documents as documents_operations
from shared.documents.operations.stored_documents import StoredDocument, etag_of
from shared.documents.rules import documents
from shared.documents.rules.documents import Document, path_of
from shared.documents.rules.preconditions import UNCONDITIONAL
from shared.documents.rules.requests import PutRequest
from shared.history.operations import compaction
from shared.history.rules import entries, versions
from shared.history.rules.entries import COLLECTION, Segment
from shared.history.rules.versions import Recorded, State
from tests.simulation import history_world
from tests.simulation.faults import Fault


def _fault(clause: str, without: str, module: object, name: str, instead: Any) -> Fault:
    return Fault(clause, without, partial(mock.patch.object, module, name, instead), history_world.run)


def _versions_afterwards(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = commit(ports, [one for one in writes if not one.path.startswith(COLLECTION)], effects)
    if logged := [one for one in writes if one.path.startswith(COLLECTION)]:
        ports.store.commit(logged)
    return committed


commit = outbox.commit


def _as_if_known(state: State, *given: Any) -> Recorded:
    """The log is taken to hold what the document holds."""
    if state.mark is not None and state.content is not None:
        state = replace(state, mark=replace(state.mark, digest=entries.digest(state.content)))
    return record(state, *given)


record = versions.record


def _without_what_was_found(*given: Any) -> Recorded:
    recorded = record(*given)
    after = [entry for entry in recorded.entries if entry.action != "found"]
    return replace(recorded, entries=tuple(after)) if after else recorded


def _without_the_mark(*given: Any, **metadata: Any) -> Document:
    return replace(stamped(*given, **metadata), history=None)


stamped = documents.stamped


def _by_count_alone(segments: Sequence[Segment], *given: Any) -> tuple[Segment, ...]:
    """The whole version with which a segment begins goes, as soon as the others are enough."""
    first, *others = kept_segments(segments, *given)
    enough = sum(one.count for one in (first, *others)) > history_world.VERSIONS_MAX
    return (replace(first, first=first.first + 1), *others) if enough and first.count > 1 else (first, *others)


kept_segments = versions.kept_segments


def _without_the_header() -> AbstractContextManager[Any]:
    """What has no mark begins a log of its own."""

    def absent(_: Store, own: Snapshot, content: Any) -> Snapshot | None:
        return replace(own, data=None) if document_writes.goes_on_from_header(own, content) else None

    def entries_alone(key: str, recorded: Recorded, _: Snapshot | None = None) -> tuple[Write, ...]:
        return version_writes(key, recorded)

    stack = ExitStack()
    stack.enter_context(mock.patch.object(document_reads, "log_header", absent))
    stack.enter_context(mock.patch.object(document_writes, "version_writes", entries_alone))
    return stack


version_writes = document_writes.version_writes


def _check_precondition_before_the_put(ports: Ports, request: PutRequest, action: Any) -> StoredDocument:
    request.precondition.check_write(etag_of(ports.store.read(path_of(request.key))[0]))
    return put(ports, replace(request, precondition=UNCONDITIONAL), action)


put = documents_operations.put


FAULTS = (
    _fault("history-1", "the version in the commit of its change", outbox, "commit", _versions_afterwards),
    _fault("history-2", "comparing the document with the log", versions, "record", _as_if_known),
    _fault("history-2", "recording what another client wrote", versions, "record", _without_what_was_found),
    _fault("history-2", "noting what another client deleted", compaction, "note_deletion", lambda *_: None),
    _fault("history-3", "the mark in a refreshed document", documents, "stamped", _without_the_mark),
    _fault("history-4", "whole segments", versions, "kept_segments", _by_count_alone),
    Fault("history-5", "the header of the log at a creation", _without_the_header, history_world.run),
    _fault("history-6", "a restore's precondition at the commit", restores, "put", _check_precondition_before_the_put),
)
