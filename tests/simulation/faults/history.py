"""Faults to plant: histories without one clause of their protocol (docs/protocols/history.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from signalbox.core.effects import Effect
from signalbox.core.kit_names import ANYONE
from signalbox.core.ports import Committed, Ports, Snapshot, Store, Write
from signalbox.documents.model.stamped_contents import Document, StoredDocument, path_of
from signalbox.documents.requests import UNCONDITIONAL, PutRequest
from signalbox.documents.storage import records
from signalbox.documents.storage.records import Found
from signalbox.history import model
from signalbox.history.machine.kept_versions import Recorded, State
from signalbox.history.model import COLLECTION, Segment
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacements, always, original
from tests.simulation.worlds import history as history_world

in_world = partial(history_world.run, writers=ANYONE)


def _fault(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), in_world)


def _versions_afterwards(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Committed:
    committed = commit(ports, [one for one in writes if not one.path.startswith(COLLECTION)], effects)
    if logged := [one for one in writes if one.path.startswith(COLLECTION)]:
        ports.store.commit(logged)
    return committed


commit = original("core.commit")


def _as_if_known(state: State, *given: Any) -> Recorded:
    """Assume that the log has the content of the document."""
    if state.mark is not None and state.content is not None:
        state = replace(state, mark=replace(state.mark, digest=model.digest(state.content)))
    return record(state, *given)


record = original("history.record")


def _without_what_was_found(*given: Any) -> Recorded:
    recorded = record(*given)
    after = [entry for entry in recorded.entries if entry.action != "found"]
    return replace(recorded, entries=tuple(after)) if after else recorded


def _without_the_mark(*given: Any, **metadata: Any) -> Document:
    return replace(stamped(*given, **metadata), history=None)


stamped = original("documents.stamped")


def _by_count_alone(segments: Sequence[Segment], *given: Any) -> tuple[Segment, ...]:
    """Delete the whole version at the beginning of a segment as soon as the others are enough."""
    first, *others = kept_segments(segments, *given)
    enough = sum(one.count for one in (first, *others)) > history_world.VERSIONS_MAX
    return (replace(first, first=first.first + 1), *others) if enough and first.count > 1 else (first, *others)


kept_segments = original("history.kept_segments")


def _without_the_header() -> Replacements:
    """Begin a new log for a document without a mark."""

    def absent(_: Store, own: Found, content: Any) -> Snapshot | None:
        return replace(own.record, data=None) if records.needs_header(own, content) else None

    def entries_alone(key: str, recorded: Recorded, _: Snapshot | None = None) -> tuple[Write, ...]:
        return version_writes(key, recorded)

    return [
        ("documents.log_header", absent),
        ("documents.version_writes", entries_alone),
    ]


version_writes = original("documents.version_writes")


def _check_precondition_before_the_put(ports: Ports, request: PutRequest, action: Any = "put") -> StoredDocument:
    if action != "restore":
        return put(ports, request, action)
    request.precondition.check_write(Found.of(ports.store.read(path_of(request.key))[0]).etag)
    return put(ports, replace(request, precondition=UNCONDITIONAL), action)


put = original("documents.put")


def _latest_first(*given: Any) -> list[list[str]]:
    return list(reversed(list(paths_before(*given))))


def _entries_alone(*given: Any) -> list[list[str]]:
    """Delete versions without their parts."""
    return [paths[:1] for paths in paths_before(*given)]


paths_before = original("history.paths_before")


FAULTS = (
    _fault("history-4", "deleting the oldest version first", "history.paths_before", _latest_first),
    _fault("history-7", "deleting the parts of a version", "history.paths_before", _entries_alone),
    _fault("history-1", "the version in the commit of its change", "core.commit", _versions_afterwards),
    _fault("history-2", "comparing the document with the log", "history.record", _as_if_known),
    _fault("history-2", "recording what another client wrote", "history.record", _without_what_was_found),
    _fault("history-2", "noting what another client deleted", "history.note_deletion", lambda *_: None),
    _fault("history-3", "the mark in a refreshed document", "documents.stamped", _without_the_mark),
    _fault("history-4", "whole segments", "history.kept_segments", _by_count_alone),
    Fault("history-5", "the header of the log at a creation", _without_the_header, in_world),
    _fault("history-6", "a restore's precondition at the commit", "documents.put", _check_precondition_before_the_put),
)
