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
PATIENCE = RetryLimits(executions_max=3, retries_max=5)


class Scene:
    """Stands for both nouns' operations, and notes what is asked of them, the user's code among it."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.claimed: Lease | None = CLAIMED
        self.over = False
        self.wanted = True
        self.answer: Json | Exception = None

    def claim(self, _: Ports, given: dict[str, Any]) -> Lease | None:
        self.seen.append(("claim", given["id"]))
        return self.claimed

    def release(self, _: Ports, lease: Lease | dict[str, Any]) -> None:
        self.seen.append(("release", lease.id if isinstance(lease, Lease) else lease["id"]))

    def resume_unit(self, _: Ports, unit: Any) -> bool:
        self.seen.append(("resume", unit.index))
        return self.over

    def complete_unit(self, _: Ports, unit: Any, outcome: UnitOutcome) -> None:
        self.seen.append((outcome.state, unit.index, outcome.text))

    def code(self, context: TaskContext | None) -> Json:
        self.seen.append(("run", context))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def run(self, context: dict[str, Any], executions: int = 0, retries: int = 0) -> list[Any]:
        delivery = Attempt(context, executions, retries)
        task_runner.run(ports(), delivery, PATIENCE, lambda _: self.wanted, self.code)
        return self.seen


class Quiet:
    """A queue, a clock and a log that nobody asks anything."""

    def info(self, message: str, /, **values: object) -> None: ...

    def error(self, message: str, /, **values: object) -> None: ...


def ports() -> Ports:
    quiet: Any = Quiet()
    return Ports(quiet, quiet, quiet, quiet)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    playing = Scene()
    monkeypatch.setattr(task_runner, "semaphores", playing)
    monkeypatch.setattr(task_runner, "batch_units", playing)
    return playing


def test_a_lease_is_claimed_before_the_code_runs_and_kept_afterwards(scene: Scene) -> None:
    assert scene.run({"lease": LEASE}) == [("claim", "w~1"), ("run", CLAIMED)]


def test_a_lease_is_released_on_return_if_that_was_asked_for(scene: Scene) -> None:
    assert scene.run({"lease": LEASE | {"release_on_return": True}})[1:] == [("run", CLAIMED), ("release", "w~2")]


def test_code_whose_lease_is_lost_does_not_run(scene: Scene) -> None:
    scene.claimed = None
    assert scene.run({"lease": LEASE}) == [("claim", "w~1")]


def test_code_that_says_no_gives_its_lease_back_and_is_heard(scene: Scene) -> None:
    scene.answer = BadValue("no")
    with pytest.raises(BadValue):
        scene.run({"lease": LEASE})
    assert scene.seen[2:] == [("release", "w~2")]


@pytest.mark.parametrize("error", [KeyError("bug"), Unavailable("later")])
def test_code_that_fails_otherwise_keeps_its_lease_for_the_next_delivery(scene: Scene, error: Exception) -> None:
    scene.answer = error
    with pytest.raises(type(error)):
        scene.run({"lease": LEASE | {"release_on_return": True}})
    assert ("release", "w~2") not in scene.seen


@pytest.mark.parametrize(("executions", "retries"), [(3, 3), (0, 5)])
def test_a_delivery_too_many_runs_no_code_and_gives_the_lease_back(scene: Scene, executions: int, retries: int) -> None:
    with pytest.raises(GaveUp):
        scene.run({"lease": LEASE}, executions, retries)
    assert scene.seen == [("release", "w~1")]


def test_the_last_delivery_but_one_still_runs(scene: Scene) -> None:
    assert ("run", CLAIMED) in scene.run({"lease": LEASE}, 2, 4)


def test_a_unit_records_what_the_code_gives(scene: Scene) -> None:
    scene.answer = {"color": "#FFFFFF"}
    assert scene.run({"unit": UNIT}) == [("run", Unit("b", 3, 0)), ("succeeded", 3, '{"color": "#FFFFFF"}')]


def test_a_unit_whose_code_says_no_is_recorded_as_failed_and_not_asked_for_again(scene: Scene) -> None:
    scene.answer = BadValue("no such colour")
    assert scene.run({"unit": UNIT})[1:] == [("failed", 3, "no such colour")]


def test_a_unit_whose_result_is_no_json_is_recorded_as_failed(scene: Scene) -> None:
    scene.answer = {1}  # type: ignore[assignment]
    assert scene.run({"unit": UNIT})[1][0] == "failed"


def test_a_unit_whose_code_dies_is_not_recorded(scene: Scene) -> None:
    scene.answer = KeyError("bug")
    with pytest.raises(KeyError):
        scene.run({"unit": UNIT})
    assert scene.seen == [("run", Unit("b", 3, 0))]


@pytest.mark.parametrize(("executions", "retries"), [(3, 3), (0, 5)])
def test_a_unit_delivered_too_often_is_recorded_as_given_up_without_running(
    scene: Scene, executions: int, retries: int
) -> None:
    times = max(executions, retries)
    assert scene.run({"unit": UNIT}, executions, retries) == [
        ("resume", 3),
        ("failed", 3, f"Gave up after {times} attempts."),
    ]


def test_a_unit_that_is_over_is_not_done_again_when_it_is_delivered_again(scene: Scene) -> None:
    scene.over = True
    assert scene.run({"unit": UNIT}, retries=1) == [("resume", 3)]


def test_a_unit_of_a_batch_that_has_ended_does_not_run(scene: Scene) -> None:
    scene.wanted = False
    assert scene.run({"unit": UNIT}) == []


def test_a_completion_is_given_to_the_code(scene: Scene) -> None:
    state = {
        "id": "b",
        "state": "completed",
        "size": 2,
        "succeeded": 1,
        "failed": 1,
        "reason": "unknown to this version",
    }
    assert scene.run({"batch": state}) == [("run", Completion("b", "completed", 2, 1, 1))]


def test_a_task_that_runs_for_nothing_just_runs_until_it_has_died_too_often(scene: Scene) -> None:
    assert scene.run({}) == [("run", None)]
    with pytest.raises(GaveUp):
        scene.run({}, 3)
    assert scene.seen == [("run", None)]


@pytest.mark.parametrize("context", [{"lease": {"id": 1}}, {"unit": 7}, {"batch": {}}])
def test_what_no_kit_has_sent_is_refused(scene: Scene, context: dict[str, Any]) -> None:
    with pytest.raises(Problem):
        scene.run(context)
