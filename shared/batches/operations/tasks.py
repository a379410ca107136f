"""The kit's own tasks on a batch: expand a page, check after the seal, end at the deadline, retry failures, cancel
sub-batches, complete a parent's unit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.batches.operations import cancellation, chains, propagation, sweep
from shared.batches.operations.headers import read_header_at
from shared.batches.operations.unit_tasks import unit_tasks
from shared.batches.operations.units import complete_unit, read_outcomes
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.chains import Retries
from shared.batches.rules.header import header_of_run
from shared.batches.rules.outcomes import UnitRecord, outcome_of_sub_batch
from shared.batches.rules.pages import Page
from shared.batches.rules.queries import UnitsQuery
from shared.batches.rules.requests import RetryRequest
from shared.batches.rules.units import PlacedUnit
from shared.core.operations.ports import Ports, RecordMissing
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadBatch, BatchSealed, NothingToRun
from shared.core.rules.times import microseconds


def run_batch_task(ports: Ports, task: str, payload: Mapping[str, Any]) -> None:
    """Run one of the kit's tasks. Raises `Unavailable` for a retry, and `BadBatch` for a task that there is not."""
    run = _run_of(payload)
    try:
        match task, payload:
            case "expand", {"page": int(page)}:
                expand_page(ports, run, page)
            case "check", _:
                propagation.check_right_edge(ports, run)
            case "retry", {"chain": dict(chain)}:
                chains.retry_next(ports, run, Retries.from_record(chain))
            case "retry", {"call": str(call), "after": int(after)}:
                retry_page(ports, run, call, after, payload.get("payload", {}))
            case "retry", {"units": [*indexes]}:
                retry_units(ports, run, [int(index) for index in indexes], payload.get("payload", {}))
            case "deadline", _:
                sweep.run_deadline(ports, run)
            case "cancel", {"after": str(after)}:
                cancellation.cancel_sub_batches(ports, run, after)
            case "child", {"unit": dict(parent)}:
                complete_parent(ports, run, PlacedUnit.from_record(parent))
            case _:
                raise BadBatch(f"batch_expand has no task {task!r} with this payload.")
    except RecordMissing:
        ports.log.info("batch not found, task dropped", batch=run.batch, task=task)


def _run_of(payload: Mapping[str, Any]) -> BatchRun:
    match payload:
        case {"batch": str(batch), "incarnation": str(incarnation)}:
            return BatchRun(batch, incarnation)
    raise BadBatch("The payload of a task of batch_expand names a batch and its incarnation.")


def expand_page(ports: Ports, run: BatchRun, number: int) -> None:
    """Enqueue a task for each unit of a page that may run now. Task names make a repeat a no-op."""
    [read] = ports.store.read(run.page_path(number))
    page = None if read.data is None else Page.from_record(read.data)
    if page is not None and page.task is not None:
        units = chains.ready(ports, page, page.units(run.batch, run.incarnation, number))
        ports.queue.create(unit_tasks(units, [read], {}))


# --- retries ---


def retry(ports: Ports, batch: str, request: RetryRequest) -> None:
    """Enqueue retries of units that failed. Raises `NothingToRun`, `BatchSealed` or `NotFound`."""
    run, header, now = read_header_at(ports, batch)
    if header.task is None:
        raise NothingToRun("The batch has no task: its units are completed from outside.")
    if header.state == "cancelled":
        raise BatchSealed("The batch was cancelled.")
    call, indexes = ports.store.new_id(), None if request.units is None else sorted(set(request.units))
    if header.concurrency is not None:
        chain = Retries(call, microseconds(now), request.payload)
        chains.begin_retries(ports, run, chain, header.concurrency, indexes)
    elif indexes is None:
        ports.queue.create([_retry_page_effect(run, call, -1, request.payload)])
    else:
        ports.queue.create(_retry_units_effects(run, call, indexes, request.payload))


def _retry_page_effect(run: BatchRun, call: str, after: int, payload: Mapping[str, Any]) -> Effect:
    return run.effect_for("retry", call, after, call=call, after=after, payload=payload)


def _retry_units_effects(
    run: BatchRun, call: str, indexes: Sequence[int], payload: Mapping[str, Any]
) -> Sequence[Effect]:
    chunks = [indexes[at : at + LIMITS.units_listed_max] for at in range(0, len(indexes), LIMITS.units_listed_max)]
    return [run.effect_for("retry", call, at, units=chunk, payload=payload) for at, chunk in enumerate(chunks)]


def retry_page(ports: Ports, run: BatchRun, call: str, after: int, payload: Mapping[str, Any]) -> None:
    """Retry a page of the failed units behind an index, once the task for the next page is enqueued."""
    failed = read_outcomes(ports, run, UnitsQuery("failed", None if after < 0 else after))
    if len(failed) == LIMITS.units_listed_max:
        ports.queue.create([_retry_page_effect(run, call, failed[-1].unit.index, payload)])
    _enqueue_retries(ports, run, failed, payload)


def retry_units(ports: Ports, run: BatchRun, indexes: Sequence[int], payload: Mapping[str, Any]) -> None:
    """Retry those of the units that failed."""
    found = ports.store.read(*map(run.unit_path, indexes))
    records = [UnitRecord.from_record(one.data) for one in found if one.data is not None]
    _enqueue_retries(ports, run, records, payload)


def _enqueue_retries(ports: Ports, run: BatchRun, found: Sequence[UnitRecord], payload: Mapping[str, Any]) -> None:
    """Enqueue the next attempt of what failed; the name of an attempt's task makes a repeat a no-op."""
    failed = [one.unit.next_attempt() for one in found if one.outcome.state == "failed"]
    if failed:
        numbers = sorted({unit.page for unit in failed})
        ports.queue.create(unit_tasks(failed, ports.store.read(*map(run.page_path, numbers)), payload))


# --- sub-batches ---


def complete_parent(ports: Ports, run: BatchRun, unit: PlacedUnit) -> None:
    """Complete the unit whose work a batch was, however the batch ended."""
    [read] = ports.store.read(run.header_path)
    header = header_of_run(read.data, run)
    if header is not None and header.ended:
        complete_unit(ports, unit, outcome_of_sub_batch(run, header))
