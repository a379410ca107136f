"""Planted faults of write-back: a clause of `docs/protocols/links.md` left out. See `faults.py`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations import perform
from shared.core.operations.ports import Conflict, Ports, Snapshot
from shared.core.rules.effects import Decision
from shared.core.rules.problems import Unavailable
from shared.documents.operations import write_backs as operations
from shared.documents.operations.document_writes import DocumentWrite
from shared.documents.rules import write_backs
from shared.documents.rules.copies import Embedding
from tests.simulation import links_world
from tests.simulation.faults import Fault, in_links
from tests.simulation.links_kinds import WRITES_BACK


def _without_the_sources_guards(plan: Any) -> list[DocumentWrite]:
    *sources, own = writes_of(plan)
    return [*(replace(each, write=replace(each.write, guard=None)) for each in sources), own]


def _without_its_own_guard(plan: Any) -> list[DocumentWrite]:
    *sources, own = writes_of(plan)
    return [*sources, replace(own, write=replace(own.write, guard=None))]


writes_of = operations._Plan.writes


def _one_after_the_other(
    ports: Ports, reads: Any, decide: Callable[[tuple[Snapshot, ...]], Decision[Any, Any]]
) -> tuple[Any, Any]:
    """Each document in a commit of its own."""

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


check_source = write_backs.check_source


def _sources_as_they_were() -> AbstractContextManager[Any]:
    """A document embeds its sources as they were read, and not as they are written with it."""
    stack = ExitStack()

    def read_alone(sources: Any, transforms: Any) -> Embedding:
        return Embedding({**sources, **read[-1]}, transforms)

    read: list[Any] = []
    plan = operations._Plan.__init__

    def noting(self: Any, request: Any, snapshots: Any) -> None:
        plan(self, request, snapshots)
        read.append(self._inputs.sources)

    stack.enter_context(mock.patch.object(operations._Plan, "__init__", noting))
    stack.enter_context(mock.patch.object(operations, "Embedding", read_alone))
    return stack


def _write_back(clause: str, without: str, module: object, name: str, instead: Any) -> Fault:
    return in_links(clause, without, module, name, instead, WRITES_BACK)


FAULTS = (
    _write_back("write-back-1", "the guards of sources", operations._Plan, "writes", _without_the_sources_guards),
    _write_back("write-back-1", "the guard of the document", operations._Plan, "writes", _without_its_own_guard),
    _write_back("write-back-1", "one commit", operations, "perform", _one_after_the_other),
    _write_back("write-back-2", "refusing a stale copy", write_backs, "check_fresh", lambda *_: None),
    _write_back("write-back-2", "refusing what a transform made", write_backs, "check_source", _transforms_too),
    Fault(
        "write-back-3",
        "embedding what is written with it",
        _sources_as_they_were,
        partial(links_world.run, kinds=WRITES_BACK),
    ),
)
