"""The tables in the docstring of `machine.units`, row by row, and a unit's record and outcome."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from signalbox.adapters.http.json_bodies import shown_members
from signalbox.batches.machine import units as machine
from signalbox.batches.model.headers import Header
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import PlacedUnit, UnitOutcome, UnitRecord, failed, succeeded
from signalbox.batches.service import units
from signalbox.batches.shown import unit_shown
from tests.unit.batches.batch_harness import BatchHarness, batch
from tests.unit.batches.tables import Row, rows_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UNIT = PlacedUnit("parent", "p", 7, 1, 0, 7, 20)
ATTEMPTS = {"first": 0, "same": 1, "retry": 1, "earlier": 0, "later": 2}


def header(**more: Any) -> Header:
    given: dict[str, Any] = {"incarnation": "i", "digest": "", "deadline_at": NOW, "due_at": NOW, "first_pages": 0}
    return Header(**given | more)


def parted(rows: list[Row]) -> list[Row]:
    """Return a row for each state and each attempt that a row names."""
    return [
        replace(row, state=state, condition=attempt)
        for row in rows
        for state in row.state.split(", ")
        for attempt in row.condition.split(" or ")
    ]


@pytest.mark.parametrize("row", parted(rows_of(machine, "start")), ids=str)
def test_each_row_of_the_table_of_starts_holds(row: Row) -> None:
    held = None if row.state == "none" else header(state=row.state)
    attempts = (0, 1) if row.condition == "any" else (ATTEMPTS[row.condition],)
    assert {machine.may_start(held, attempt) for attempt in attempts} == {row.outcome == ("run",)}


@pytest.mark.parametrize("row", parted(rows_of(machine, "complete")), ids=str)
def test_each_row_of_the_table_of_outcomes_holds(row: Row) -> None:
    held = {"none": None, "succeeded": succeeded("held"), "failed": failed("held")}[row.state]
    attempts = (0, 1, 2) if row.condition == "any" else (ATTEMPTS[row.condition],)
    assert {completed_over(held, attempt) for attempt in attempts} == {row.outcome}


def completed_over(held: UnitOutcome | None, attempt: int) -> tuple[str, str]:
    """Complete a unit that has the outcome of attempt 1, or none; return what became of its record and its counter."""
    harness = BatchHarness()
    harness.request("POST", "/", batch(20))
    page = units.find_unit(harness.ports, "b", 7)
    if held is not None:
        units.complete_unit(harness.ports, replace(page, attempt=1), held)
    before, counted = read(harness, page)
    units.complete_unit(harness.ports, replace(page, attempt=attempt), succeeded("new"))
    after, counted_after = read(harness, page)
    changed = {True: "keep", False: "record" if before is None else "overwrite"}[after == before]
    return changed, {0: "-", 1: "+1"}[counted_after["units"] - counted["units"]]


def read(harness: BatchHarness, unit: PlacedUnit) -> tuple[Any, Any]:
    record, counter = harness.ports.store.read(unit.path, unit.counter_path)
    return record.data, counter.data


def test_the_tables_have_every_state() -> None:
    rows = parted(rows_of(machine, "start", "complete"))
    assert {row.state for row in rows if row.command == "start"} == {"none", "open", "sealed", "completed", "cancelled"}
    assert {row.state for row in rows if row.command == "complete"} == {"none", "succeeded", "failed"}


@pytest.mark.parametrize(
    ("held", "attempt", "may"), [(failed("x"), 2, True), (failed("x"), 1, False), (succeeded(1), 2, False)]
)
def test_only_a_later_attempt_overwrites_a_failure(held: Any, attempt: int, may: bool) -> None:
    later = PlacedUnit(**UNIT.to_record() | {"attempt": attempt})
    assert machine.may_overwrite(UnitRecord(UNIT, held), later) is may


def test_a_unit_record_survives_and_shows_its_result_or_its_error() -> None:
    record = UnitRecord(UNIT, succeeded({"n": 1}))
    assert UnitRecord.from_record(record.to_record()) == record
    assert shown_members(unit_shown(record)) == {"index": 7, "attempt": 1, "state": "succeeded", "result": {"n": 1}}
    assert shown_members(unit_shown(UnitRecord(UNIT, failed("x")))) == {
        "index": 7,
        "attempt": 1,
        "state": "failed",
        "error": "x",
    }


def test_an_open_function_shows_no_text_of_an_exception_of_a_unit() -> None:
    record = UnitRecord(UNIT, failed("Gave up after 2 attempts. Last error: KeyError: '42-17'"))
    assert shown_members(unit_shown(record, is_open=True))["error"] == "Gave up after 2 attempts."
    assert shown_members(unit_shown(UnitRecord(UNIT, failed("No such row.")), is_open=True))["error"] == "No such row."


def test_the_end_of_a_sub_batch_is_its_units_outcome() -> None:
    run = BatchRun("b", "i")
    completed = header(state="completed", size=2, succeeded=1, failed=1)
    assert machine.outcome_of_sub_batch(run, completed) == succeeded(
        {"batch": "b", "state": "completed", "size": 2, "succeeded": 1, "failed": 1}
    )
    assert machine.outcome_of_sub_batch(run, header(state="cancelled", reason="deadline")) == failed(
        "The sub-batch b was cancelled: deadline."
    )
