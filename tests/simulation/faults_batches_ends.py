"""Faults of batch-5 to batch-11: deadlines, retries, sub-batches, one end and its tasks, the sweeper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from shared.batches.operations import batches, cancellation, propagation, sub_batches, sweep, tree_walk, units
from shared.batches.rules import ends, outcomes
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.header import BatchEnd, Header, header_of_run
from shared.batches.rules.outcomes import UnitOutcome, UnitRecord
from shared.batches.rules.requests import BatchSpec
from shared.batches.rules.units import PlacedUnit
from shared.core.operations import outbox
from shared.core.operations.ports import Change, Increment, Ports, Put, Snapshot, Stale, Write
from shared.core.rules.effects import Effect
from shared.core.rules.problems import Unavailable
from shared.tasks.operations import task_runner
from tests.simulation.faults_batches_planting import in_batches, in_batches_together

overwritten = units._overwritten
end_effects = Header.end_effects
create, parent_goes_on = batches._create, cancellation.parent_goes_on


# --- retries ---


def _overwritten_unguarded(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome, held: Snapshot) -> bool:
    del held
    ports.store.commit([Put(unit.path, UnitRecord(unit, outcome).to_record())])
    return True


def _counted_again(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome, held: Snapshot) -> bool:
    landed = overwritten(ports, unit, outcome, held)
    ports.store.commit([Change(unit.counter_path, {units.UNITS: Increment(1)})])
    return landed


def _overwritten_by_any(held: UnitRecord, unit: PlacedUnit) -> bool:
    del unit
    return held.outcome.state == "failed"


# --- ends ---


def _only_if_completed(header: Header, run: BatchRun, now: datetime) -> tuple[Effect, ...]:
    return end_effects(header, run, now) if header.state == "completed" else ()


def _unguarded_end(ports: Ports, run: BatchRun, decide_end: Callable[[Header], BatchEnd | None]) -> Header | None:
    """The end overwrites whatever the header has become."""
    [read] = ports.store.read(run.header_path)
    header = header_of_run(read.data, run)
    batch_end = None if header is None or header.ended else decide_end(header)
    if header is None or batch_end is None:
        return header
    ended = header.ended_with(batch_end, read.read_time)
    outbox.commit(ports, [Put(run.header_path, ended.to_record())], ended.end_effects(run, read.read_time))
    return ended


def _end_without_outbox(ports: Ports, run: BatchRun, decide_end: Callable[[Header], BatchEnd | None]) -> Header | None:
    """The completion task is enqueued after the commit, without an outbox record."""
    [read] = ports.store.read(run.header_path)
    header = header_of_run(read.data, run)
    batch_end = None if header is None or header.ended else decide_end(header)
    if header is None or batch_end is None:
        return header
    ended = header.ended_with(batch_end, read.read_time)
    try:
        ports.store.commit([Put(run.header_path, ended.to_record(), read.guard)])
    except Stale as overtaken:
        raise Unavailable("the header was written meanwhile") from overtaken
    ports.queue.create(ended.end_effects(run, read.read_time))
    return ended


def _enqueued_before(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Any:
    """Tasks are enqueued before the commit."""
    ports.queue.create(effects)
    return ports.store.commit(writes)


# --- sub-batches ---


def _the_last_returned(ports: Ports, unit: PlacedUnit, spec: BatchSpec) -> None:
    """A sub-batch of another definition is refused, as any batch would be."""
    batches.populate(ports, unit.sub_batch_id(), spec, unit)


def _end_effects_of_all(header: Header, run: BatchRun, now: datetime) -> tuple[Effect, ...]:
    """The end of a replaced sub-batch completes the parent's unit too."""
    return end_effects(replace(header, reason=""), run, now)


# --- cancelling sub-batches ---


def _without_sub_batches(header: Header, run: BatchRun, now: datetime) -> tuple[Effect, ...]:
    return tuple(effect for effect in end_effects(header, run, now) if effect.task != "cancel")


def _reading_the_parent_first(ports: Ports, batch: str, spec: BatchSpec, pages: int, parent: PlacedUnit | None) -> Any:
    """The parent's header is read before the sub-batch is created; the look at it afterwards finds what was read."""
    goes_on = parent is None or parent_goes_on(ports, parent)
    run, header, created = create(ports, batch, spec, pages, parent)
    if not goes_on:
        header = cancellation.end_with_parent(ports, run) or header
    return run, header, created


FAULTS = (
    in_batches("batch-8", "cancelling sub-batches", Header, "end_effects", _without_sub_batches),
    in_batches("batch-8", "no sub-batch of a cancelled batch", cancellation, "parent_goes_on", lambda *_: True),
    in_batches_together(
        "batch-8",
        "the look at the parent after the creation",
        (batches, "_create", _reading_the_parent_first),
        (cancellation, "parent_goes_on", lambda *_: True),
    ),
    in_batches("batch-5", "an end at the deadline", sweep, "time_out", lambda *_: None),
    in_batches("batch-11", "the task of a deadline", Header, "deadline_effects", lambda *_: ()),
    in_batches("batch-5", "naming the missing units", tree_walk, "missing_units", lambda *_: []),
    in_batches("batch-6", "the guard of a retry", units, "_overwritten", _overwritten_unguarded),
    in_batches("batch-6", "overwriting by a later attempt only", outcomes, "may_overwrite", _overwritten_by_any),
    in_batches("batch-6", "leaving a retry uncounted", units, "_overwritten", _counted_again),
    in_batches("batch-6", "failures counted at the end", ends, "too_many", lambda *_: False),
    in_batches("batch-7", "completing the parent's unit at every end", Header, "end_effects", _only_if_completed),
    in_batches("batch-7", "the first sub-batch stands", task_runner, "populate_sub_batch", _the_last_returned),
    in_batches("batch-7", "not running a unit that has a sub-batch", units, "_has_sub_batch", lambda *_: False),
    in_batches("batch-7", "replacing a sub-batch that was not loaded", sub_batches, "_replace", lambda *_: ""),
    in_batches("batch-7", "no effects of a replaced sub-batch", Header, "end_effects", _end_effects_of_all),
    in_batches("batch-9", "the guard of the end", propagation, "end", _unguarded_end),
    in_batches("batch-9", "the outbox of the end", outbox, "commit", _enqueued_before),
    in_batches("batch-9", "the completion task in the end's commit", propagation, "end", _end_without_outbox),
    in_batches("batch-10", "walking batches without progress", tree_walk, "propagate_all", lambda *_: None),
)
