"""Planted faults of verifications: a clause of `docs/protocols/links.md` left out. See `fault.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from signalbox.core.effects import Decision
from signalbox.core.kit_names import ANYONE
from signalbox.core.perform import Answer, Writes
from signalbox.core.ports import Committed, Ports, Snapshot
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import verify as verify_world


def _verify(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), partial(verify_world.run, writers=ANYONE))


def _unmarked_existing(ports: Ports, targets: Sequence[Snapshot]) -> list[Snapshot]:
    return [target for target in unmarked(ports, targets) if target.data is not None]


unmarked = original("links.unmarked")


def _without_an_outbox(
    ports: Ports, paths: Sequence[str], decide: Callable[[tuple[Snapshot, ...]], Decision[Writes, Answer]]
) -> tuple[Answer, Committed | None]:
    decision = decide(ports.store.read(*paths))
    committed = ports.store.commit(decision.state) if decision.state else None
    ports.queue.create(decision.effects)
    return decision.answer, committed


FAULTS = (
    _verify("verify-1", "writing what differs", "links.differs", lambda *_: False),
    _verify("verify-2", "marking targets as linked", "links.unmarked", lambda *_: []),
    _verify("verify-2", "the note for a missing target", "links.unmarked", _unmarked_existing),
    _verify("verify-3", "the next page in the counting commit", "links.perform", _without_an_outbox),
)
