"""Faults of batch-21: units that take permits of a rate when they start."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect
from signalbox.rates.machine import Admitted, Loaded
from signalbox.rates.model import RateWait, WaitAnswer
from signalbox.rates.requests import RateWaitRequest
from signalbox.tasks.model.contexts import OfUnit
from tests.simulation.faults.batches.planting import in_batches
from tests.simulation.faults.points import original
from tests.simulation.faults.rates import without_the_receipt_first

unit_rate_wait = original("tasks.unit_rate_wait")
repeated_wait = original("rates.repeated_wait")
ended_tasks = original("rates.ended_tasks")
is_stale = original("rates.is_stale")


def _a_wait_for_each_delivery(delivered: Delivered[OfUnit]) -> RateWaitRequest:
    """The wait has a new id in each delivery."""
    request = unit_rate_wait(delivered)
    return replace(request, id=f"{request.id}-{delivered.retries}")


def _nothing_lost(name: str, held: RateWait, request: RateWaitRequest, now: datetime) -> WaitAnswer:
    return replace(repeated_wait(name, held, request, now), lost=())


def _of_flows_only(name: str, admitted: Admitted, now: datetime) -> tuple[Effect, ...]:
    flows = tuple(held for held in admitted.stale if not held.unit)
    tasks: tuple[Effect, ...] = ended_tasks(name, replace(admitted, stale=flows), now)
    return tasks


def _by_a_later_rate(loaded: Loaded, wait: RateWait) -> bool:
    """Only waits of a rate that does not exist end; a later rate of that name grants them."""
    return loaded.rate is None and is_stale(loaded, wait)


def _keep_waits(*_: Any) -> None:
    """No wait of a cancelled batch ends."""


FAULTS = (
    in_batches("batch-21", "one wait of a rate for all deliveries", "tasks.unit_rate_wait", _a_wait_for_each_delivery),
    in_batches("batch-21", "the task of a grant, again", "rates.repeated_wait", _nothing_lost),
    in_batches("batch-21", "the units of a deleted rate", "rates.ended_tasks", _of_flows_only),
    in_batches("batch-21", "the incarnation of a rate", "rates.is_stale", _by_a_later_rate),
    in_batches("batch-21", "the receipt before the rate", "rates.wait", without_the_receipt_first),
    in_batches("batch-21", "the unit of a cancelled wait", "rates.unit_task", lambda *_: ()),
    in_batches("batch-21", "ending the waits of a cancelled batch", "rates.drop_waits", _keep_waits),
)
