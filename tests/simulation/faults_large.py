"""Planted faults of documents whose events may not arrive: link-12 of `docs/protocols/links.md` left out in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared.core.operations.ports import Outcome, Ports
from shared.core.rules.effects import Effect
from shared.documents.operations import document_writes
from shared.documents.operations import documents as operations
from shared.documents.operations.document_writes import Deletion, DocumentWrite
from shared.documents.rules import documents, sizes
from shared.links.operations import copies
from tests.simulation.faults import in_links
from tests.simulation.links_kinds import LARGE


def _no_task(*_: Any) -> tuple[Effect, ...]:
    return ()


def _deleted_without_a_task(*read: Any) -> Deletion:
    return replace(deletion(*read), effects=())


deletion = document_writes.deletion


def _without_their_tasks(ports: Ports, made: Sequence[DocumentWrite]) -> tuple[Outcome, ...]:
    return write_each(ports, [replace(one, effects=()) for one in made])


write_each = document_writes.write_each


def _by_what_was_read(record: Mapping[str, Any] | None) -> bool:
    return record is not None and sizes.exceeds_events(record)


FAULTS = (
    in_links("link-12", "a task beside a large event", document_writes, "follow_up", _no_task, LARGE),
    in_links("link-12", "a task beside a large refresh", copies, "write_each", _without_their_tasks, LARGE),
    in_links("link-12", "a task beside a large deletion", operations, "deletion", _deleted_without_a_task, LARGE),
    in_links("link-12", "the mark of a large document", documents, "is_large", _by_what_was_read, LARGE),
)
