"""A retry with other arguments while another retry of the unit is under way: it runs if that one fails."""

from collections.abc import Iterator
from typing import Any

import pytest

from signalbox import Function, Problem, Unit, batch, rate, semaphore
from signalbox.batches.limits import LIMITS
from signalbox.batches.sweep import sweep
from signalbox.rates.requests import WAIT_IDS
from signalbox.testing import Harness

SEEN: list[tuple[int, int]] = []
"""The attempts of unit 1, with the argument of each."""

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "concurrency": {"concurrency": 1},
    "rate": {"rate": "r"},
    "semaphore": {"semaphore": "s"},
    "per_task": {"per_task": 2},
    "per_task and concurrency": {"per_task": 2, "concurrency": 1},
}
HOURS = 2


@pytest.fixture
def project() -> Iterator[Harness]:
    SEEN.clear()
    with Harness() as entered:
        app = Function("shop")

        @app.task
        def halve(unit: Unit, n: int) -> int:
            if unit.index == 1:
                SEEN.append((unit.attempt, n))
            if n % 4:
                raise Problem(f"{n} is not a multiple of 4")
            return n // 4

        entered.add(app)
        rate("r").ensure(per_minute=6_000, burst=100)
        semaphore("s").ensure(permits=5)
        yield entered


def populate(project: Harness, kind: str) -> None:
    body = {
        "id": "b",
        "task": {"function": "shop", "task": "halve"},
        "units": [{"n": 0}, {"n": 3}, {"n": 8}],
        "sealed": True,
        **OPTIONS[kind],
    }
    assert project.post("batches", json=body).status == 201
    project.run(raise_errors=False)
    assert SEEN == [(0, 3)]


def retry(project: Harness, key: str = "", **body: Any) -> None:
    headers = {"Idempotency-Key": key} if key else {}
    assert project.post("batches/b/retry", json=body, headers=headers).status == 202


def enqueue_only(project: Harness) -> None:
    """Run the kit's tasks of batches; the units' tasks wait in their queue."""
    while kits := [task for task in project.tasks if task.function == "batch_expand" and not task.not_before]:
        project.deliver_task(kits[0])


def hours_pass(project: Harness) -> None:
    """Let hours pass. After each, the names of ended tasks are free again."""
    for _ in range(HOURS):
        project.travel(3_600, raise_errors=False)
        project.queue.names.intersection_update(task.name for task in project.tasks)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", OPTIONS)
def test_the_corrected_arguments_run_after_the_retry_that_is_under_way(
    project: Harness, kind: str, named: bool
) -> None:
    populate(project, kind)
    retry(project)
    enqueue_only(project)
    body: dict[str, Any] = {"units": [1]} if named else {}
    retry(project, payload={"n": 40}, **body)
    project.run(raise_errors=False)
    assert SEEN == [(0, 3), (1, 3), (2, 40)]
    assert list(batch("b").results("failed")) == []


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_retry_that_is_repeated_under_its_key_retries_once(project: Harness, kind: str) -> None:
    populate(project, kind)
    for _ in range(2):
        retry(project, "k")
        enqueue_only(project)
    project.run(raise_errors=False)
    retry(project, "k")
    project.run(raise_errors=False)
    assert SEEN == [(0, 3), (1, 3)]


@pytest.mark.parametrize("kind", OPTIONS)
def test_each_of_three_retries_runs_until_one_succeeds(project: Harness, kind: str) -> None:
    populate(project, kind)
    for n in (5, 6, 7):
        retry(project, payload={"n": n})
        enqueue_only(project)
    project.run(raise_errors=False)
    assert sorted(SEEN) == SEEN
    assert sorted(n for _, n in SEEN) == [3, 5, 6, 7]


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_retry_after_one_that_succeeds_runs_nothing(project: Harness, kind: str) -> None:
    populate(project, kind)
    retry(project, payload={"n": 40})
    enqueue_only(project)
    retry(project, payload={"n": 5})
    project.run(raise_errors=False)
    assert SEEN == [(0, 3), (1, 40)]


@pytest.mark.parametrize("payload", [{}, {"n": 5}])
@pytest.mark.parametrize("kind", ["rate", "semaphore"])
def test_a_retry_without_arguments_runs_after_one_that_waited_for_its_permits_for_hours(
    project: Harness, kind: str, payload: dict[str, int]
) -> None:
    populate(project, kind)
    (rate("r") if kind == "rate" else semaphore("s")).pause()
    retry(project, payload=payload)
    hours_pass(project)
    retry(project)
    hours_pass(project)
    (rate("r") if kind == "rate" else semaphore("s")).resume()
    hours_pass(project)
    assert [(0, 3), (1, payload.get("n", 3)), (2, 3)] == SEEN


@pytest.mark.parametrize("kind", ["rate", "semaphore"])
def test_a_retry_that_made_its_wait_itself_looks_at_nothing_again(project: Harness, kind: str) -> None:
    populate(project, kind)
    (rate("r") if kind == "rate" else semaphore("s")).pause()
    retry(project)
    project.run(raise_errors=False)
    assert [task for task in project.tasks if task.task == "retry"] == []


@pytest.mark.parametrize("kind", ["rate", "semaphore"])
def test_the_retry_that_is_under_way_may_wait_for_its_permits_for_hours(project: Harness, kind: str) -> None:
    populate(project, kind)
    (rate("r") if kind == "rate" else semaphore("s")).pause()
    retry(project)
    hours_pass(project)
    retry(project, payload={"n": 40})
    hours_pass(project)
    (rate("r") if kind == "rate" else semaphore("s")).resume()
    hours_pass(project)
    assert SEEN == [(0, 3), (1, 3), (2, 40)]


# --- the waits of retries ---


def test_the_waits_of_retries_end_when_their_batch_is_removed(project: Harness) -> None:
    populate(project, "rate")
    rate("r").pause()
    retry(project)
    project.run(raise_errors=False)
    assert project.get("rates/r").json["waiting"] == 1
    for _ in range(2):
        project.travel(LIMITS.batch_keep_seconds, raise_errors=False)
        sweep(project.ports)
    project.run(raise_errors=False)
    assert project.get("batches/b").status == 404
    assert project.get("rates/r").json["waiting"] == 0


def test_a_unit_whose_wait_for_a_rate_was_cancelled_by_hand_fails_though_its_task_was_lost(project: Harness) -> None:
    rate("r").pause()
    body = {"id": "b", "task": {"function": "shop", "task": "halve"}, "units": [{"n": 0}], "sealed": True, "rate": "r"}
    assert project.post("batches", json=body).status == 201
    enqueue_only(project)
    [task] = [task for task in project.tasks if task.task == "halve"]
    project.deliver_task(task)
    assert rate("r").cancel(WAIT_IDS.derived(task.name))
    project.tasks.clear()  # the task that fails the unit is lost
    project.deliver_task(task, executions=1, retries=1)
    assert [unit["error"] for unit in batch("b").results("failed")] == [
        "The wait for a permit of the rate 'r' was cancelled."
    ]
