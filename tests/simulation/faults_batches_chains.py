"""Faults of batch-13: chains of units that run one behind another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.batches.operations import chains, units
from shared.batches.rules.chains import FirstRuns
from shared.batches.rules.outcomes import UnitOutcome
from shared.batches.rules.pages import Page
from shared.batches.rules.units import PlacedUnit
from shared.core.operations.ports import Ports
from tests.simulation.faults_batches_planting import in_batches

complete_unit, resume_unit, follow, page_with = units.complete_unit, units.resume_unit, chains.follow, chains._page_with
find_unit = units.find_unit


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
    """The next unit's page is read before the outcome is committed; what is loaded later is left to its expansion."""
    chain = unit.chain
    known = not isinstance(chain, FirstRuns) or page_with(ports, unit, unit.index + chain.concurrency)
    complete_unit(ports, unit if known else replace(unit, chain=None), outcome)


def _without_what_waits(ports: Ports, batch: str, index: int) -> PlacedUnit:
    """A unit that a person completes has no chain."""
    return replace(find_unit(ports, batch, index), chain=None)


def _the_first_of_each(ports: Ports, page: Page, loaded: Sequence[PlacedUnit]) -> list[PlacedUnit]:
    """A page's expansion does not look whether a unit before has ended."""
    del ports
    return [unit for unit in loaded if page.concurrency is None or unit.index < page.concurrency]


FAULTS = (
    in_batches("batch-13", "the next unit", chains, "follow", lambda *_: None),
    in_batches("batch-13", "the next retry", chains, "follow", _first_runs_only),
    in_batches("batch-13", "the next unit of a repeated delivery", units, "resume_unit", _not_when_repeated),
    in_batches("batch-13", "the outcome before the next unit", units, "complete_unit", _next_first),
    in_batches("batch-13", "the unit behind one that a person completes", units, "find_unit", _without_what_waits),
    in_batches("batch-13", "reading the page after the outcome", units, "complete_unit", _page_read_first),
    in_batches("batch-13", "looking before the units of a new page", chains, "ready", _the_first_of_each),
    in_batches("batch-13", "units that wait", chains, "ready", lambda _, __, loaded: list(loaded)),
    in_batches("batch-13", "retrying what failed before the call", chains, "_is_earlier", lambda *_: True),
)
