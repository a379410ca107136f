"""Planted faults of write-back: a clause of `docs/protocols/links.md` left out. See `fault.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from signalbox.core import perform
from signalbox.core.effects import Decision
from signalbox.core.ports import Conflict, Ports, Snapshot
from signalbox.core.problems import Unavailable
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.service import patches
from signalbox.documents.storage.writes import DocumentWrite
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.links.planting import in_links, in_world
from tests.simulation.faults.points import Replacements, original
from tests.simulation.worlds.links.kinds import WRITES_BACK


def _without_the_sources_guards(plan: Any) -> list[DocumentWrite]:
    *sources, own = writes_of(plan)
    return [*(replace(each, write=replace(each.write, guard=None)) for each in sources), own]


def _without_its_own_guard(plan: Any) -> list[DocumentWrite]:
    *sources, own = writes_of(plan)
    return [*sources, replace(own, write=replace(own.write, guard=None))]


writes_of = original("documents.WriteBack.writes")


def _one_after_the_other(
    ports: Ports, reads: Any, decide: Callable[[tuple[Snapshot, ...]], Decision[Any, Any]]
) -> tuple[Any, Any]:
    """Each document has a separate commit."""

    def first_alone(read: tuple[Snapshot, ...]) -> Decision[Any, Any]:
        decision = decide(read)
        try:
            for write in decision.state[:-1]:
                ports.store.commit([write])
        except Conflict as lost:
            raise Unavailable("nothing is written yet, or some of it") from lost
        return replace(decision, state=decision.state[-1:])

    return perform.perform(ports, reads, first_alone)


def _transforms_too(edit: Any, embedding: Embedding) -> None:
    check_source(edit, Embedding(embedding.sources))


check_source = original("documents.check_source")


def _sources_as_they_were() -> Replacements:
    """A document embeds its sources as they were read, and not as they are written with it."""

    def read_alone(sources: Any, transforms: Any) -> Embedding:
        return Embedding({**sources, **read[-1]}, transforms)

    read: list[Any] = []
    plan = patches.WriteBack.__init__

    def noting(self: Any, *loaded: Any) -> None:
        read.append({})
        plan(self, *loaded)
        read.append(self._inputs.sources)

    return [
        ("documents.WriteBack.__init__", noting),
        ("documents.Embedding", read_alone),
    ]


def _write_back(clause: str, without: str, point: str, instead: Any) -> Fault:
    return in_links(clause, without, point, instead, WRITES_BACK)


FAULTS = (
    _write_back("write-back-1", "the guards of sources", "documents.WriteBack.writes", _without_the_sources_guards),
    _write_back("write-back-1", "the guard of the document", "documents.WriteBack.writes", _without_its_own_guard),
    _write_back("write-back-1", "one commit", "documents.perform", _one_after_the_other),
    _write_back("write-back-2", "refusing a stale copy", "documents.check_fresh", lambda *_: None),
    _write_back("write-back-2", "refusing what a transform made", "documents.check_source", _transforms_too),
    Fault(
        "write-back-3",
        "embedding what is written with it",
        _sources_as_they_were,
        in_world(WRITES_BACK),
    ),
)
