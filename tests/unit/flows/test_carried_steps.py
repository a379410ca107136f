"""The inline steps that a delivery carries: each row of the table, and the times until which it waits."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from signalbox.core.problems import Problem
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine import carried_steps
from signalbox.flows.machine.carried_steps import CarriedSteps, Next
from signalbox.flows.model.messages import Cancel, Event, Message
from signalbox.flows.model.waits import Claim, Wait
from signalbox.mailboxes.model.outcomes import CallOutcome
from tests.unit.transition_tables import Row, tables

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
[DECISIONS, TIMES] = tables(carried_steps.__doc__)
RUNNING = frozenset({"0"})
SOON, LATE = 1.0, float(LIMITS.inline_renewal_seconds)


def carrying(starts: int = 1, ends_at: float = 60.0) -> CarriedSteps:
    """Return the steps after the code of one has begun, at the beginning of its delivery."""
    steps = CarriedSteps().read(0.0).committed(0.0, 0.0, claims=True)
    return steps.with_begun("0", Wait("e", "0"), Claim("d", starts, BEGIN), ends_at)


def with_outcome(starts: int = 1, outcome: CallOutcome | None = None) -> CarriedSteps:
    return carrying(starts).with_outcomes({"0": outcome or CallOutcome(5)}, "d")


def looked(*messages: Message, changed: bool = False) -> CarriedSteps:
    return carrying().looked(SOON, messages, changed=changed)


CONDITIONS: dict[str, tuple[CarriedSteps, frozenset[str], float]] = {
    "its commit was answered late, and has made claims": (carrying().committed(0, LATE, claims=True), RUNNING, LATE),
    "a message other than a cancel waits": (looked(Cancel("no"), Event("a", 1, BEGIN)), RUNNING, SOON),
    "another turn has changed the header": (looked(changed=True), RUNNING, SOON),
    "the code of a repeated start has ended": (with_outcome(starts=2), frozenset(), SOON),
    "code has ended, and a cancel waits": (replace(with_outcome(), cancel_waits=True), frozenset(), SOON),
    "code has ended": (with_outcome(), RUNNING, SOON),
    "code runs, and its claims are to be renewed": (carrying(), RUNNING, LATE),
    "no code runs": (carrying(), frozenset(), SOON),
    "code runs": (carrying(), RUNNING, SOON),
}


@pytest.mark.parametrize("row", DECISIONS, ids=lambda row: row["if"])
def test_a_delivery_does_what_the_first_row_that_fits_says(row: Row) -> None:
    steps, running, now = CONDITIONS[row["if"]]
    assert steps.next(running, now) is Next[row["the delivery"].upper()]


def test_each_row_goes_before_the_ones_below_it() -> None:
    everything = replace(with_outcome(starts=2), must_read=True, cancel_waits=True)
    fewer = replace(everything, must_read=False), replace(with_outcome(), cancel_waits=True), with_outcome(), carrying()
    assert [steps.next(RUNNING, LATE) for steps in (everything, *fewer)] == [
        Next.READS,
        Next.LEAVES,
        Next.READS,
        Next.COMMITS,
        Next.COMMITS,
    ]
    assert carrying().next(frozenset(), LATE) is Next.COMMITS


TIMES_NOTED: dict[str, Callable[[], tuple[CarriedSteps, float]]] = {
    "the end of a step's time": lambda: (carrying(ends_at=0.5), 0.5),
    "1 second after the last look": lambda: (carrying().looked(3.0), 3.0 + LIMITS.inline_look_seconds),
    "20 seconds after the last commit": lambda: (carrying().looked(LATE), LATE),
}


@pytest.mark.parametrize("row", TIMES, ids=lambda row: row["time"])
def test_a_delivery_waits_until_the_next_of_its_times(row: Row) -> None:
    steps, until = TIMES_NOTED[row["time"]]()
    assert steps.waits_until(RUNNING) == until


def test_the_error_of_a_step_whose_time_is_over_is_an_outcome_and_its_thread_is_lost() -> None:
    steps = carrying(ends_at=5)
    assert (list(steps.timed_out(RUNNING, 4.9)), list(steps.timed_out(RUNNING, 5))) == ([], ["0"])
    after = steps.with_timed_out(["0"], "d")
    assert [str(result.outcome.problem()) for result in after.ended] == ["The step did not end within its time-out."]
    assert (after.has_lost_thread, steps.with_timed_out([], "d").has_lost_thread) == (True, False)


def test_an_answer_that_comes_late_is_read_only_if_its_commit_has_made_claims() -> None:
    late = carrying().committed(5, 5 + LATE, claims=True)
    assert (late.must_read, late.read(30).must_read) == (True, False)
    assert not carrying().committed(5, 5 + LATE, claims=False).must_read
    assert not carrying().committed(5, 4.9 + LATE, claims=True).must_read


def test_a_cancel_is_noted_and_not_read() -> None:
    steps = looked(Cancel("no"))
    assert (steps.cancel_waits, steps.must_read, steps.next(RUNNING, SOON)) == (True, False, Next.WAITS)
    assert looked().cancel_waits is False
    assert steps.looked(2.0).cancel_waits is True


def test_an_error_of_a_repeated_start_is_retried_and_its_problem_is_left() -> None:
    assert with_outcome(starts=2, outcome=CallOutcome(raised=KeyError("a bug"))).repeated == []
    steps = with_outcome(starts=2, outcome=CallOutcome.from_problem(Problem("no")))
    [result] = steps.repeated
    after = steps.left(result)
    assert (after.ended, after.has_left, steps.has_left) == ((), True, False)


def test_a_complete_turn_has_applied_the_outcomes() -> None:
    steps = with_outcome()
    assert steps.applied(cancel_waits=True, complete=False).ended == steps.ended
    assert steps.applied(cancel_waits=True, complete=True).ended == ()


def test_the_servers_time_is_that_of_the_last_answer_and_the_seconds_since() -> None:
    assert carrying().committed(3, 4, claims=False).server_time(BEGIN, 9) == BEGIN + timedelta(seconds=5)


def test_a_look_is_due_a_second_after_the_last_one() -> None:
    steps = CarriedSteps().read(2.0)
    assert (steps.must_look(2.9), steps.must_look(3.0)) == (False, True)
