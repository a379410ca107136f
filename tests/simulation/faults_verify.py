"""Faults to plant in verifications: the walk with one of its clauses left out. See `faults.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest import mock

from shared.core.operations.perform import Answer, Writes
from shared.core.operations.ports import Committed, Ports, Snapshot
from shared.core.rules.effects import Decision
from shared.links.operations import repairs as verification_repairs
from shared.links.operations import verification
from tests.simulation import verify_world
from tests.simulation.faults import Fault


def _verify(without: str, module: object, name: str, instead: Any) -> Fault:
    return Fault("verify", without, partial(mock.patch.object, module, name, instead), verify_world.run)


def _unknowing_that_exist(ports: Ports, targets: Sequence[Snapshot]) -> list[Snapshot]:
    return [target for target in unknowing(ports, targets) if target.data is not None]


unknowing = verification_repairs._unknowing


def _without_an_outbox(
    ports: Ports, paths: Sequence[str], decide: Callable[[tuple[Snapshot, ...]], Decision[Writes, Answer]]
) -> tuple[Answer, Committed | None]:
    decision = decide(ports.store.read(*paths))
    committed = ports.store.commit(decision.state) if decision.state else None
    ports.queue.create(decision.effects)
    return decision.answer, committed


FAULTS = (
    _verify("writing what differs", verification_repairs, "_differs", lambda *_: False),
    _verify("telling targets that somebody embeds them", verification_repairs, "_unknowing", lambda *_: []),
    _verify("a note for a target that is missing", verification_repairs, "_unknowing", _unknowing_that_exist),
    _verify("the next page in the commit that counts this one", verification, "perform", _without_an_outbox),
)
