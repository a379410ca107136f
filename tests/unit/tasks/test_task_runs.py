"""What the kit does around a user's task: claim, run, release; record a unit; give up."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from signalbox.batches.model.units import Completion, Unit, UnitOutcome
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Json
from signalbox.core.ports import Committed, Ports, Put, Write
from signalbox.core.problems import BadValue, GaveUp, Problem, Unavailable
from signalbox.semaphores.model.leases import Granted, Lease
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import TaskSubject, parsed
from signalbox.tasks.service import lease_runs, runs, unit_runs
from signalbox.testing.manual_clock import ManualClock
from signalbox.testing.memory_store import MemoryStore
from signalbox.testing.recorded_log import RecordedLog

LEASE = {"semaphore": "s", "id": "w~1", "token": 1, "ends_at": "2026-01-01T00:00:00Z"}
CLAIMED = Lease("s", "w~2", 2, datetime(2026, 1, 1, tzinfo=UTC))
UNIT = {"batch": "b", "incarnation": "i", "index": 3, "attempt": 0, "page": 0, "offset": 3, "page_units": 9}
RETRY_LIMITS = RetryLimits(attempts_max=3)
RECORD = "attempts/op"


class FakeOperations:
    """Stands for the operations on semaphores and batches; `calls` records them, and those of the user's code."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.store = AbsentStore()
        self.log = RecordedLog()
        self.unavailable = ""
        self.claimed: Lease | None = CLAIMED
        self.done_before = False
        self.live = True
        self.returned: Json | Exception = None

    def claim(self, _: Ports, given: Granted) -> Lease | None:
        self.calls.append(("claim", given.id))
        self.fail_if_unavailable("claim")
        return self.claimed

    def release(self, _: Ports, lease: Lease | Granted) -> None:
        self.calls.append(("release", lease.id))

    def need_not_run(self, _: Ports, unit: Any, *, is_repeated: bool) -> bool:
        if not is_repeated:
            return False
        self.calls.append(("resume", unit.index))
        self.fail_if_unavailable("resume")
        return self.done_before

    def complete_unit(self, _: Ports, unit: Any, outcome: UnitOutcome) -> None:
        self.calls.append((outcome.state, unit.index, outcome.text))

    def code(self, context: TaskSubject | None, _: Start) -> Json:
        self.calls.append(("run", context))
        if isinstance(self.returned, Exception):
            raise self.returned
        return self.returned

    def fail_if_unavailable(self, operation: str) -> None:
        if self.unavailable == operation:
            raise Unavailable("the store is away")

    def run(self, context: dict[str, Any], executions: int = 0, retries: int = 0) -> list[Any]:
        unused: Any = None
        delivered = parsed(Delivered("op", context, executions, retries))
        ports = Ports(self.store, unused, ManualClock(), self.log)
        runs.run(ports, delivered, RETRY_LIMITS, lambda _: self.live, self.code)
        return self.calls

    def counted(self) -> int | None:
        """Return how many starts are counted; None without a record."""
        data = self.store.read(RECORD)[0].data
        return None if data is None else data["starts"]

    def count(self, starts: int) -> None:
        """Write that many starts as counted."""
        self.store.commit([Put(RECORD, {"starts": starts})])


class AbsentStore(MemoryStore):
    """A store that can be away for commits."""

    def __init__(self) -> None:
        clock = ManualClock()
        super().__init__(lambda: clock.now)
        self.away = False

    def commit(self, writes: Sequence[Write]) -> Committed:
        if self.away:
            raise Unavailable("the store is away")
        return super().commit(writes)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeOperations:
    operations = FakeOperations()
    for room in (lease_runs, unit_runs):
        monkeypatch.setattr(room, "leases", operations)
        monkeypatch.setattr(room, "waits", operations)
    monkeypatch.setattr(unit_runs, "units", operations)
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


def test_a_lease_that_is_kept_is_logged_with_its_end(fake: FakeOperations) -> None:
    fake.returned = KeyError("bug")
    with pytest.raises(KeyError):
        fake.run({"lease": LEASE})
    values = {"semaphore": "s", "lease": "w~2", "ends_at": "2026-01-01T00:00:00Z"}
    assert fake.log.infos == [("lease kept for the retry", values)]


def test_a_start_too_many_runs_no_code_and_gives_the_lease_back(fake: FakeOperations) -> None:
    fake.count(3)
    with pytest.raises(GaveUp):
        fake.run({"lease": LEASE}, retries=1)
    assert fake.calls == [("claim", "w~1"), ("release", "w~2")]


def test_a_lease_that_was_not_claimed_costs_no_start(fake: FakeOperations) -> None:
    fake.claimed = None
    fake.run({"lease": LEASE}, retries=1)
    fake.unavailable = "claim"
    with pytest.raises(Unavailable):
        fake.run({"lease": LEASE}, retries=1)
    assert fake.counted() is None


CONTEXTS: tuple[dict[str, Any], ...] = ({"lease": LEASE}, {"unit": UNIT}, {})


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_first_delivery_that_returns_counts_nothing(fake: FakeOperations, context: dict[str, Any]) -> None:
    fake.store.away = True
    assert [call for call in fake.run(context) if call[0] == "run"] != []


@pytest.mark.parametrize(("executions", "retries"), [(1, 0), (0, 1), (40, 40)])
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_repeated_delivery_counts_its_start_however_often_it_was_delivered(
    fake: FakeOperations, context: dict[str, Any], executions: int, retries: int
) -> None:
    assert "run" in [call[0] for call in fake.run(context, executions, retries)]
    assert fake.counted() == 1


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_start_that_cannot_be_counted_does_not_happen(fake: FakeOperations, context: dict[str, Any]) -> None:
    fake.store.away = True
    for retries in range(1, 50):
        with pytest.raises(Unavailable):
            fake.run(context, retries=retries)
    assert "run" not in [call[0] for call in fake.calls]
    fake.store.away = False
    assert "run" in [call[0] for call in fake.run(context, retries=50)]
    assert fake.counted() == 1


@pytest.mark.parametrize("error", [KeyError("bug"), Unavailable("later")])
@pytest.mark.parametrize("context", CONTEXTS)
def test_code_that_raises_is_started_exactly_as_often_as_it_may(
    fake: FakeOperations, context: dict[str, Any], error: Exception
) -> None:
    fake.returned = error
    for retries in range(3):
        with pytest.raises(type(error)):
            fake.run(context, retries=retries)
    assert fake.counted() == 3
    with suppress(GaveUp):
        fake.run(context, retries=3)
    assert [call[0] for call in fake.calls].count("run") == 3


def test_a_first_start_that_cannot_be_counted_raises_what_the_code_raised(fake: FakeOperations) -> None:
    fake.returned, fake.store.away = KeyError("bug"), True
    with pytest.raises(KeyError):
        fake.run({})


def test_a_problem_of_a_first_delivery_counts_nothing(fake: FakeOperations) -> None:
    fake.returned = BadValue("no")
    with pytest.raises(BadValue):
        fake.run({})
    assert fake.counted() is None


def test_a_unit_records_what_the_code_returns(fake: FakeOperations) -> None:
    fake.returned = {"color": "#FFFFFF"}
    assert fake.run({"unit": UNIT}) == [("run", Unit("b", 3, 0)), ("succeeded", 3, '{"color":"#FFFFFF"}')]


def test_a_unit_whose_code_raises_a_problem_is_recorded_as_failed_and_not_retried(fake: FakeOperations) -> None:
    fake.returned = BadValue("no such colour")
    assert fake.run({"unit": UNIT})[1:] == [("failed", 3, "no such colour")]


def test_a_unit_whose_result_is_not_json_is_recorded_as_failed(fake: FakeOperations) -> None:
    fake.returned = {1}  # type: ignore[assignment]  # what is no JSON must be refused
    assert fake.run({"unit": UNIT})[1][0] == "failed"


def test_a_unit_whose_code_raises_anything_else_is_not_recorded(fake: FakeOperations) -> None:
    fake.returned = KeyError("bug")
    with pytest.raises(KeyError):
        fake.run({"unit": UNIT})
    assert fake.calls == [("run", Unit("b", 3, 0))]


def test_a_unit_with_a_start_too_many_is_recorded_as_failed_without_running(fake: FakeOperations) -> None:
    fake.count(3)
    assert fake.run({"unit": UNIT}, retries=1) == [("resume", 3), ("failed", 3, "Gave up after 3 attempts.")]


def test_a_unit_whose_outcome_cannot_be_looked_for_costs_no_start(fake: FakeOperations) -> None:
    fake.unavailable = "resume"
    with pytest.raises(Unavailable):
        fake.run({"unit": UNIT}, retries=1)
    assert fake.counted() is None


def test_a_unit_that_was_done_before_does_not_run_again(fake: FakeOperations) -> None:
    fake.done_before = True
    assert fake.run({"unit": UNIT}, retries=1) == [("resume", 3)]
    assert fake.counted() is None


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


def test_a_task_without_a_context_runs_until_it_was_started_too_often(fake: FakeOperations) -> None:
    assert fake.run({}) == [("run", None)]
    fake.count(3)
    with pytest.raises(GaveUp):
        fake.run({}, retries=1)
    assert fake.calls == [("run", None)]


@pytest.mark.parametrize("context", [{"lease": {"id": 1}}, {"unit": 7}, {"batch": {}}])
def test_a_malformed_context_is_refused(fake: FakeOperations, context: dict[str, Any]) -> None:
    with pytest.raises(Problem):
        fake.run(context)
