"""A paused semaphore grants nothing; leases continue, waiters keep their places, and a resume grants at once."""

from typing import Any

import pytest

from signalbox import Function, Lease, semaphore
from signalbox.adapters import runtime
from signalbox.adapters.cost_meter import Cost, measure
from signalbox.semaphores import sweep
from signalbox.semaphores.model.semaphore import path_of
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.service import views
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from tests.unit.cost_table import row_cost

RAN: list[int] = []


@pytest.fixture
def page(harness: Harness) -> Any:
    RAN.clear()
    app = Function("shop")

    @app.task
    def print_page(lease: Lease, n: int) -> None:
        RAN.append(n)

    harness.add(app)
    semaphore("printer").ensure(permits=1, lease_seconds=60)
    return print_page


def test_nothing_is_granted_in_a_pause_and_a_resume_grants_in_order(harness: Harness, page: Any) -> None:
    printer = semaphore("printer")
    printer.pause()
    for n in range(3):
        assert not printer.wait(page.call(n=n), release_on_return=True)
    assert printer.acquire() is None
    harness.travel(3_600)
    assert RAN == []
    printer.resume()
    assert printer.acquire() is None  # those that wait are first
    harness.travel(5)
    assert RAN == [0, 1, 2]


def test_a_lease_continues_in_a_pause_and_its_release_grants_nothing(harness: Harness, page: Any) -> None:
    printer = semaphore("printer")
    lease = printer.acquire()
    assert lease is not None
    printer.wait(page.call(n=1), release_on_return=True)
    printer.pause()
    assert printer.renew(lease)
    assert printer.signal(lease)
    harness.travel(600)
    assert RAN == []
    printer.resume()
    harness.travel(5)
    assert RAN == [1]


def test_a_grant_from_before_a_pause_runs_and_a_redelivery_runs_again_under_its_lease(
    harness: Harness, page: Any
) -> None:
    semaphore("printer").wait(page.call(n=1))
    semaphore("printer").pause()
    [task] = harness.tasks
    harness.deliver_task(task)
    harness.deliver_task(task)
    assert RAN == [1, 1]


def test_a_lost_task_of_a_resume_is_made_up_for_by_the_sweeper(harness: Harness, page: Any) -> None:
    printer = semaphore("printer")
    printer.pause()
    printer.wait(page.call(n=1), release_on_return=True)
    printer.resume()
    harness.tasks.clear()
    harness.advance(300)
    sweep.sweep(runtime.ports())
    harness.run()
    assert RAN == [1]


def test_a_pause_over_http(harness: Harness, page: Any) -> None:
    paused = harness.post("semaphores/printer/pause", json={})
    assert paused.status == 200
    assert paused.json["free"] == 0
    assert harness.post("semaphores/printer/pause", json={}).json == paused.json
    assert harness.get("semaphores/printer").json["paused_at"] == paused.json["paused_at"]
    assert harness.post("semaphore-wait/printer", json={}).json == {"acquired": False, "paused": True}
    assert harness.patch("semaphores/printer", json={"permits": 2}).json["paused_at"]
    resumed = harness.post("semaphores/printer/resume", json={}).json
    assert "paused_at" not in resumed
    assert resumed["free"] == 2
    assert harness.post("semaphores/plotter/pause", json={}).status == 404


def test_a_paused_semaphore_is_not_deleted_because_it_is_unused(harness: Harness, page: Any) -> None:
    semaphore("own").ensure(permits=1, delete_after_seconds=60)
    semaphore("own").pause()
    for _ in range(5):
        harness.advance(3_600)
        sweep.sweep(runtime.ports())
    assert harness.record(path_of("own"))["paused_at"]
    semaphore("own").resume()
    for _ in range(5):
        harness.advance(3_600)
        sweep.sweep(runtime.ports())
    with pytest.raises(NoSemaphore):
        views.get(runtime.ports(), "own")


def test_only_a_paused_record_has_the_field(harness: Harness, page: Any) -> None:
    semaphore("printer").pause()
    assert "paused_at" in harness.record(path_of("printer"))
    semaphore("printer").resume()
    assert "paused_at" not in harness.record(path_of("printer"))


def test_a_pause_and_a_resume_cost_what_the_table_says(harness: Harness, page: Any) -> None:
    assert _cost(semaphore("printer").pause) == row_cost("semaphores", "pause")
    semaphore("printer").wait(page.call(n=1))
    assert _cost(semaphore("printer").resume) == row_cost("semaphores", "resume")


def _cost(act: Any) -> Cost:
    with measure() as cost:
        act()
    return cost
