"""Faults of batch-14 and batch-23: the batch that follows another, or the alarm, and callers that take its id."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import datetime

from signalbox.batches.model.headers import Header
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.service import sub_batches
from signalbox.core.effects import Effect
from signalbox.core.ports import Ports
from tests.simulation.faults.batches.planting import in_batches
from tests.simulation.faults.points import original

end_tasks = original("batches.end_tasks")
populate_next = sub_batches.populate_next


def _nothing_follows(run: BatchRun, header: Header, now: datetime) -> tuple[Effect, ...]:
    return tuple(effect for effect in end_tasks(run, header, now) if effect.task != "then")


def _no_alarm(run: BatchRun, header: Header, now: datetime) -> tuple[Effect, ...]:
    return end_tasks(run, replace(header, settings=replace(header.settings, on_failure=None)), now)


class _OfEachDelivery(BatchRun):
    """A run that is followed by another batch each time."""

    __slots__ = ()

    @property
    def then_id(self) -> str:
        return secrets.token_hex(8)


def _under_another_id(ports: Ports, run: BatchRun) -> None:
    populate_next(ports, _OfEachDelivery(run.batch, run.incarnation))


def _then_id_that_can_be_chosen(run: BatchRun) -> str:
    return run.task_name("then")


FAULTS = (
    in_batches("batch-14", "what follows a success", "batches.end_tasks", _nothing_follows),
    in_batches("batch-14", "what follows a failure", "batches.end_tasks", _no_alarm),
    in_batches("batch-14", "following a success only", "batches.has_succeeded", lambda _: True),
    in_batches("batch-14", "one id for what follows", "batches.populate_next", _under_another_id),
    in_batches(
        "batch-23", "an id that no caller can choose", "batches.BatchRun.then_id", property(_then_id_that_can_be_chosen)
    ),
)
