"""The tables in the docstring of `machine.lifecycle`, row by row, and the details of a batch's header and its end."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from signalbox.batches.limits import LIMITS
from signalbox.batches.machine import lifecycle
from signalbox.batches.machine.lifecycle import SweepAction
from signalbox.batches.model.headers import BatchStatus, Counts, Header, State, header_of, header_of_run
from signalbox.batches.model.pages import EndMark, Page, PageStart
from signalbox.batches.model.settings import NAMES, BatchSettings
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import PlacedUnit
from signalbox.batches.problems import BatchSealed, PageOutOfOrder
from signalbox.batches.requests import BatchSpec
from signalbox.core.calls import Call
from signalbox.core.effects import Decision
from signalbox.core.json_values import json_text
from signalbox.core.problems import OtherBody, Unavailable
from tests.unit.batches.tables import Row, rows_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = BatchRun("b", "i")
UNIT = PlacedUnit("parent", "p", 7, 0, 0, 7, 20)
CALL = Call("quilt", "announce", {})
STATES = get_args(State)
FOLLOWING = json_text(BatchSpec(sealed=True).to_request())

REFUSALS: dict[str, type[Exception]] = {
    "OtherBody": OtherBody,
    "Unavailable": Unavailable,
    "PageOutOfOrder": PageOutOfOrder,
    "BatchSealed": BatchSealed,
}
OPTIONS: dict[str, Any] = {"on_complete": CALL, "on_failure": CALL, "then": FOLLOWING, "parent": UNIT}
FAILURES: dict[str, dict[str, Any]] = {
    "none": {},
    "some": {"failed": 1},
    "tolerated": {"failed": 1, "failures_max": 1},
}


def header(**more: Any) -> Header:
    later = NOW + timedelta(days=1)
    given: dict[str, Any] = {
        "incarnation": "i",
        "digest": BatchSpec().digest(),
        "deadline_at": later,
        "due_at": later,
        "first_pages": 0,
    } | more
    settings = BatchSettings(**{name: given.pop(name) for name in NAMES if name in given})
    return Header(settings=settings, **given)


def with_failures_max(given: Header, failures_max: int) -> Header:
    """Return the header of a batch that tolerates this number of failures."""
    return replace(given, settings=replace(given.settings, failures_max=failures_max))


def in_state(state: str) -> Header:
    """Return a header in a state, with 2 pages of 5 units each from the seal on."""
    sizes: dict[str, Any] = {} if state == "open" else {"pages": 2, "size": 10}
    reason = "cancelled" if state == "cancelled" else ""
    given: Any = state
    return header(state=given, reason=reason, on_complete=CALL, parent=UNIT, **sizes)


PAGE = Page.holding(list(range(5)), PageStart(5), header())


# --- the table of commands ---


COMMANDS = ("create", "seal", "complete", "fail", "cancel", "end_with_parent", "time_out", "replace_sub", "sweep")
ENDS = COMMANDS[2:-1]
TABLE = [
    replace(row, command=command, state=state)
    for row in rows_of(lifecycle, *COMMANDS, "any end")
    for command in (ENDS if row.command == "any end" else (row.command,))
    for state in row.state.split(", ")
]


def seal(given: Header, pages: int, end: Any = None, last: Any = None) -> Decision[Header, Any]:
    return lifecycle.seal(RUN, given, pages, end, last, NOW)


def decided(row: Row) -> tuple[Header | None, Callable[[], Decision[Header, Any]]]:
    """Return the header before, and the command in the row's condition."""
    given = None if row.state == "none" else in_state(row.state)
    counts = Counts(10, 4, 2)
    match row.command, row.condition:
        case "create", condition:
            seconds = 60 if condition == "nearer deadline" else LIMITS.batch_deadline_seconds
            spec = BatchSpec(deadline_seconds=seconds, failures_max=1 if condition == "another spec" else None)
            return given, lambda: lifecycle.create(RUN, given, spec.header("i", 0, None, NOW), NOW)
    assert given is not None
    match row.command, row.condition:
        case "seal", ("after the last page" | "same number of pages"):
            return given, lambda: seal(given, 2, None, PAGE)
        case "seal", "no page, none loaded":
            return given, lambda: seal(given, 0)
        case "seal", "before the last page":
            return given, lambda: seal(given, 2, PAGE, PAGE)
        case "seal", "after a missing page":
            return given, lambda: seal(given, 2, None, None)
        case "seal", "another number of pages":
            return given, lambda: seal(given, 3, EndMark(), EndMark())
        case (("complete" | "fail"), ("failures tolerated" | "too many failures" | "-")):
            tolerating = with_failures_max(given, 1 if row.condition == "too many failures" else 2)
            if row.command == "complete":
                return tolerating, lambda: lifecycle.complete(RUN, tolerating, 2, NOW)
            return tolerating, lambda: lifecycle.fail(RUN, tolerating, counts, NOW)
        case "cancel", "-":
            return given, lambda: lifecycle.cancel(RUN, given, counts, NOW)
        case "end_with_parent", "-":
            return given, lambda: lifecycle.end_with_parent(RUN, given, counts, NOW)
        case "time_out", "-":
            return given, lambda: lifecycle.time_out(RUN, given, counts, [8, 9], NOW)
        case "replace_sub", "-":
            return given, lambda: lifecycle.replace_sub(RUN, given, counts, NOW)
        case "sweep", condition:
            due = replace(given, deadline_at=NOW + timedelta(seconds=1 if condition == "before the deadline" else 0))
            return due, lambda: lifecycle.sweep(due, condition == "its parent exists", NOW)
    raise AssertionError(f"no test for the row {row}")


def then_of(decision: Decision[Header, Any], before: Header | None) -> str:
    """Return the consequences of a decision, in the words of the table."""
    if isinstance(decision.answer, SweepAction):
        return decision.answer.name.lower().replace("_", " ")
    if before is not None and not before.ended and decision.state.ended:
        assert decision.effects == lifecycle.end_tasks(RUN, decision.state, NOW)
        return "end"
    return ", ".join(effect.task for effect in decision.effects) or "-"


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_each_row_of_the_table_of_commands_holds(row: Row) -> None:
    before, command = decided(row)
    if refusal := REFUSALS.get(row.outcome[0]):
        with pytest.raises(refusal):
            command()
        return
    state, reason, then = row.outcome
    decision = command()
    assert then_of(decision, before) == then
    if state == "same" and before is not None:
        assert replace(decision.state, due_at=before.due_at) == before
    else:
        expected = before.reason if reason == "same" and before is not None else reason
        assert (decision.state.state, decision.state.reason or "-") == (state, expected or "-")


def test_the_table_has_every_command_in_every_state_in_which_it_can_come() -> None:
    covered = {(row.command, row.state) for row in TABLE}
    present = set(STATES) - {"removed"}  # `header_of_run` returns None for a batch that is being removed
    expected = {(command, state) for command in ("seal", *ENDS) for state in present}
    expected |= {("create", state) for state in ("none", *STATES)} | {("sweep", state) for state in STATES}
    assert covered == expected


# --- the table of ends ---


@pytest.mark.parametrize("row", rows_of(lifecycle, "completed", "cancelled"), ids=str)
def test_each_row_of_the_table_of_ends_holds(row: Row) -> None:
    state: Any = row.command
    reason, failures = row.state, row.condition
    [options, tasks] = row.outcome
    given = {name: OPTIONS[name] for name in options.split(", ") if name != "-"}
    ended = header(state=state, reason="" if reason == "-" else reason, size=3, **FAILURES[failures], **given)
    names = {RUN.task_name(name): name for name in ("complete", "failure")}
    found = [names.get(effect.name, effect.task) for effect in lifecycle.end_tasks(RUN, ended, NOW)]
    assert found == [task for task in tasks.split(", ") if task != "-"]


# --- details ---


def test_failures_that_retries_have_cured_do_not_end_a_batch() -> None:
    given = header(failures_max=2)
    assert lifecycle.fail(RUN, given, Counts(10, 4, 2), NOW) == Decision(given, None)
    ended = lifecycle.fail(RUN, with_failures_max(given, 1), Counts(10, 4, 2), NOW).state
    assert (ended.state, ended.counts, ended.reason) == ("cancelled", Counts(10, 4, 2), "failures")


@pytest.mark.parametrize(("failures_max", "state"), [(None, "completed"), (3, "completed"), (2, "cancelled")])
def test_a_sealed_batch_with_all_outcomes_has_disjoint_counts(failures_max: int | None, state: str) -> None:
    ended = lifecycle.complete(RUN, header(state="sealed", size=10, failures_max=failures_max), 3, NOW).state
    assert (ended.state, ended.counts) == (state, Counts(10, 7, 3))


@pytest.mark.parametrize(
    ("state", "parent_exists", "seconds_late", "action"),
    [
        ("open", False, -1, SweepAction.WALK),
        ("sealed", False, -1, SweepAction.WALK),
        ("sealed", False, 0, SweepAction.TIME_OUT),
        ("open", False, 1, SweepAction.TIME_OUT),
        ("completed", False, 1, SweepAction.REMOVE),
        ("cancelled", True, 1, SweepAction.KEEP),
        ("removed", False, 1, SweepAction.REMOVE),
    ],
)
def test_the_sweeper_acts_by_state_deadline_and_parent(
    state: Any, parent_exists: bool, seconds_late: int, action: SweepAction
) -> None:
    due = header(state=state, deadline_at=NOW - timedelta(seconds=seconds_late))
    decision = lifecycle.sweep(due, parent_exists, NOW)
    assert decision.answer is action
    assert decision.state.due_at > NOW


def test_an_end_keeps_disjoint_counts_and_enqueues_its_tasks() -> None:
    running = header(state="sealed", size=5, pages=1, on_complete=CALL, parent=UNIT)
    decision = lifecycle.time_out(RUN, running, Counts(5, 2, 1), [3, 4], NOW)
    ended = decision.state
    assert ended.due_at == NOW + timedelta(seconds=LIMITS.batch_keep_seconds)
    cancel, completion, child = decision.effects
    assert cancel.task == "cancel"
    assert completion.context["batch"] == {
        "id": "b",
        "state": "cancelled",
        "size": 5,
        "succeeded": 2,
        "failed": 1,
        "reason": "deadline",
        "missing": [3, 4],
    }
    assert (child.task, child.payload["unit"]) == ("child", UNIT.to_record())
    assert BatchStatus.of_ended("b", ended).counts.remaining == 2


def test_a_header_survives_its_record() -> None:
    ended = header(task=CALL, on_complete=CALL, parent=UNIT, state="cancelled", missing=(1, 2), reason="deadline")
    assert Header.from_record(ended.to_record()) == ended
    assert Header.from_record(header().to_record()) == header()


def test_a_header_belongs_to_one_run_and_to_none_while_it_is_removed() -> None:
    record = header().to_record()
    assert header_of_run(record, RUN) == header()
    assert header_of_run(record, BatchRun("b", "later")) is None
    assert header_of(header(state="removed").to_record()) is None
    assert header_of(None) is None


def test_the_states_before_the_table_are_all_states() -> None:
    described = re.findall(r"^    (\w+) {3,}[a-z]\w* ", (lifecycle.__doc__ or "").partition("command")[0], re.MULTILINE)
    assert tuple(described) == STATES
