"""Faults of batch-22: a request to retry units, repeated under its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from signalbox.batches import storage
from signalbox.batches.machine.units import chains_of_all
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import Retries
from signalbox.batches.requests import RetryRequest
from signalbox.core.deliveries import Delivered
from signalbox.core.ports import Ports
from signalbox.tasks.model.contexts import OfUnit
from tests.simulation.faults.batches.planting import in_batches
from tests.simulation.faults.points import original

LATEST = 1 << 62
"""A time after every failure, in microseconds."""

retry = original("batches.retry")
begin_chains = original("batches.begin_chains")
retries_of = original("batches.retries_of")
wait_for_rate = original("tasks.wait_for_rate")
enqueue_retries = original("batches.enqueue_retries")


def _without_its_key(ports: Ports, batch: str, request: RetryRequest, _: str = "") -> None:
    retry(ports, batch, request)


def _with_the_time_of_the_delivery(payload: Mapping[str, Any]) -> Retries:
    return replace(retries_of(payload), called_at=LATEST)


def _divided_by_each_request(
    ports: Ports, run: BatchRun, chain: Retries, concurrency: int, indexes: Sequence[int] | None
) -> None:
    """Each request divides the failed units itself, instead of enqueuing the task that does."""
    if indexes is not None:
        begin_chains(ports, run, chain, concurrency, indexes)
    elif failed := storage.count_units(ports, run, "failed"):
        chains = chains_of_all(chain, run.incarnation, min(concurrency, failed))
        names = (chain.call, len(chains))
        ports.queue.create(
            [run.effect_for("retry", *names, at, chain=one.to_record()) for at, one in enumerate(chains)]
        )


def _never_looked_at_again(ports: Ports, delivered: Delivered[OfUnit]) -> None:
    context = replace(delivered.context, unit=replace(delivered.context.unit, chain=None))
    wait_for_rate(ports, replace(delivered, context=context))


def _the_first_page(ports: Ports, run: BatchRun, retries: Retries, after: int) -> None:
    enqueue_retries(ports, run, retries, storage.read_outcomes(ports, run, "failed", None if after < 0 else after))


FAULTS = (
    in_batches("batch-22", "one call for a key", "batches.retry", _without_its_key),
    in_batches("batch-22", "the time of the call in its tasks", "batches.retries_of", _with_the_time_of_the_delivery),
    in_batches("batch-22", "one division into chains", "batches.begin_chains", _divided_by_each_request),
    in_batches("batch-22", "the next page of a retry", "batches.retry_page", _the_first_page),
    in_batches("batch-22", "looking again at a unit that another call retries", "batches.look_again", lambda *_: None),
    in_batches("batch-22", "looking again at units without chains", "batches.enqueue_look", lambda *_, **__: None),
    in_batches("batch-22", "the calls that have retried a unit", "batches.retried_by", lambda *_: ()),
    in_batches("batch-22", "looking again at a unit that waits", "tasks.wait_for_rate", _never_looked_at_again),
)
