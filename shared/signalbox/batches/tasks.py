"""The kit's own tasks on a batch, which `batch_expand` runs: each by its name, with a run of a batch as its payload."""

from collections.abc import Mapping
from typing import Any

from signalbox.batches import storage, sweep
from signalbox.batches.machine.units import outcome_of_sub_batch
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import PlacedUnit, Retries
from signalbox.batches.problems import BadBatch
from signalbox.batches.service import propagation, retries, units
from signalbox.batches.service.sub_batches import cancel_sub_batches, populate_next
from signalbox.core.kit_names import BATCH_EXPAND
from signalbox.core.ports import Ports, RecordMissing
from signalbox.core.records.formats import check_known

TASKS = ("expand", "repeat", "check", "retry", "deadline", "cancel", "then", "child")


def run_batch_task(ports: Ports, task: str, payload: Mapping[str, Any]) -> None:
    """Run one of the kit's tasks. Raises `Unavailable` for a retry, and `BadBatch` for an invalid payload."""
    check_known(BATCH_EXPAND, task, TASKS)
    run = _run_of(payload)
    try:
        match task, payload:
            case "expand", {"page": int(page)}:
                units.expand_page(ports, run, page)
            case "repeat", {"page": int(page)}:
                units.repeat_page(ports, run, page)
            case "check", _:
                propagation.check_right_edge(ports, run)
            case "retry", {"chain": dict(chain)}:
                chains, looks = payload.get("chains", 1), payload.get("looks", 0)
                retries.run_chain(ports, run, Retries.from_record(chain), chains, looks)
            case "retry", {"after": int(after), "call": str(), "called_at": int(), "payload": dict()}:
                retries.retry_page(ports, run, retries_of(payload), after)
            case "retry", {"units": [*indexes], "call": str(), "called_at": int(), "payload": dict()}:
                looks = payload.get("looks", 0)
                retries.retry_units(ports, run, retries_of(payload), [int(index) for index in indexes], looks)
            case "deadline", _:
                sweep.run_deadline(ports, run)
            case "cancel", {"after": str(after)}:
                cancel_sub_batches(ports, run, after, payload.get("rate", ""))
            case "then", _:
                populate_next(ports, run)
                storage.forget_completion(ports, run.task_name("then"))
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
    raise BadBatch("The payload of a task of batch_expand must have a batch and its incarnation.")


def retries_of(payload: Mapping[str, Any]) -> Retries:
    """Return the call of a task that retries units without chains."""
    is_named = payload.get("named", False)
    return Retries(payload["call"], payload["called_at"], payload["payload"], is_named=is_named)


def complete_parent(ports: Ports, run: BatchRun, unit: PlacedUnit) -> None:
    """Complete the unit whose work a batch was, however the batch ended."""
    header = storage.read_header_of_run(ports, run)
    if header is not None and header.ended:
        units.complete_unit(ports, unit, outcome_of_sub_batch(run, header))
