"""Faults of batch-4: incarnations, counters that must exist, and the order and guards of a removal."""

from __future__ import annotations

from signalbox.batches import sweep
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import PlacedUnit, UnitOutcome, UnitRecord
from signalbox.core.effects import name_of
from signalbox.core.ports import AlreadyExists, Delete, Increment, Must, Ports, Put, Query, RecordMissing
from signalbox.core.problems import Unavailable
from tests.simulation.faults.batches.planting import in_batches, in_batches_together
from tests.simulation.faults.points import original

create = original("batches.create_outcome in units")
complete_again = original("batches.complete_again")
resume_unit = original("batches.resume_unit")
remove = original("batches.remove")


def _named_without_incarnation(run: BatchRun, *parts: object) -> str:
    return name_of(run.header_path, *parts)


def _recreating_counters(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> bool:
    """A counter that does not exist is created again."""
    [counter] = ports.store.read(unit.counter_path)
    if counter.data is not None:
        return create(ports, unit, outcome)
    record = Put(unit.path, UnitRecord(unit, outcome).to_record(), Must.NOT_EXIST)
    try:
        ports.store.commit([record, Put(unit.counter_path, {"units": Increment(1), "failures": 0})])
    except AlreadyExists:
        return False
    return True


def _retrying(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> None:
    """A unit whose counter does not exist is retried."""
    try:
        if not create(ports, unit, outcome):
            complete_again(ports, unit, outcome)
    except RecordMissing as gone:
        raise Unavailable("the counter may come back") from gone


def _not_recorded(ports: Ports, unit: PlacedUnit) -> bool:
    [counter] = ports.store.read(unit.counter_path)
    return counter.data is not None and resume_unit(ports, unit)


class _UnitsFirst(BatchRun):
    """A run whose counters and units change places: its units are removed first."""

    __slots__ = ()

    @property
    def counters_path(self) -> str:
        return f"{self.header_path}/units"

    @property
    def units_path(self) -> str:
        return f"{self.header_path}/counters"


def _removing_units_first(ports: Ports, run: BatchRun, write: Put) -> None:
    remove(ports, _UnitsFirst(run.batch, run.incarnation), write)


def _emptied_of_every_run(ports: Ports, run: BatchRun, collection: str) -> bool:
    while found := ports.store.query(Query(collection, limit=4)):
        ports.store.commit([Delete(one.path) for one in found])
    return bool(run)


def _removing_the_header_unguarded(ports: Ports, run: BatchRun, write: Put) -> None:
    ports.store.commit([write])
    if all(sweep.empty_collection(ports, run, part) for part in (run.counters_path, run.units_path, run.pages_path)):
        ports.store.commit([Delete(run.header_path)])


FAULTS = (
    in_batches("batch-4", "the incarnation", "batches.draw_incarnation", lambda _: "always"),
    in_batches("batch-4", "the incarnation in tasks' names", "batches.BatchRun.task_name", _named_without_incarnation),
    in_batches("batch-4", "counters that must exist", "batches.create_outcome in units", _recreating_counters),
    in_batches_together(
        "batch-4",
        "acknowledging a unit whose batch is gone",
        ("batches.complete_unit", _retrying),
        ("batches.resume_unit", _not_recorded),
        ("batches.unit_is_live", lambda *_: True),
    ),
    in_batches("batch-4", "removing counters before outcomes", "batches.remove", _removing_units_first),
    in_batches("batch-4", "removing one run's records only", "batches.empty_collection", _emptied_of_every_run),
    in_batches("batch-4", "the guard of the header's removal", "batches.remove", _removing_the_header_unguarded),
)
