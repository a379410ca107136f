"""What the kit does around a user's task: claim, run, release; record a unit; give up."""

from datetime import UTC, datetime
from typing import Any

import pytest

from shared.batches.rules.outcomes import UnitOutcome
from shared.core.operations.ports import Ports
from shared.core.rules.effects import Json
from shared.core.rules.problems import BadValue, GaveUp, Problem, Unavailable
from shared.core.rules.task_context import Completion, Lease, TaskContext, Unit
from shared.tasks.operations import task_runner
from shared.tasks.operations.task_runner import Attempt, RetryLimits

LEASE = {"semaphore": "s", "id": "w~1", "token": 1, "ends_at": "2026-01-01T00:00:00Z"}
CLAIMED = Lease("s", "w~2", 2, datetime(2026, 1, 1, tzinfo=UTC))
UNIT = {"batch": "b", "incarnation": "i", "index": 3, "attempt": 0, "page": 0, "offset": 3, "page_units": 9}
RETRY_LIMITS = RetryLimits(executions_max=3, retries_max=5)


class FakeOperations:
    """Stands for the operations on semaphores and batches; `calls` records them, and those of the user's code."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.claimed: Lease | None = CLAIMED
        self.done_before = False
        self.live = True
        self.returned: Json | Exception = None

    def claim(self, _: Ports, given: dict[str, Any]) -> Lease | None:
        self.calls.append(("claim", given["id"]))
        return self.claimed

    def release(self, _: Ports, lease: Lease | dict[str, Any]) -> None:
        self.calls.append(("release", lease.id if isinstance(lease, Lease) else lease["id"]))

    def resume_unit(self, _: Ports, unit: Any) -> bool:
        self.calls.append(("resume", unit.index))
        return self.done_before

    def complete_unit(self, _: Ports, unit: Any, outcome: UnitOutcome) -> None:
        self.calls.append((outcome.state, unit.index, outcome.text))

    def code(self, context: TaskContext | None) -> Json:
        self.calls.append(("run", context))
        if isinstance(self.returned, Exception):
            raise self.returned
        return self.returned

    def run(self, context: dict[str, Any], executions: int = 0, retries: int = 0) -> list[Any]:
        attempt = Attempt(context, executions, retries)
        task_runner.run(ports(), attempt, RETRY_LIMITS, lambda _: self.live, self.code)
        return self.calls


class Quiet:
    """A queue, a clock and a log that ignore every call."""

    def info(self, message: str, /, **values: object) -> None: ...

    def error(self, message: str, /, **values: object) -> None: ...


def ports() -> Ports:
    quiet: Any = Quiet()
    return Ports(quiet, quiet, quiet, quiet)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeOperations:
    operations = FakeOperations()
    monkeypatch.setattr(task_runner, "semaphores", operations)
    monkeypatch.setattr(task_runner, "batch_units", operations)
    return operations


def test_a_lease_is_claimed_before_the_code_runs_and_kept_afterwards(fake: FakeOperations) -> None:
    assert fake.run({"lease": LEASE}) == [("claim", "w~1"), ("run", CLAIMED)]


def test_a_lease_is_released_on_return_if_that_was_asked_for(fake: FakeOperations) -> None:
    assert fake.run({"lease": LEASE | {"release_on_return": True}})[1:] == [("run", CLAIMED), ("release", "w~2")]


def test_code_whose_lease_is_lost_does_not_run(fake: FakeOperations) -> None:
    fake.claimed = None
    assert fake.run({"lease": LEASE}) == [("claim", "w~1")]


def test_a_problem_releases_the_lease_and_is_raised(fake: FakeOperations) -> None:
    fake.returned = BadValue("no")
    with pytest.raises(BadValue):
        fake.run({"lease": LEASE})
    assert fake.calls[2:] == [("release", "w~2")]


@pytest.mark.parametrize("error", [KeyError("bug"), Unavailable("later")])
def test_code_that_fails_otherwise_keeps_its_lease_for_the_next_delivery(
    fake: FakeOperations, error: Exception
) -> None:
    fake.returned = error
    with pytest.raises(type(error)):
        fake.run({"lease": LEASE | {"release_on_return": True}})
    assert ("release", "w~2") not in fake.calls


@pytest.mark.parametrize(("executions", "retries"), [(3, 3), (0, 5)])
def test_a_delivery_too_many_runs_no_code_and_gives_the_lease_back(
    fake: FakeOperations, executions: int, retries: int
) -> None:
    with pytest.raises(GaveUp):
        fake.run({"lease": LEASE}, executions, retries)
    assert fake.calls == [("release", "w~1")]


def test_the_last_delivery_but_one_still_runs(fake: FakeOperations) -> None:
    assert ("run", CLAIMED) in fake.run({"lease": LEASE}, 2, 4)


def test_a_unit_records_what_the_code_returns(fake: FakeOperations) -> None:
    fake.returned = {"color": "#FFFFFF"}
    assert fake.run({"unit": UNIT}) == [("run", Unit("b", 3, 0)), ("succeeded", 3, '{"color": "#FFFFFF"}')]


def test_a_unit_whose_code_raises_a_problem_is_recorded_as_failed_and_not_retried(fake: FakeOperations) -> None:
    fake.returned = BadValue("no such colour")
    assert fake.run({"unit": UNIT})[1:] == [("failed", 3, "no such colour")]


def test_a_unit_whose_result_is_no_json_is_recorded_as_failed(fake: FakeOperations) -> None:
    fake.returned = {1}  # type: ignore[assignment]
    assert fake.run({"unit": UNIT})[1][0] == "failed"


def test_a_unit_whose_code_raises_anything_else_is_not_recorded(fake: FakeOperations) -> None:
    fake.returned = KeyError("bug")
    with pytest.raises(KeyError):
        fake.run({"unit": UNIT})
    assert fake.calls == [("run", Unit("b", 3, 0))]


@pytest.mark.parametrize(("executions", "retries"), [(3, 3), (0, 5)])
def test_a_unit_with_too_many_attempts_is_recorded_as_failed_without_running(
    fake: FakeOperations, executions: int, retries: int
) -> None:
    times = max(executions, retries)
    assert fake.run({"unit": UNIT}, executions, retries) == [
        ("resume", 3),
        ("failed", 3, f"Gave up after {times} attempts."),
    ]


def test_a_unit_that_was_done_before_does_not_run_again(fake: FakeOperations) -> None:
    fake.done_before = True
    assert fake.run({"unit": UNIT}, retries=1) == [("resume", 3)]


def test_a_unit_of_an_ended_batch_does_not_run(fake: FakeOperations) -> None:
    fake.live = False
    assert fake.run({"unit": UNIT}) == []


def test_a_completion_is_passed_to_the_code(fake: FakeOperations) -> None:
    state = {
        "id": "b",
        "state": "completed",
        "size": 2,
        "succeeded": 1,
        "failed": 1,
        "reason": "unknown to this version",
    }
    assert fake.run({"batch": state}) == [("run", Completion("b", "completed", 2, 1, 1))]


def test_a_task_without_a_context_runs_until_it_has_too_many_attempts(fake: FakeOperations) -> None:
    assert fake.run({}) == [("run", None)]
    with pytest.raises(GaveUp):
        fake.run({}, 3)
    assert fake.calls == [("run", None)]


@pytest.mark.parametrize("context", [{"lease": {"id": 1}}, {"unit": 7}, {"batch": {}}])
def test_a_malformed_context_is_refused(fake: FakeOperations, context: dict[str, Any]) -> None:
    with pytest.raises(Problem):
        fake.run(context)
