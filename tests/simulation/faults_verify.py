"""Planted faults of verifications: a clause of `docs/protocols/links.md` left out. See `faults.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations.perform import Answer, Writes
from shared.core.operations.ports import Committed, Ports, Snapshot
from shared.core.rules.effects import Decision
from shared.links.operations import repairs, verification
from tests.simulation import verify_world
from tests.simulation.faults import Fault


def _verify(clause: str, without: str, module: object, name: str, instead: Any) -> Fault:
    return Fault(clause, without, partial(mock.patch.object, module, name, instead), verify_world.run)


def _unmarked_existing(ports: Ports, targets: Sequence[Snapshot]) -> list[Snapshot]:
    return [target for target in unmarked(ports, targets) if target.data is not None]


unmarked = repairs._unmarked


def _without_an_outbox(
    ports: Ports, paths: Sequence[str], decide: Callable[[tuple[Snapshot, ...]], Decision[Writes, Answer]]
) -> tuple[Answer, Committed | None]:
    decision = decide(ports.store.read(*paths))
    committed = ports.store.commit(decision.state) if decision.state else None
    ports.queue.create(decision.effects)
    return decision.answer, committed


FAULTS = (
    _verify("verify-1", "writing what differs", repairs, "_differs", lambda *_: False),
    _verify("verify-2", "marking targets as linked", repairs, "_unmarked", lambda *_: []),
    _verify("verify-2", "the note for a missing target", repairs, "_unmarked", _unmarked_existing),
    _verify("verify-3", "the next page in the counting commit", verification, "perform", _without_an_outbox),
)
