"""A task that gives its permit back between its attempts: others go first, its count and its promises stay."""

import json
from typing import Any

import pytest

from signalbox import Call, Function, Lease, Problem, TaskContext, semaphore
from signalbox.core.effects import Effect
from signalbox.core.ports import Put
from signalbox.core.problems import Unavailable
from signalbox.semaphores import sweep
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.service import leases, views, waits
from signalbox.tasks.service import lease_runs
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from tests.unit.functions.test_functions import _away

RAN: list[tuple[str, int, str]] = []


class Refused(Problem):
    title = "Refused"


@pytest.fixture
def press(harness: Harness) -> Any:
    """A press with one permit, and a task that takes `seconds` and raises until `after` starts."""
    RAN.clear()
    app = Function("press")

    @app.task(attempts_max=3)
    def stamp(
        lease: Lease, context: TaskContext, sheet: str, after: int = 0, refused: bool = False, seconds: int = 0
    ) -> None:
        RAN.append((sheet, context.attempt, context.operation))
        harness.advance(seconds)
        if refused:
            raise Refused("no")
        if context.attempt <= after:
            raise RuntimeError(sheet)

    harness.add(app)
    semaphore("press").ensure(permits=1, lease_seconds=600)
    return stamp


def wait(call: Call[Any], **how: Any) -> None:
    semaphore("press").wait(call, release_on_return=True, **how)


def deliver(harness: Harness) -> int:
    """Deliver the one task of the press that is waiting; return the status."""
    return harness.deliver_task(harness.take("stamp")).status


def sheets() -> list[tuple[str, int]]:
    return [(sheet, attempt) for sheet, attempt, _ in RAN]


def test_other_waiters_run_between_the_attempts_and_the_count_continues(harness: Harness, press: Any) -> None:
    wait(press.call(sheet="a", after=2), release_on_failure=True)
    wait(press.call(sheet="b"))
    harness.run(raise_errors=False)
    assert sheets() == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]
    assert len({operation for sheet, _, operation in RAN if sheet == "a"}) == 1
    assert semaphore("press").acquire() is not None
    assert harness.get("failures").json["failures"] == []


def test_without_it_the_permit_is_kept_for_the_retry(harness: Harness, press: Any) -> None:
    wait(press.call(sheet="a", after=1))
    assert deliver(harness) == 500
    assert semaphore("press").acquire() is None


def test_a_failed_attempt_is_acknowledged_and_logged_and_the_next_is_due_after_the_queues_pause(
    harness: Harness, press: Any
) -> None:
    wait(press.call(sheet="a", after=2), release_on_failure=True)
    assert deliver(harness) == 204
    assert "attempt failed, permit released" in [message for message, _ in harness.log.errors]
    task = harness.take("stamp")
    assert task.context["lease"]["resumed"] == 1
    assert semaphore("press").acquire() is None, "without other waiters, the permit is granted to the next attempt"


def test_a_task_that_fails_at_every_attempt_is_given_up_under_its_first_operation(harness: Harness, press: Any) -> None:
    wait(press.call(sheet="a", after=99), release_on_failure=True)
    harness.run(raise_errors=False)
    assert sheets() == [("a", 1), ("a", 2), ("a", 3)]
    [failure] = harness.get("failures").json["failures"]
    assert (failure["id"], failure["attempts"]) == (RAN[0][2], 3)
    assert semaphore("press").acquire() is not None


@pytest.mark.parametrize("between", [False, True])
def test_a_task_that_outlives_its_lease_every_time_and_raises_is_given_up(
    harness: Harness, press: Any, between: bool
) -> None:
    """After each lost lease its next task continues the count, under one operation."""
    wait(press.call(sheet="a", after=99, seconds=700), release_on_failure=between)
    harness.run(raise_errors=False)
    assert sheets() == [("a", 1), ("a", 2), ("a", 3)]
    assert len({operation for _, _, operation in RAN}) == 1
    [failure] = harness.get("failures").json["failures"]
    assert failure["attempts"] == 3
    assert semaphore("press").acquire() is not None


def admitted(harness: Harness) -> Effect:
    """Run the admit runs that are due, and return the task of the grant."""
    harness.advance(3)
    for task in list(harness.tasks):
        if task.task == "admit" and harness.queue.due_at(task) <= harness.clock.now:
            harness.deliver_task(task)
    return harness.take("stamp")


@pytest.mark.parametrize("between", [False, True])
def test_grants_that_expire_before_their_task_comes_are_no_starts_and_keep_the_operation(
    harness: Harness, press: Any, between: bool
) -> None:
    wait(press.call(sheet="a", after=99), release_on_failure=between)
    task = first = harness.take("stamp")
    for _ in range(4):  # more than `attempts_max`
        harness.advance(LIMITS.claim_seconds + 1)
        assert harness.deliver_task(task).status == 204
        task = admitted(harness)
    assert RAN == []
    harness.queue.tasks.append(task)
    harness.run(raise_errors=False)
    assert sheets() == [("a", 1), ("a", 2), ("a", 3)]
    assert {operation for _, _, operation in RAN} == {first.name}


def test_a_call_that_was_made_before_the_lease_was_lost_is_recognised(harness: Harness) -> None:
    app, printed = Function("press"), list[int]()

    @app.task
    def page(number: int, note: str = "", notes: dict[str, str] | None = None) -> None:
        printed.append(number)

    @app.task
    def stamp(lease: Lease, context: TaskContext) -> None:
        page.call(number=1).enqueue()
        page.call(number=3, note=f"{lease.id} (token {lease.token}) ends at {lease.ends_at}").enqueue()
        page.call(number=4, note=json.dumps({"lease": lease.id, "at": lease.ends_at.isoformat()})).enqueue()
        page.call(number=5, notes={lease.id: "held"}).enqueue()
        semaphore("other").wait(page.call(number=2), release_on_return=True)
        harness.advance(700)
        if context.attempt < 3:
            raise RuntimeError

    harness.add(app)
    semaphore("press").ensure(permits=1, lease_seconds=600)
    semaphore("other").ensure(permits=2)
    wait(stamp.call())
    harness.run(raise_errors=False)
    assert sorted(printed) == [1, 2, 3, 4, 5]


def test_the_retry_of_a_task_that_lost_its_leases_begins_a_new_count(harness: Harness, press: Any) -> None:
    wait(press.call(sheet="a", after=99, seconds=700))
    harness.run(raise_errors=False)
    [failure] = harness.get("failures").json["failures"]
    RAN.clear()
    harness.post(f"failures/{failure['id']}/retry")
    harness.run(raise_errors=False)
    assert sheets() == [("a", 1), ("a", 2), ("a", 3)]
    assert failure["id"] not in {operation for _, _, operation in RAN}


def test_a_problem_gives_it_up_at_once(harness: Harness, press: Any) -> None:
    wait(press.call(sheet="a", refused=True), release_on_failure=True)
    assert deliver(harness) == 204
    assert sheets() == [("a", 1)]
    assert semaphore("press").acquire() is not None


def test_a_process_that_dies_before_the_release_leaves_it_to_the_next_delivery(
    harness: Harness, press: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait(press.call(sheet="a", after=1), release_on_failure=True)
    task = harness.take("stamp")
    with monkeypatch.context() as patch:
        patch.setattr(leases, "release", _away)
        assert harness.deliver_task(task).status == 503
    assert harness.deliver_task(task, executions=1).status == 204
    assert sheets() == [("a", 1)], "the attempt that waits is the next"
    harness.run(raise_errors=False)
    assert sheets() == [("a", 1), ("a", 2)]


def test_the_next_wait_closes_the_semaphore_in_its_commit(
    harness: Harness, press: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the release finds it, whatever becomes of the process that made it."""
    wait(press.call(sheet="a", after=1), release_on_failure=True)
    wait(press.call(sheet="b"))
    task = harness.take("stamp")
    with monkeypatch.context() as patch:
        patch.setattr(leases, "release", _away)
        assert harness.deliver_task(task).status == 503
    assert views.get(harness.ports, "press").semaphore.mode == "closed"
    assert harness.deliver_task(task, executions=1).status == 204
    harness.run(raise_errors=False)
    assert sheets() == [("a", 1), ("b", 1), ("a", 2)]


@pytest.mark.parametrize("lost", ["expired", "taken over", "ended by hand"])
@pytest.mark.parametrize("at", ["before the commit", "after it"])
def test_a_lease_that_is_lost_while_the_next_wait_is_made_gives_one_task(
    harness: Harness, press: Any, monkeypatch: pytest.MonkeyPatch, lost: str, at: str
) -> None:
    wait(press.call(sheet="a", after=1), release_on_failure=True)
    task, losses = harness.take("stamp"), [lost]

    def lose() -> None:
        match losses.pop():
            case "ended by hand":
                [lease] = views.get(harness.ports, "press").semaphore.leases
                semaphore("press").signal(lease.held("press"))
            case "expired":
                harness.advance(700)
                assert harness.deliver_task(task, executions=1).status == 204
            case _:
                harness.deliver_task(task, executions=1)

    real = harness.store.commit

    def committed(writes: Any) -> Any:
        is_next = losses and any("/waiters/" in write.path and isinstance(write, Put) for write in writes)
        if is_next and at == "before the commit":
            lose()
        done = real(writes)
        if is_next and losses:
            lose()
        return done

    monkeypatch.setattr(harness.store, "commit", committed)
    harness.deliver_task(task)
    harness.run(raise_errors=False)
    expected = [("a", 1)] if lost == "ended by hand" and at == "before the commit" else [("a", 1), ("a", 2)]
    assert sheets() == expected


@pytest.mark.parametrize("seconds", [1, 700])
def test_a_delivery_that_looked_before_the_next_wait_was_made_runs_nothing(
    harness: Harness, press: Any, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """It takes the lease over and looks again; or the lease has expired, and the next grant of its wait looks."""
    wait(press.call(sheet="a", after=1), release_on_failure=True)
    task, looks, look = harness.take("stamp"), [False], lease_runs.is_resumed
    with monkeypatch.context() as patch:
        patch.setattr(leases, "release", _away)
        assert harness.deliver_task(task).status == 503
    harness.advance(seconds)
    monkeypatch.setattr(lease_runs, "is_resumed", lambda *given: looks.pop() if looks else look(*given))
    assert harness.deliver_task(task, executions=1).status == 204
    harness.run(raise_errors=False)
    assert sheets() == [("a", 1), ("a", 2)]


def test_a_late_delivery_makes_no_wait_in_a_semaphore_that_was_created_again(
    harness: Harness, press: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt has returned. Its record is left until the clean-up of the deleted semaphore."""
    semaphore("press").ensure(permits=2, lease_seconds=600)
    wait(press.call(sheet="a", after=1), release_on_failure=True)
    task = harness.take("stamp")
    with monkeypatch.context() as patch:
        patch.setattr(leases, "release", _away)
        assert harness.deliver_task(task).status == 503
    harness.advance(30)
    assert harness.deliver_task(harness.take("stamp")).status == 204
    harness.advance(1)
    sweep.delete(harness.ports, "press")
    semaphore("press").ensure(permits=2, lease_seconds=600)
    assert harness.deliver_task(task, executions=1).status == 204
    harness.run(raise_errors=False)
    assert sheets() == [("a", 1), ("a", 2)]


@pytest.mark.parametrize("error", [Unavailable("away"), Refused("the semaphore is gone")])
def test_if_it_cannot_wait_again_the_lease_is_kept_and_the_queue_retries(
    harness: Harness, press: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    wait(press.call(sheet="a", after=1), release_on_failure=True)
    task = harness.take("stamp")

    def fail(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(waits, "wait_again", fail)
        assert harness.deliver_task(task).status == 500
    assert semaphore("press").acquire() is None
    assert harness.deliver_task(task, executions=1).status == 204
    assert sheets() == [("a", 1), ("a", 2)]


@pytest.mark.parametrize("lost", ["expired, returned to the queue", "taken over", "ended by hand"])
def test_an_attempt_that_has_lost_its_lease_makes_no_wait(harness: Harness, lost: str) -> None:
    """The loss, with its second delivery, happens while the code of the first delivery runs."""
    ran, app = list[int](), Function("press")
    semaphore("press").ensure(permits=1, lease_seconds=600)

    @app.task(attempts_max=9)
    def stamp(lease: Lease) -> None:
        ran.append(lease.token)
        if len(ran) > 1:
            return
        if lost == "ended by hand":
            semaphore("press").signal(lease)
        else:
            harness.advance(700 if lost.startswith("expired") else 1)
            assert harness.deliver_task(task, executions=1).status == 204
        raise RuntimeError("the first delivery")

    harness.add(app)
    wait(stamp.call(), release_on_failure=True)
    task = harness.take("stamp")
    assert harness.deliver_task(task).status == 500
    assert harness.deliver_task(task, executions=2, retries=1).status == 204
    harness.run(raise_errors=False)
    assert len(ran) == (1 if lost == "ended by hand" else 2)


def test_http_takes_it_with_a_continuation_only(harness: Harness, press: Any) -> None:
    continuation = {"function": "press", "task": "stamp", "payload": {"sheet": "a"}}
    assert harness.post("semaphore-wait/press", json={"release_on_failure": True}).status == 400
    for kits_own in ({"resumes": "x"}, {"resumed": 1}):
        assert harness.post("semaphore-wait/press", json={"continuation": continuation, **kits_own}).status == 400
    body = {"continuation": continuation, "release_on_failure": True}
    assert harness.post("semaphore-wait/press", json=body).status == 202
    assert harness.take("stamp").context["lease"]["release_on_failure"] is True


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("refused", [False, True])
def test_what_a_task_returns_or_raises_is_its_end_although_its_semaphore_is_deleted_while_it_runs(
    harness: Harness, again: bool, between: bool, refused: bool
) -> None:
    app = Function("forge")

    @app.task
    def hammer(lease: Lease) -> None:
        assert harness.delete("semaphores/forge").status == 204
        if again:
            semaphore("forge").ensure(permits=1)
        if refused:
            raise Refused("no")

    harness.add(app)
    semaphore("forge").ensure(permits=1)
    semaphore("forge").wait(hammer.call(), release_on_return=True, release_on_failure=between)
    harness.run(raise_errors=False)
    failures = harness.get("failures").json["failures"]
    assert [failure["detail"] for failure in failures] == (["no"] if refused else [])
    assert [values["problem"] for message, values in harness.log.errors] == (["refused"] if refused else [])
