"""Planted faults of documents whose events may not arrive: link-12 of `docs/protocols/links.md` left out in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from signalbox.core.effects import Effect
from signalbox.core.ports import Outcome, Ports
from signalbox.documents.model import sizes
from signalbox.documents.storage import writes
from signalbox.documents.storage.writes import Deletion, DocumentWrite
from tests.simulation.faults.links.planting import in_links
from tests.simulation.worlds.links.kinds import LARGE


def _no_task(*_: Any) -> tuple[Effect, ...]:
    return ()


def _deleted_without_a_task(*read: Any) -> Deletion:
    return replace(deletion(*read), effects=())


deletion = writes.deletion


def _without_their_tasks(ports: Ports, made: Sequence[DocumentWrite]) -> tuple[Outcome, ...]:
    return write_each(ports, [replace(one, effects=()) for one in made])


write_each = writes.write_each


def _by_what_was_read(record: Mapping[str, Any] | None) -> bool:
    return record is not None and sizes.exceeds_events(record)


FAULTS = (
    in_links("link-12", "the task of a large event", "documents.follow_up", _no_task, LARGE),
    in_links("link-12", "the task of a large refresh", "links.write_each", _without_their_tasks, LARGE),
    in_links("link-12", "the task of a large deletion", "documents.deletion", _deleted_without_a_task, LARGE),
    in_links("link-12", "the mark of a large document", "documents.is_large", _by_what_was_read, LARGE),
)
