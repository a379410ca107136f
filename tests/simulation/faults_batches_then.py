"""Faults of batch-14: the batch that follows another, or the alarm."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import datetime

from shared.batches.operations import sub_batches, tasks
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.header import Header
from shared.core.operations.ports import Ports
from shared.core.rules.effects import Effect
from tests.simulation.faults_batches_planting import in_batches

end_effects, populate_next = Header.end_effects, sub_batches.populate_next


def _nothing_follows(header: Header, run: BatchRun, now: datetime) -> tuple[Effect, ...]:
    return tuple(effect for effect in end_effects(header, run, now) if effect.task != "then")


def _no_alarm(header: Header, run: BatchRun, now: datetime) -> tuple[Effect, ...]:
    return end_effects(replace(header, on_failure=None), run, now)


class _OfEachDelivery(BatchRun):
    """A run that is followed by another batch each time."""

    __slots__ = ()

    @property
    def then_id(self) -> str:
        return secrets.token_hex(8)


def _under_another_id(ports: Ports, run: BatchRun) -> None:
    populate_next(ports, _OfEachDelivery(run.batch, run.incarnation))


FAULTS = (
    in_batches("batch-14", "what follows a success", Header, "end_effects", _nothing_follows),
    in_batches("batch-14", "what follows a failure", Header, "end_effects", _no_alarm),
    in_batches("batch-14", "following a success only", Header, "has_succeeded", property(lambda _: True)),
    in_batches("batch-14", "one id for what follows", tasks, "populate_next", _under_another_id),
)
