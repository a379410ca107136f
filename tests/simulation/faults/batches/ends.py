"""Faults of batch-5 to batch-11: deadlines, retries, sub-batches, one end and its tasks, the sweeper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from signalbox.batches import storage
from signalbox.batches.machine.lifecycle import Decided
from signalbox.batches.model.headers import BatchStatus, Header, header_of_run
from signalbox.batches.model.tree import UNITS, BatchRun
from signalbox.batches.model.units import PlacedUnit, UnitOutcome, UnitRecord
from signalbox.batches.requests import BatchSpec, SealRequest
from signalbox.batches.service import lifecycle, population
from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.ports import Change, Increment, Ports, Put, Snapshot, Stale, Write
from signalbox.core.problems import Unavailable
from tests.simulation.faults.batches.planting import in_batches, in_batches_together
from tests.simulation.faults.points import original

overwritten = original("batches.overwrite_failure")
end_tasks = original("batches.end_tasks")
create = original("batches.create_batch in batches")
parent_is_live = original("batches.parent_is_live")
end_if_lost = original("batches.end_if_lost")

Rule = Callable[[Header, datetime], Decided]


# --- retries ---


def _overwritten_unguarded(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome, held: Snapshot) -> bool:
    del held
    ports.store.commit([Put(unit.path, UnitRecord(unit, outcome).to_record())])
    return True


def _counted_again(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome, held: Snapshot) -> bool:
    landed = overwritten(ports, unit, outcome, held)
    ports.store.commit([Change(unit.counter_path, {UNITS: Increment(1)})])
    return landed


def _overwritten_by_any(held: UnitRecord, unit: PlacedUnit) -> bool:
    del unit
    return held.outcome.state == "failed"


# --- ends ---


def _only_if_completed(run: BatchRun, header: Header, now: datetime) -> tuple[Effect, ...]:
    return end_tasks(run, header, now) if header.state == "completed" else ()


def _only_if_open(ports: Ports, run: BatchRun, header: Header, unit: PlacedUnit) -> bool:
    return header.state == "open" and end_if_lost(ports, run, header, unit)


def _unguarded_end(ports: Ports, run: BatchRun, rule: Rule) -> Header | None:
    """The end overwrites whatever the header has become."""
    [read] = ports.store.read(run.header_path)
    header = header_of_run(read.data, run)
    if header is None or header.ended or (decided := rule(header, read.read_time)).state == header:
        return header
    outbox.commit(ports, [Put(run.header_path, decided.state.to_record())], decided.effects)
    return decided.state


def _end_without_outbox(ports: Ports, run: BatchRun, rule: Rule) -> Header | None:
    """The completion task is enqueued after the commit, without an outbox record."""
    [read] = ports.store.read(run.header_path)
    header = header_of_run(read.data, run)
    if header is None or header.ended or (decided := rule(header, read.read_time)).state == header:
        return header
    try:
        ports.store.commit([Put(run.header_path, decided.state.to_record(), read.guard)])
    except Stale as overtaken:
        raise Unavailable("the header was written meanwhile") from overtaken
    ports.queue.create(decided.effects)
    return decided.state


def _enqueued_before(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Any:
    """Tasks are enqueued before the commit."""
    ports.queue.create(effects)
    return ports.store.commit(writes)


# --- sub-batches ---


def _the_last_returned(ports: Ports, unit: PlacedUnit, spec: BatchSpec) -> None:
    """A sub-batch of another definition is refused, as any batch would be."""
    population.populate(ports, unit.sub_batch_id(), spec, unit)


def _end_tasks_of_all(run: BatchRun, header: Header, now: datetime) -> tuple[Effect, ...]:
    """The end of a replaced sub-batch completes the parent's unit too."""
    return end_tasks(run, replace(header, reason=""), now)


# --- cancelling sub-batches ---


def _without_sub_batches(run: BatchRun, header: Header, now: datetime) -> tuple[Effect, ...]:
    return tuple(effect for effect in end_tasks(run, header, now) if effect.task != "cancel")


def _reading_the_parent_first(ports: Ports, batch: str, spec: BatchSpec, pages: int, parent: PlacedUnit | None) -> Any:
    """The parent's header is read before the sub-batch is created; the read after the creation finds the same."""
    is_live = parent is None or parent_is_live(ports, parent)
    run, header, created = create(ports, batch, spec, pages, parent)
    if not is_live:
        header = population.end_with_parent(ports, run) or header
    return run, header, created


def _sealed_or_refused(ports: Ports, batch: str, pages: int) -> BatchStatus:
    return lifecycle.seal(ports, batch, SealRequest(pages))


FAULTS = (
    in_batches("batch-8", "cancelling sub-batches", "batches.end_tasks", _without_sub_batches),
    in_batches("batch-8", "no sub-batch of a cancelled batch", "batches.parent_is_live", lambda *_: True),
    in_batches_together(
        "batch-8",
        "the look at the parent after the creation",
        ("batches.create_batch in batches", _reading_the_parent_first),
        ("batches.parent_is_live", lambda *_: True),
    ),
    in_batches("batch-5", "an end at the deadline", "batches.time_out", lambda *_: None),
    in_batches("batch-11", "the task of a deadline", "batches.deadline_tasks", lambda *_: ()),
    in_batches("batch-5", "naming the missing units", "batches.missing_units", lambda *_: []),
    in_batches("batch-6", "the guard of a retry", "batches.overwrite_failure", _overwritten_unguarded),
    in_batches("batch-6", "overwriting by a later attempt only", "batches.may_overwrite", _overwritten_by_any),
    in_batches("batch-6", "leaving a retry uncounted", "batches.overwrite_failure", _counted_again),
    in_batches("batch-6", "failures counted at the end", "batches.too_many_failed", lambda *_: False),
    in_batches("batch-7", "completing the parent's unit at every end", "batches.end_tasks", _only_if_completed),
    in_batches("batch-7", "the first sub-batch stands", "tasks.populate_sub_batch", _the_last_returned),
    in_batches("batch-7", "not running a unit that has a sub-batch", "batches.has_sub_batch", lambda *_: False),
    in_batches("batch-7", "sealing what a process has loaded", "batches.stored_sub_batch", storage.last_sub_batch),
    in_batches("batch-7", "ending a sub-batch that is lost", "batches.end_if_lost", lambda *_: False),
    in_batches("batch-8", "ending the sub-batches whose cancel was purged", "batches.end_if_lost", _only_if_open),
    in_batches("batch-8", "the end of a batch that is populated", "batches.seal_unless_ended", _sealed_or_refused),
    in_batches("batch-7", "replacing a sub-batch that was not loaded", "batches.replace_sub_batch", lambda *_: ""),
    in_batches("batch-7", "no effects of a replaced sub-batch", "batches.end_tasks", _end_tasks_of_all),
    in_batches("batch-9", "the guard of the end", "batches.end_batch", _unguarded_end),
    in_batches("batch-9", "the outbox of the end", "core.commit", _enqueued_before),
    in_batches("batch-9", "the completion task in the end's commit", "batches.end_batch", _end_without_outbox),
    in_batches("batch-10", "walking batches without progress", "batches.propagate_all", lambda *_: []),
    in_batches("batch-16", "enqueuing the units of a silent page again", "batches.silent_tasks", lambda *_: []),
    in_batches("batch-16", "enqueuing a completion again", "batches.repeat_completions", lambda *_: None),
    in_batches(
        "batch-16",
        "continuing a chain that stopped in front of units that were completed ahead",
        "batches.repeat_ahead",
        lambda *_: None,
    ),
)
