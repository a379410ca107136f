"""Faults of batch-13: chains of units that run one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from signalbox.batches.model.pages import Page
from signalbox.batches.model.units import FirstRuns, PlacedUnit, UnitOutcome
from signalbox.batches.service import units
from signalbox.core.ports import Ports, Snapshot
from tests.simulation.faults.batches.planting import in_batches
from tests.simulation.faults.points import original

complete_unit = original("batches.complete_unit")
resume_unit = original("batches.resume_unit")
follow = original("batches.follow")
page_with = units._page_with
find_unit = original("batches.find_unit")


def _first_runs_only(ports: Ports, unit: PlacedUnit) -> None:
    if isinstance(unit.chain, FirstRuns):
        follow(ports, unit)


def _not_when_repeated(ports: Ports, unit: PlacedUnit) -> bool:
    return resume_unit(ports, replace(unit, chain=None))


def _next_first(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> None:
    """The next unit is enqueued before the outcome is committed."""
    follow(ports, unit)
    complete_unit(ports, replace(unit, chain=None), outcome)


def _page_read_first(ports: Ports, unit: PlacedUnit, outcome: UnitOutcome) -> None:
    """The next unit's page is read before the outcome is committed. A page loaded later is left to its expansion."""
    chain = unit.chain
    known = not isinstance(chain, FirstRuns) or page_with(ports, unit, unit.index + chain.concurrency)
    complete_unit(ports, unit if known else replace(unit, chain=None), outcome)


def _without_what_waits(ports: Ports, batch: str, index: int) -> PlacedUnit:
    """A unit that a person completes has no chain."""
    return replace(find_unit(ports, batch, index), chain=None)


def _the_first_of_each(ports: Ports, page: Page, loaded: Sequence[PlacedUnit]) -> list[PlacedUnit]:
    """A page's expansion does not check whether a unit before has ended."""
    del ports
    return [unit for unit in loaded if page.concurrency is None or unit.index < page.concurrency]


def _every_unit_is_reached(_: Ports, unit: PlacedUnit) -> PlacedUnit:
    """What a person completes is followed, wherever its chain is."""
    return unit


def _repeated_deliveries_only(ports: Ports, unit: PlacedUnit, *, is_repeated: bool) -> bool:
    return is_repeated and resume_unit(ports, unit)


def _has_outcome(record: Snapshot) -> bool:
    return record.data is not None


FAULTS = (
    in_batches("batch-13", "the place of a chain", "batches.placed_ahead", _every_unit_is_reached),
    in_batches("batch-13", "a page after what was completed ahead", "batches.is_followed", _has_outcome),
    in_batches("batch-13", "the end of what was completed ahead", "batches.mark_reached", lambda *_: None),
    in_batches("batch-13", "the look before a first delivery", "batches.need_not_run", _repeated_deliveries_only),
    in_batches("batch-13", "the next unit", "batches.follow", lambda *_: None),
    in_batches("batch-13", "the next retry", "batches.follow", _first_runs_only),
    in_batches("batch-13", "the next unit of a repeated delivery", "batches.resume_unit", _not_when_repeated),
    in_batches("batch-13", "the outcome before the next unit", "batches.complete_unit", _next_first),
    in_batches("batch-13", "the unit after one that a person completes", "batches.find_unit", _without_what_waits),
    in_batches("batch-13", "reading the page after the outcome", "batches.complete_unit", _page_read_first),
    in_batches("batch-13", "looking before the units of a new page", "batches.ready", _the_first_of_each),
    in_batches("batch-13", "units that wait", "batches.ready", lambda _, __, loaded: list(loaded)),
    in_batches("batch-13", "retrying what failed before the call", "batches.retried_since", lambda *_: True),
)
