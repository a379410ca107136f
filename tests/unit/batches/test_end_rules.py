"""How batches end, what the sweeper does with them, and which units may start."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.batches.rules import ends
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.ends import SweepAction
from shared.batches.rules.header import BatchEnd, Counts, Header, header_of, header_of_run
from shared.batches.rules.outcomes import UnitRecord, failed, may_overwrite, outcome_of_sub_batch, succeeded
from shared.batches.rules.status import BatchStatus
from shared.batches.rules.units import PlacedUnit
from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = BatchRun("b", "i")
UNIT = PlacedUnit("parent", "p", 7, 0, 0, 7, 20)
CALL = Call("quilt", "announce", {})


def header(**more: Any) -> Header:
    later = NOW + timedelta(days=1)
    given: dict[str, Any] = {
        "incarnation": "i",
        "digest": "",
        "deadline_at": later,
        "due_at": later,
        "first_pages": 0,
    } | more
    return Header(**given)


@pytest.mark.parametrize(
    ("state", "failures_max", "end"),
    [
        ("open", None, None),
        ("sealed", None, BatchEnd("completed", Counts(10, 7, 3))),
        ("sealed", 3, BatchEnd("completed", Counts(10, 7, 3))),
        ("sealed", 2, BatchEnd("cancelled", Counts(10, 7, 3), "failures")),
    ],
)
def test_a_sealed_batch_with_all_outcomes_completes_unless_too_many_failed(
    state: Any, failures_max: int | None, end: BatchEnd | None
) -> None:
    assert ends.completion(header(state=state, size=10, failures_max=failures_max), 3) == end


def test_failures_that_retries_have_cured_do_not_end_a_batch() -> None:
    assert ends.failure_end(header(failures_max=2), Counts(10, 4, 2)) is None
    assert ends.failure_end(header(failures_max=1), Counts(10, 4, 2)) == BatchEnd(
        "cancelled", Counts(10, 4, 2), "failures"
    )


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
    deadline_at = NOW - timedelta(seconds=seconds_late)
    assert ends.sweep_action(header(state=state, deadline_at=deadline_at), parent_exists, NOW) is action


@pytest.mark.parametrize(
    ("state", "attempt", "live"),
    [
        ("open", 0, True),
        ("sealed", 0, True),
        ("completed", 0, False),
        ("completed", 1, True),
        ("cancelled", 1, False),
        (None, 0, False),
    ],
)
def test_units_start_while_their_batch_runs_and_retries_after_it_completed(
    state: Any, attempt: int, live: bool
) -> None:
    assert ends.unit_is_live(header(state=state) if state else None, attempt) is live


def test_an_end_keeps_disjoint_counts_and_enqueues_its_tasks() -> None:
    end = ends.deadline_end(Counts(5, 2, 1), [3, 4])
    ended = header(state="sealed", size=5, pages=1, on_complete=CALL, parent=UNIT).ended_with(end, NOW)
    assert ended.due_at == NOW + timedelta(seconds=LIMITS.batch_keep_seconds)
    cancel, completion, child = ended.end_effects(RUN, NOW)
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
    assert BatchStatus.of_ended("b", ended).to_json()["remaining"] == 2


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


@pytest.mark.parametrize(
    ("held", "attempt", "may"), [(failed("x"), 2, True), (failed("x"), 1, False), (succeeded(1), 2, False)]
)
def test_only_a_later_attempt_overwrites_a_failure(held: Any, attempt: int, may: bool) -> None:
    first_retry = UNIT.next_attempt()
    assert may_overwrite(UnitRecord(first_retry, held), PlacedUnit(**UNIT.to_record() | {"attempt": attempt})) is may


def test_a_unit_record_survives_and_shows_its_result_or_its_error() -> None:
    record = UnitRecord(UNIT, succeeded({"n": 1}))
    assert UnitRecord.from_record(record.to_record()) == record
    assert record.to_json() == {"index": 7, "attempt": 0, "state": "succeeded", "result": {"n": 1}}
    assert UnitRecord(UNIT, failed("x")).to_json() == {"index": 7, "attempt": 0, "state": "failed", "error": "x"}


def test_the_end_of_a_sub_batch_is_its_units_outcome() -> None:
    completed = header(state="completed", size=2, succeeded=1, failed=1)
    assert outcome_of_sub_batch(RUN, completed) == succeeded(
        {"batch": "b", "state": "completed", "size": 2, "succeeded": 1, "failed": 1}
    )
    assert outcome_of_sub_batch(RUN, header(state="cancelled", reason="deadline")) == failed(
        "The sub-batch b was cancelled: deadline."
    )
